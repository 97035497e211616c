package cri

import (
	"context"
	"fmt"
	"net"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"headroom/e2e/framework/unixsocket"
)

// maxMessage is the kubelet's limit in bytes, four times gRPC's default.
const maxMessage = 16 << 20

// Serve listens on the unix socket and answers until ctx ends; then it returns nil, the socket is gone and calls under way are cut off, as when
// a runtime dies; what they had begun may still complete, such as a container whose mounts were being looked at. State stays, and Serve may be
// called again.
func (s *Server) Serve(ctx context.Context, socket string) error {
	l, err := unixsocket.Listen(socket)
	if err != nil {
		return err
	}
	return s.ServeListener(ctx, l)
}

// ServeListener is Serve on a listener, which it owns from then on. With unixsocket.Listen first, clients can connect before it is called.
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
