package cri

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	// maxMessage is the kubelet's limit in bytes, four times gRPC's default.
	maxMessage = 16 << 20
	// maxSocketPath is what sockaddr_un holds on Linux, without the closing zero.
	maxSocketPath = 107
)

// Serve listens on the unix socket and answers until ctx ends; then it returns nil, the socket is gone and calls under way are cut off, as when
// a runtime dies; what they had begun may still complete, such as a container whose mounts were being looked at. State stays, and Serve may be
// called again.
func (s *Server) Serve(ctx context.Context, socket string) error {
	l, err := Listen(socket)
	if err != nil {
		return err
	}
	return s.ServeListener(ctx, l)
}

// ServeListener is Serve on a listener, which it owns from then on. With Listen first, clients can connect before it is called.
func (s *Server) ServeListener(ctx context.Context, l net.Listener) error {
	server := grpc.NewServer(grpc.MaxRecvMsgSize(maxMessage))
	runtimeapi.RegisterRuntimeServiceServer(server, s)
	runtimeapi.RegisterImageServiceServer(server, s)
	stopped := make(chan struct{})
	unwatch := context.AfterFunc(ctx, func() {
		defer close(stopped)
		server.Stop()
	})
	err := server.Serve(l)
	if !unwatch() {
		<-stopped
		return nil
	}
	server.Stop()
	return fmt.Errorf("serve CRI on %q: %w", l.Addr(), err)
}

// Listen makes the unix socket, replacing one that nobody serves any more. It fails on a path of more than 107 bytes, on a file that is no
// socket and on a socket in use.
func Listen(socket string) (net.Listener, error) {
	if len(socket) > maxSocketPath {
		return nil, fmt.Errorf("listen on %q: path has %d bytes, want at most %d: use a shorter directory", socket, len(socket), maxSocketPath)
	}
	info, err := os.Lstat(socket)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("listen on %q: %w", socket, err)
	case info.Mode().Type() != fs.ModeSocket:
		return nil, fmt.Errorf("listen on %q: want a socket or nothing there, got %s", socket, info.Mode().Type())
	default:
		if c, err := net.Dial("unix", socket); err == nil {
			c.Close()
			return nil, fmt.Errorf("listen on %q: somebody serves it already", socket)
		}
		if err := os.Remove(socket); err != nil {
			return nil, fmt.Errorf("listen on %q: remove stale socket: %w", socket, err)
		}
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		return nil, fmt.Errorf("listen on %q: %w", socket, err)
	}
	return l, nil
}
