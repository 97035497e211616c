package cri

import (
	"context"
	"os"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// checkMounts says whether a runtime could make these mounts: the API (api.proto, Mount) wants an error for a host path that does not exist, and
// here it is what tells a published volume from one that is not there. Symbolic links are followed. Read-only, propagation, relabelling and
// mappings are accepted as they are.
func checkMounts(mounts []*runtimeapi.Mount) error {
	for _, m := range mounts {
		switch {
		case m.GetContainerPath() == "":
			return status.Errorf(codes.InvalidArgument, "mount of %q: want a container path, got none", m.GetHostPath())
		case m.GetImage() != nil && m.GetHostPath() != "":
			return status.Errorf(codes.InvalidArgument, "mount on %q: want an image or a host path, got both %q and %q",
				m.GetContainerPath(), m.GetImage().GetImage(), m.GetHostPath())
		case m.GetRecursiveReadOnly() && (!m.GetReadonly() || m.GetPropagation() != runtimeapi.MountPropagation_PROPAGATION_PRIVATE):
			return status.Errorf(codes.InvalidArgument, "mount on %q: recursive_read_only wants readonly and PROPAGATION_PRIVATE, got readonly %t and %s",
				m.GetContainerPath(), m.GetReadonly(), m.GetPropagation())
		case m.GetImage() != nil:
			continue
		}
		if _, err := os.Stat(m.GetHostPath()); err != nil {
			code := codes.Internal
			if os.IsNotExist(err) {
				code = codes.NotFound
			}
			return status.Errorf(code, "failed to mount on %q: %v", m.GetContainerPath(), err)
		}
	}
	return nil
}

// touchLog makes the empty log of a container that writes nothing, in a directory that the kubelet has made. The kubelet's log rotation, its
// `kubectl logs` and the restart count that it reads from log names after losing its state all look for the file.
func touchLog(path string) error {
	if path == "" {
		return nil
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o640)
	if err != nil {
		return status.Errorf(codes.Internal, "failed to open container log: %v", err)
	}
	return f.Close()
}

// ReopenContainerLog makes the log of a running container again, after the kubelet moved it away.
func (s *Server) ReopenContainerLog(
	_ context.Context, r *runtimeapi.ReopenContainerLogRequest,
) (*runtimeapi.ReopenContainerLogResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, err := s.findContainer(r.GetContainerId())
	if err != nil {
		return nil, err
	}
	if c.state != runtimeapi.ContainerState_CONTAINER_RUNNING {
		return nil, status.Errorf(codes.FailedPrecondition, "reopen log of container %q: want state CONTAINER_RUNNING, got %s", c.id, c.state)
	}
	if err := touchLog(c.logPath()); err != nil {
		return nil, err
	}
	return &runtimeapi.ReopenContainerLogResponse{}, nil
}
