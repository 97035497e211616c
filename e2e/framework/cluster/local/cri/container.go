package cri

import (
	"context"
	"fmt"
	"math"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// CreateContainer makes a container in a ready sandbox, after checking that its mounts can be made. Its name and attempt are reserved within
// the pod until it is removed, and while it is being created: looking at a mount that hangs hangs this call, and no other.
func (s *Server) CreateContainer(_ context.Context, r *runtimeapi.CreateContainerRequest) (*runtimeapi.CreateContainerResponse, error) {
	config := r.GetConfig()
	if config.GetMetadata().GetName() == "" || config.GetImage().GetImage() == "" {
		return nil, status.Errorf(codes.InvalidArgument, "container config: want metadata.name and image.image, got %q and %q",
			config.GetMetadata().GetName(), config.GetImage().GetImage())
	}
	c, err := s.prepare(r.GetPodSandboxId(), config)
	if err != nil {
		return nil, err
	}
	err = checkMounts(config.GetMounts())
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		_, err = s.readySandbox(c.sandbox.id)
	}
	if err != nil {
		s.release("container", c.name)
		return nil, err
	}
	s.images[c.image.GetId()] = c.image
	c.created = s.clock.Now()
	s.containers[c.id] = c
	return &runtimeapi.CreateContainerResponse{ContainerId: c.id}, nil
}

// prepare reserves the name of a container that is not listed yet.
func (s *Server) prepare(sandboxID string, config *runtimeapi.ContainerConfig) (*container, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, err := s.readySandbox(sandboxID)
	if err != nil {
		return nil, err
	}
	pod, meta := b.config.GetMetadata(), config.GetMetadata()
	name := fmt.Sprintf("%s_%s_%s_%s_%d", meta.GetName(), pod.GetName(), pod.GetNamespace(), pod.GetUid(), meta.GetAttempt())
	id, serial, err := s.reserve("container", name)
	if err != nil {
		return nil, err
	}
	program := ParseProgram(config.GetCommand(), config.GetArgs())
	config.Envs = nil // may be large, and nobody asks
	return &container{
		id: id, serial: serial, name: name, sandbox: b, config: config, resources: config.GetLinux().GetResources(),
		image: s.image(config.GetImage()), program: program, ended: make(chan struct{}),
	}, nil
}

