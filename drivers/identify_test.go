package drivers

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
)

// stranger is a driver that says of itself what a test wants.
type stranger struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedControllerServer
	name            string
	hangs           bool
	service, attach bool
}

func (s *stranger) GetPluginInfo(ctx context.Context, _ *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	if s.hangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return &csi.GetPluginInfoResponse{Name: s.name}, nil
}

func (s *stranger) GetPluginCapabilities(context.Context, *csi.GetPluginCapabilitiesRequest) (*csi.GetPluginCapabilitiesResponse, error) {
	out := &csi.GetPluginCapabilitiesResponse{}
	if s.service {
		out.Capabilities = append(out.Capabilities, &csi.PluginCapability{Type: &csi.PluginCapability_Service_{
			Service: &csi.PluginCapability_Service{Type: csi.PluginCapability_Service_CONTROLLER_SERVICE},
		}})
	}
	return out, nil
}

func (s *stranger) ControllerGetCapabilities(context.Context, *csi.ControllerGetCapabilitiesRequest) (*csi.ControllerGetCapabilitiesResponse, error) {
	out := &csi.ControllerGetCapabilitiesResponse{}
	if s.attach {
		out.Capabilities = append(out.Capabilities, &csi.ControllerServiceCapability{Type: &csi.ControllerServiceCapability_Rpc{
			Rpc: &csi.ControllerServiceCapability_RPC{Type: csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME},
		}})
	}
	return out, nil
}

// TestIdentify shows what is told of programs that are not the driver that was started, or not one that attaches.
func TestIdentify(t *testing.T) {
	full := stranger{name: "d", service: true, attach: true}
	with := func(change func(*stranger)) func(net.Listener) {
		s := full
		change(&s)
		return func(l net.Listener) {
			server := grpc.NewServer()
			csi.RegisterIdentityServer(server, &s)
			if s.service {
				csi.RegisterControllerServer(server, &s)
			}
			_ = server.Serve(l) // it ends with its listener
		}
	}
	attaching := (&Definition{}).Wanted()
	dynamic := (&Definition{Volumes: Volumes{Provisioning: Dynamic}}).Wanted()
	for name, c := range map[string]struct {
		serve  func(net.Listener)
		wanted []Wanted // of a controller
		want   []string // "" for none
	}{
		"right":                      {with(func(*stranger) {}), attaching, nil},
		"a node beside a controller": {with(func(s *stranger) { s.service, s.attach = false, false }), nil, nil},
		"another name":               {with(func(s *stranger) { s.name = "e" }), nil, []string{`want the name that it was given, "d", got "e"`, "${DRIVER_NAME}"}},
		"no controller service":      {with(func(s *stranger) { s.service = false }), attaching, []string{"want CONTROLLER_SERVICE", "under controller"}},
		"no attaching":               {with(func(s *stranger) { s.attach = false }), attaching, []string{"want PUBLISH_UNPUBLISH_VOLUME", "--enable-attach"}},
		"no volumes made":            {with(func(*stranger) {}), dynamic, []string{"want CREATE_DELETE_VOLUME", "provisioning: static"}},
		"it hangs":                   {with(func(s *stranger) { s.hangs = true }), nil, []string{"GetPluginInfo: no answer within", "it hangs", "--timeout-scale"}},
		"no CSI":                     {func(l net.Listener) { _ = grpc.NewServer().Serve(l) }, nil, []string{"GetPluginInfo is not implemented", "no CSI driver", "${ENDPOINT}"}},
		"no gRPC":                    {func(l net.Listener) { _ = http.Serve(l, http.NotFoundHandler()) }, nil, []string{"GetPluginInfo", "try: "}},
		"silent": {func(l net.Listener) {
			var open []net.Conn // one that nothing refers to would be closed
			for {
				c, err := l.Accept()
				if err != nil {
					break
				}
				open = append(open, c)
			}
			for _, c := range open {
				c.Close()
			}
		}, nil, []string{"GetPluginInfo", "speaks no gRPC"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, err := os.MkdirTemp("", "i")
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, "s")
			l, err := net.Listen("unix", path)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { l.Close(); os.RemoveAll(dir) })
			go c.serve(l)
			scale := 2.0
			if name == "it hangs" || name == "silent" { // which take the whole time
				scale = 0.05
			}
			err = Identify(t.Context(), path, "d", c.wanted, scale)
			if (err == nil) != (c.want == nil) {
				t.Fatalf("want %q, got %v", c.want, err)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("want %q, got %v", want, err)
				}
			}
		})
	}
}
