package cri

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// sandbox is one pod's surroundings, of one attempt.
type sandbox struct {
	id      string
	serial  uint64
	name    string // as reserved
	config  *runtimeapi.PodSandboxConfig
	handler string
	created time.Time
	ready   bool
	// ip is invalid for pods on the host's network, and once the sandbox is stopped.
	ip netip.Addr
}

func (b *sandbox) state() runtimeapi.PodSandboxState {
	if b.ready {
		return runtimeapi.PodSandboxState_SANDBOX_READY
	}
	return runtimeapi.PodSandboxState_SANDBOX_NOTREADY
}

// namespaces are those that the kubelet asked for. It compares the network's with the pod's and makes a new sandbox when they differ.
func (b *sandbox) namespaces() *runtimeapi.NamespaceOption {
	return b.config.GetLinux().GetSecurityContext().GetNamespaceOptions()
}

// RunPodSandbox makes a ready sandbox with an address. Name, namespace, UID and attempt together are its name, reserved until it is removed.
func (s *Server) RunPodSandbox(_ context.Context, r *runtimeapi.RunPodSandboxRequest) (*runtimeapi.RunPodSandboxResponse, error) {
	meta := r.GetConfig().GetMetadata()
	if meta.GetName() == "" || meta.GetNamespace() == "" || meta.GetUid() == "" {
		return nil, status.Errorf(codes.InvalidArgument, "sandbox metadata: want name, namespace and uid, got %q", meta.String())
	}
	if !knownHandler(r.GetRuntimeHandler()) {
		return nil, status.Errorf(codes.InvalidArgument, "no runtime for %q is configured: want %q or none", r.GetRuntimeHandler(), runtimeName)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	name := fmt.Sprintf("%s_%s_%s_%d", meta.Name, meta.Namespace, meta.Uid, meta.Attempt)
	id, serial, err := s.reserve("sandbox", name)
	if err != nil {
		return nil, err
	}
	b := &sandbox{id: id, serial: serial, name: name, config: r.Config, handler: r.GetRuntimeHandler(), created: s.clock.Now(), ready: true}
	if b.namespaces().GetNetwork() != runtimeapi.NamespaceMode_NODE {
		if b.ip = s.addresses.take(); !b.ip.IsValid() {
			s.release("sandbox", name)
			return nil, status.Errorf(codes.ResourceExhausted, "failed to set up network for sandbox %q: no address left in %s", id, s.addresses.prefix)
		}
	}
	s.sandboxes[id] = b
	return &runtimeapi.RunPodSandboxResponse{PodSandboxId: id}, nil
}

// StopPodSandbox kills what runs in a sandbox and frees its address. A sandbox that is stopped or gone is no error.
func (s *Server) StopPodSandbox(_ context.Context, r *runtimeapi.StopPodSandboxRequest) (*runtimeapi.StopPodSandboxResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := s.sandboxes[r.GetPodSandboxId()]; b != nil {
		s.stop(b)
	}
	return &runtimeapi.StopPodSandboxResponse{}, nil
}

func (s *Server) stop(b *sandbox) {
	for _, c := range s.containersOf(b) {
		c.kill(s.clock.Now())
	}
	s.addresses.give(b.ip)
	b.ready, b.ip = false, netip.Addr{}
}

// RemovePodSandbox removes a sandbox and its containers, whatever their state. A sandbox that is gone is no error.
func (s *Server) RemovePodSandbox(_ context.Context, r *runtimeapi.RemovePodSandboxRequest) (*runtimeapi.RemovePodSandboxResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := s.sandboxes[r.GetPodSandboxId()]; b != nil {
		s.stop(b)
		for _, c := range s.containersOf(b) {
			s.remove(c)
		}
		delete(s.sandboxes, b.id)
		s.release("sandbox", b.name)
	}
	return &runtimeapi.RemovePodSandboxResponse{}, nil
}

// PodSandboxStatus answers NotFound for a sandbox that is gone, which the kubelet knows how to take. Timestamp and container statuses of the
// response stay empty: they would say that container events are supported (kuberuntime_manager.go, GetPodStatus).
func (s *Server) PodSandboxStatus(_ context.Context, r *runtimeapi.PodSandboxStatusRequest) (*runtimeapi.PodSandboxStatusResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, err := s.findSandbox(r.GetPodSandboxId())
	if err != nil {
		return nil, err
	}
	network := &runtimeapi.PodSandboxNetworkStatus{}
	if b.ip.IsValid() {
		network.Ip = b.ip.String()
	}
	return &runtimeapi.PodSandboxStatusResponse{Status: &runtimeapi.PodSandboxStatus{
		Id: b.id, Metadata: b.config.GetMetadata(), State: b.state(), CreatedAt: stamp(b.created), Network: network,
		Linux:  &runtimeapi.LinuxPodSandboxStatus{Namespaces: &runtimeapi.Namespace{Options: b.namespaces()}},
		Labels: b.config.GetLabels(), Annotations: b.config.GetAnnotations(), RuntimeHandler: b.handler,
	}}, nil
}

// UpdatePodSandboxResources accepts any resources of a sandbox that exists: there is nothing to limit.
func (s *Server) UpdatePodSandboxResources(
	_ context.Context, r *runtimeapi.UpdatePodSandboxResourcesRequest,
) (*runtimeapi.UpdatePodSandboxResourcesResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.findSandbox(r.GetPodSandboxId()); err != nil {
		return nil, err
	}
	return &runtimeapi.UpdatePodSandboxResourcesResponse{}, nil
}

func (s *Server) findSandbox(id string) (*sandbox, error) {
	if b := s.sandboxes[id]; b != nil {
		return b, nil
	}
	return nil, status.Errorf(codes.NotFound, "sandbox %q: not found", id)
}