// StartContainer starts a created container, once. One that cannot start, because a mount or its sandbox is gone or its log cannot be written,
// has exited with code 128 and reason StartError.
func (s *Server) StartContainer(ctx context.Context, r *runtimeapi.StartContainerRequest) (*runtimeapi.StartContainerResponse, error) {
	c, err := s.claimStart(r.GetContainerId())
	if err != nil {
		return nil, err
	}
	err = checkMounts(c.config.GetMounts())
	if err == nil {
		err = touchLog(c.logPath())
	}
	if err == nil && s.startTime > 0 {
		select {
		case <-s.clock.After(s.startTime):
		case <-ctx.Done():
			err = status.FromContextError(ctx.Err()).Err()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c.starting = false
	if _, gone := s.findContainer(c.id); gone != nil {
		return nil, gone
	}
	if err == nil {
		_, err = s.readySandbox(c.sandbox.id)
	}
	c.started = s.clock.Now()
	if err != nil {
		c.fail(c.started, err)
		return nil, err
	}
	c.state = runtimeapi.ContainerState_CONTAINER_RUNNING
	return &runtimeapi.StartContainerResponse{}, nil
}

func (s *Server) claimStart(id string) (*container, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, err := s.findContainer(id)
	if err != nil {
		return nil, err
	}
	if c.state != runtimeapi.ContainerState_CONTAINER_CREATED || c.starting {
		return nil, status.Errorf(codes.FailedPrecondition, "start container %q: want state CONTAINER_CREATED, got %s (starting: %t)",
			id, c.state, c.starting)
	}
	c.starting = true
	return c, nil
}

// StopContainer ends a running container: at once with 143 where there is a grace period in which it can hear SIGTERM, else with 137, which one
// that ignores SIGTERM gets at the end of the grace period. A container that does not run or is gone is no error.
func (s *Server) StopContainer(ctx context.Context, r *runtimeapi.StopContainerRequest) (*runtimeapi.StopContainerResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, err := s.findContainer(r.GetContainerId())
	if err != nil {
		return &runtimeapi.StopContainerResponse{}, nil
	}
	switch {
	case r.GetTimeout() <= 0:
		c.kill(s.clock.Now())
	case !c.program.IgnoresTerm:
		c.end(s.clock.Now(), exitTerminated)
	case c.state == runtimeapi.ContainerState_CONTAINER_RUNNING:
		grace := time.Duration(min(r.GetTimeout(), math.MaxInt64/int64(time.Second))) * time.Second
		if left, ends := c.left(s.clock.Now()); ends {
			grace = min(grace, left)
		}
		timer := s.clock.NewTimer(grace)
		defer timer.Stop()
		s.mu.Unlock()
		select {
		case <-c.ended:
		case <-timer.C():
		case <-ctx.Done():
			err = status.FromContextError(ctx.Err()).Err()
		}
		s.mu.Lock()
		if err != nil {
			return nil, err
		}
		c.kill(s.clock.Now())
	}
	return &runtimeapi.StopContainerResponse{}, nil
}

// RemoveContainer removes a container, also a running one. A container that is gone is no error. The log is the kubelet's to remove.
func (s *Server) RemoveContainer(_ context.Context, r *runtimeapi.RemoveContainerRequest) (*runtimeapi.RemoveContainerResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.containers[r.GetContainerId()]; c != nil {
		c.kill(s.clock.Now())
		s.remove(c)
	}
	return &runtimeapi.RemoveContainerResponse{}, nil
}

func (s *Server) remove(c *container) {
	delete(s.containers, c.id)
	s.release("container", c.name)
}

// ContainerStatus answers NotFound for a container that is gone, which the kubelet knows how to take.
func (s *Server) ContainerStatus(_ context.Context, r *runtimeapi.ContainerStatusRequest) (*runtimeapi.ContainerStatusResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, err := s.findContainer(r.GetContainerId())
	if err != nil {
		return nil, err
	}
	return &runtimeapi.ContainerStatusResponse{Status: c.status()}, nil
}

// UpdateContainerResources keeps the resources for ContainerStatus, where the kubelet looks whether a resize has happened. Fields that are zero
// in the request stay as they were.
func (s *Server) UpdateContainerResources(
	_ context.Context, r *runtimeapi.UpdateContainerResourcesRequest,
) (*runtimeapi.UpdateContainerResourcesResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, err := s.findContainer(r.GetContainerId())
	if err != nil {
		return nil, err
	}
	merged := &runtimeapi.LinuxContainerResources{}
	if c.resources != nil {
		merged = proto.Clone(c.resources).(*runtimeapi.LinuxContainerResources)
	}
	if len(r.GetLinux().GetHugepageLimits()) > 0 {
		merged.HugepageLimits = nil // Merge would append
	}
	proto.Merge(merged, r.GetLinux())
	c.resources = merged
	return &runtimeapi.UpdateContainerResourcesResponse{}, nil
}

// findContainer returns a container as it is now.
func (s *Server) findContainer(id string) (*container, error) {
	c := s.containers[id]
	if c == nil {
		return nil, status.Errorf(codes.NotFound, "container %q: not found", id)
	}
	c.settle(s.clock.Now())
	return c, nil
}

func (s *Server) readySandbox(id string) (*sandbox, error) {
	b, err := s.findSandbox(id)
	if err == nil && !b.ready {
		err = status.Errorf(codes.FailedPrecondition, "sandbox %q: want it ready, it was stopped", id)
	}
	return b, err
}
