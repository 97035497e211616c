package cri

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func zero() *runtimeapi.UInt64Value { return &runtimeapi.UInt64Value{} }

// nothing is the usage of what is no process. Both are there, because the kubelet looks in cAdvisor for what is not. There is no limit, hence no
// available memory.
func nothing(at int64) (*runtimeapi.CpuUsage, *runtimeapi.MemoryUsage) {
	return &runtimeapi.CpuUsage{Timestamp: at, UsageCoreNanoSeconds: zero(), UsageNanoCores: zero()},
		&runtimeapi.MemoryUsage{
			Timestamp: at, WorkingSetBytes: zero(), UsageBytes: zero(), RssBytes: zero(), PageFaults: zero(), MajorPageFaults: zero(),
		}
}

// stats has no file system in the writable layer: with one, a kubelet that cannot find it fails the statistics of the whole node.
func (c *container) stats(at int64) *runtimeapi.ContainerStats {
	cpu, memory := nothing(at)
	return &runtimeapi.ContainerStats{
		Attributes: &runtimeapi.ContainerAttributes{
			Id: c.id, Metadata: c.config.GetMetadata(), Labels: c.config.GetLabels(), Annotations: c.config.GetAnnotations(),
		},
		Cpu: cpu, Memory: memory,
		WritableLayer: &runtimeapi.FilesystemUsage{Timestamp: at, UsedBytes: zero(), InodesUsed: zero()},
		Swap:          &runtimeapi.SwapUsage{Timestamp: at, SwapAvailableBytes: zero(), SwapUsageBytes: zero()},
	}
}

// containerStats returns the statistics of the running ones among containers.
func (s *Server) containerStats(containers []*container) []*runtimeapi.ContainerStats {
	var items []*runtimeapi.ContainerStats
	for _, c := range containers {
		if c.state == runtimeapi.ContainerState_CONTAINER_RUNNING {
			items = append(items, c.stats(stamp(s.clock.Now())))
		}
	}
	return items
}

// ContainerStats returns zeroes for a container in any state.
func (s *Server) ContainerStats(_ context.Context, r *runtimeapi.ContainerStatsRequest) (*runtimeapi.ContainerStatsResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, err := s.findContainer(r.GetContainerId())
	if err != nil {
		return nil, err
	}
	return &runtimeapi.ContainerStatsResponse{Stats: c.stats(stamp(s.clock.Now()))}, nil
}

func (s *Server) listContainerStats(f *runtimeapi.ContainerStatsFilter) []*runtimeapi.ContainerStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.containerStats(s.containersBy(f.GetId(), f.GetPodSandboxId(), f.GetLabelSelector()))
}

// ListContainerStats returns zeroes for each running container that matches all of the filter.
func (s *Server) ListContainerStats(_ context.Context, r *runtimeapi.ListContainerStatsRequest) (*runtimeapi.ListContainerStatsResponse, error) {
	return &runtimeapi.ListContainerStatsResponse{Stats: s.listContainerStats(r.GetFilter())}, nil
}

// StreamContainerStats is ListContainerStats as a stream.
func (s *Server) StreamContainerStats(r *runtimeapi.StreamContainerStatsRequest, to runtimeapi.RuntimeService_StreamContainerStatsServer) error {
	return stream(s.listContainerStats(r.GetFilter()), to.Send, func(items []*runtimeapi.ContainerStats) *runtimeapi.StreamContainerStatsResponse {
		return &runtimeapi.StreamContainerStatsResponse{ContainerStats: items}
	})
}

// listPodStats returns statistics of ready sandboxes only, as containerd does.
func (s *Server) listPodStats(f *runtimeapi.PodSandboxStatsFilter) []*runtimeapi.PodSandboxStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	var items []*runtimeapi.PodSandboxStats
	for _, b := range s.sandboxesBy(f.GetId(), f.GetLabelSelector()) {
		if !b.ready {
			continue
		}
		at := stamp(s.clock.Now())
		cpu, memory := nothing(at)
		items = append(items, &runtimeapi.PodSandboxStats{
			Attributes: &runtimeapi.PodSandboxAttributes{
				Id: b.id, Metadata: b.config.GetMetadata(), Labels: b.config.GetLabels(), Annotations: b.config.GetAnnotations(),
			},
			Linux: &runtimeapi.LinuxPodSandboxStats{
				Cpu: cpu, Memory: memory, Process: &runtimeapi.ProcessUsage{Timestamp: at, ProcessCount: zero()},
				Containers: s.containerStats(s.containersOf(b)),
			},
		})
	}
	return items
}

// PodSandboxStats returns zeroes for a ready sandbox and NotFound for any other.
func (s *Server) PodSandboxStats(_ context.Context, r *runtimeapi.PodSandboxStatsRequest) (*runtimeapi.PodSandboxStatsResponse, error) {
	if id := r.GetPodSandboxId(); id != "" {
		if items := s.listPodStats(&runtimeapi.PodSandboxStatsFilter{Id: id}); len(items) == 1 {
			return &runtimeapi.PodSandboxStatsResponse{Stats: items[0]}, nil
		}
	}
	return nil, status.Errorf(codes.NotFound, "sandbox %q: no ready one found", r.GetPodSandboxId())
}

// ListPodSandboxStats returns zeroes for each ready sandbox that matches all of the filter, and for its containers.
func (s *Server) ListPodSandboxStats(
	_ context.Context, r *runtimeapi.ListPodSandboxStatsRequest,
) (*runtimeapi.ListPodSandboxStatsResponse, error) {
	return &runtimeapi.ListPodSandboxStatsResponse{Stats: s.listPodStats(r.GetFilter())}, nil
}

// StreamPodSandboxStats is ListPodSandboxStats as a stream.
func (s *Server) StreamPodSandboxStats(r *runtimeapi.StreamPodSandboxStatsRequest, to runtimeapi.RuntimeService_StreamPodSandboxStatsServer) error {
	return stream(s.listPodStats(r.GetFilter()), to.Send, func(items []*runtimeapi.PodSandboxStats) *runtimeapi.StreamPodSandboxStatsResponse {
		return &runtimeapi.StreamPodSandboxStatsResponse{PodSandboxStats: items}
	})
}
