package local

import (
	"fmt"
	"net"
	"os"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"

	"headroom/e2e/framework/entry"
	_ "headroom/fixtures/quota" // the backend is a program of this binary
)

func TestMain(m *testing.M) {
	entry.Dispatch()
	if len(os.Args) == 3 && os.Args[1] == useless {
		os.Exit(uselessMain(os.Args[2]))
	}
	os.Exit(m.Run())
}

// useless is the first argument of this executable when it is a driver that listens and can do nothing: every call is UNIMPLEMENTED, NodeGetInfo
// with the others. The second is its endpoint.
const useless = "useless-driver"

func uselessMain(endpoint string) int {
	l, err := net.Listen("unix", endpoint[len("unix://"):])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	s := grpc.NewServer()
	csi.RegisterIdentityServer(s, csi.UnimplementedIdentityServer{})
	csi.RegisterNodeServer(s, csi.UnimplementedNodeServer{})
	fmt.Println("useless, but listening")
	if err := s.Serve(l); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
