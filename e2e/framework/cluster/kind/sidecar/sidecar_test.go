package sidecar

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"headroom/drivers"
	"headroom/e2e/framework/history"
)

// fake is a driver that says who it is, and that it attaches. It reports no limit.
type fake struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedControllerServer
	csi.UnimplementedNodeServer
	name string
	can  csi.ControllerServiceCapability_RPC_Type
}

func (f fake) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: f.name}, nil
}

func (fake) GetPluginCapabilities(context.Context, *csi.GetPluginCapabilitiesRequest) (*csi.GetPluginCapabilitiesResponse, error) {
	service := &csi.PluginCapability_Service_{Service: &csi.PluginCapability_Service{Type: csi.PluginCapability_Service_CONTROLLER_SERVICE}}
	return &csi.GetPluginCapabilitiesResponse{Capabilities: []*csi.PluginCapability{{Type: service}}}, nil
}

func (f fake) ControllerGetCapabilities(context.Context, *csi.ControllerGetCapabilitiesRequest) (*csi.ControllerGetCapabilitiesResponse, error) {
	rpc := &csi.ControllerServiceCapability_Rpc{Rpc: &csi.ControllerServiceCapability_RPC{Type: f.can}}
	return &csi.ControllerGetCapabilitiesResponse{Capabilities: []*csi.ControllerServiceCapability{{Type: rpc}}}, nil
}

func (fake) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: "n1"}, nil
}

const attaches = csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME

// listens serves the driver at a path until the test ends.
func (f fake) listens(t *testing.T, path string) {
	t.Helper()
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	csi.RegisterIdentityServer(server, f)
	csi.RegisterControllerServer(server, f)
	csi.RegisterNodeServer(server, f)
	go func() { _ = server.Serve(l) }() // until it is stopped
	t.Cleanup(server.Stop)
}

func TestFlags(t *testing.T) {
	unused := func(context.Context, options) error { t.Error("want no service with wrong flags"); return nil }
	base := []string{"--driver-name", "d", "--events", "/e", "--run", "r", "--definition", "steady", "--backend", "http://b"}
	whole := append(base[:len(base):len(base)], "--driver", "unix:///d")
	controller := append(whole[:len(whole):len(whole)], "--listen", "/l")
	for _, args := range [][]string{
		{"--nosuch"}, whole, append(whole[:len(whole):len(whole)], "--listen", ""), controller[2:], append(base[:len(base):len(base)], "--listen", "/l"),
		append(controller[:len(controller):len(controller)], "--nodes", "/n", "--node-suffix", ".sock"), append(controller[:len(controller):len(controller)], "--node-suffix", ".sock"),
		append(base[:len(base):len(base)], "--listen", "/l", "--nodes", "/n"),
	} {
		if code := program(ControllerGate, args, unused); code != 2 {
			t.Errorf("controller-gate %q: want exit code 2, got %d", args, code)
		}
	}
	node := append(whole[:len(whole):len(whole)], "--node", "n1", "--state", "/s", "--seed", "7", "--timeout-scale", "2")
	if code := program(NodeGate, node, unused); code != 2 {
		t.Errorf("node-gate without --kubelet: want exit code 2, got %d", code)
	}
	var got options
	code := program(NodeGate, append(node, "--kubelet", "/k"), func(_ context.Context, o options) error { got = o; return nil })
	want := options{driver: "unix:///d", name: "d", events: "/e", run: "r", definition: "steady", backend: "http://b", seed: 7, node: "n1", kubelet: "/k", state: "/s", scale: 2}
	if code != 0 || got != want {
		t.Errorf("want %+v, got %+v and exit code %d", want, got, code)
	}
	for err, want := range map[error]int{errors.New("broken"): 3, strangerError{errors.New("another driver")}: CodeStranger} {
		if code := program(ControllerGate, controller, func(context.Context, options) error { return err }); code != want {
			t.Errorf("%v: want exit code %d, got %d", err, want, code)
		}
	}
}

// served runs a program until its sockets are there and the driver listens, looks at it, ends it, and looks at what its history says at the end.
func served(t *testing.T, serve func(context.Context, options) error, o options, path, source string, look func(), sockets ...string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- serve(ctx, o) }()
	time.Sleep(100 * time.Millisecond)
	if _, err := os.Stat(sockets[len(sockets)-1]); len(sockets) > 1 && err == nil {
		t.Error("want no registration before the driver listens")
	}
	fake{name: o.name, can: attaches}.listens(t, path)
	for _, path := range sockets {
		for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			if _, err := os.Stat(path); err == nil {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("want socket %s", path)
			}
		}
	}
	look()
	cancel()
	if err := <-done; err != nil {
		t.Errorf("want an orderly end, got %v", err)
	}
	for _, path := range sockets {
		if _, err := os.Stat(path); err == nil {
			t.Errorf("want socket %s removed", path)
		}
	}
	closed, err := history.Count(o.events, source, func(e history.Event) bool { return e.Key == history.KeyClose })
	if err != nil || closed != 1 {
		t.Errorf("want history %s closed once, got %d (error: %v)", source, closed, err)
	}
}

// shortDir is a directory whose name leaves room for that of a socket, which holds 107 bytes.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "s")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // of the test's own
	return dir
}

// node is what the gate of a node is told, all below dir.
func node(t *testing.T, dir string) options {
	t.Helper()
	if err := os.Mkdir(filepath.Join(dir, "plugins_registry"), 0o755); err != nil {
		t.Fatal(err)
	}
	return options{
		driver: "unix://" + filepath.Join(dir, "d.sock"), name: "d.test", events: filepath.Join(dir, "events"), run: "r", definition: "steady",
		backend: "http://127.0.0.1:1", node: "n1", kubelet: dir, state: filepath.Join(dir, "state"), scale: 1,
	}
}

// call connects to a gate.
func call(t *testing.T, socket string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // it carries nothing any more
	return conn
}

// TestNodeRegistersOnceTheDriverListensAndDeregistersAtTheEnd also wants the limit from the gate, for a driver that has none; its backend is away, which is
// no reason to say that there is no limit.
func TestNodeRegistersOnceTheDriverListensAndDeregistersAtTheEnd(t *testing.T) {
	for definition, want := range map[string]int64{"steady": 0, "hostpath-gate": 1} {
		dir := shortDir(t)
		o := node(t, dir)
		o.definition = definition
		front := filepath.Join(dir, "plugins", "d.test", "csi.sock")
		served(t, serveNode, o, filepath.Join(dir, "d.sock"), "csi/n1", func() {
			info, err := csi.NewNodeClient(call(t, front)).NodeGetInfo(t.Context(), &csi.NodeGetInfoRequest{})
			if err != nil || info.MaxVolumesPerNode != want {
				t.Errorf("%s: want %d volumes, got %v (error: %v)", definition, want, info, err)
			}
		}, front, filepath.Join(dir, "plugins_registry", "d.test-reg.sock"))
	}
}

// TestControllerKeepsItsHistory goes to a driver of its own, and to those of nodes.
func TestControllerKeepsItsHistory(t *testing.T) {
	for _, nodes := range []bool{false, true} {
		dir := shortDir(t)
		driver := filepath.Join(dir, "nodes", "n1.sock")
		if err := os.Mkdir(filepath.Dir(driver), 0o755); err != nil {
			t.Fatal(err)
		}
		o := options{driver: "unix://" + driver, name: "d.test", events: filepath.Join(dir, "events"), run: "r", definition: "steady", listen: filepath.Join(dir, "csi.sock"), scale: 1}
		if nodes {
			o.driver, o.nodes, o.suffix, o.definition = "", filepath.Dir(driver), ".sock", "hostpath"
		}
		served(t, serveController, o, driver, "csi/controller/d.test", func() {
			info, err := csi.NewIdentityClient(call(t, o.listen)).GetPluginInfo(t.Context(), &csi.GetPluginInfoRequest{})
			if err != nil || info.Name != "d.test" {
				t.Errorf("nodes %t: want the driver behind the gate, got %v (error: %v)", nodes, info, err)
			}
		}, o.listen)
	}
}

// TestStrangers: a driver that is not what was to be started is told of as such, and nobody else gets to it.
func TestStrangers(t *testing.T) {
	for name, c := range map[string]struct {
		driver           fake
		definition, want string
	}{
		"another name":     {fake{name: "other", can: attaches}, "steady", `want the name that it was given, "d.test"`},
		"attaches nothing": {fake{name: "d.test"}, "hostpath", "want PUBLISH_UNPUBLISH_VOLUME"},
		"makes no volumes": {fake{name: "d.test", can: attaches}, "steady-dynamic", "want CREATE_DELETE_VOLUME"},
	} {
		dir := shortDir(t)
		o := node(t, dir)
		o.definition, o.listen = c.definition, filepath.Join(dir, "csi.sock")
		c.driver.listens(t, filepath.Join(dir, "d.sock"))
		serve := serveController
		if c.definition == "hostpath" {
			serve = serveNode // whose driver serves controller calls
		}
		var stranger strangerError
		if err := serve(t.Context(), o); !errors.As(err, &stranger) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: want a stranger and %q in the error, got %v", name, c.want, err)
		}
		if _, err := os.Stat(filepath.Join(dir, "plugins_registry", "d.test-reg.sock")); err == nil {
			t.Errorf("%s: want it not registered", name)
		}
	}
	o := options{definition: "/nowhere/x.yaml"}
	for _, serve := range []func(context.Context, options) error{serveNode, serveController} {
		if err := serve(t.Context(), o); err == nil || errors.As(err, new(strangerError)) || !strings.Contains(err.Error(), "/nowhere/x.yaml") {
			t.Errorf("no definition: want an error of ours that names it, got %v", err)
		}
	}
}

// notReady is a driver that never says that it is ready.
type notReady struct{ fake }

func (notReady) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return nil, status.Error(codes.FailedPrecondition, "still warming up")
}

func TestReadyIsWhatTheDefinitionSays(t *testing.T) {
	dir := shortDir(t)
	path := filepath.Join(dir, "d.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	csi.RegisterIdentityServer(server, notReady{})
	go func() { _ = server.Serve(l) }() // until it is stopped
	t.Cleanup(server.Stop)
	find := func() string { return "unix://" + path }
	if got, err := await(t.Context(), find, drivers.Start{Ready: drivers.ReadySocket}, 1); err != nil || got != path {
		t.Errorf("want it ready because it listens, got %q (error: %v)", got, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if got, err := await(ctx, find, drivers.Start{Ready: drivers.ReadyProbe}, 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("want it waited for in vain, got %q (error: %v)", got, err)
	}
	// A driver that takes longer than its definition says is told of as such.
	for name, c := range map[string]struct {
		find  func() string
		limit time.Duration
		want  []string
	}{
		"it answers no":       {find, 2 * time.Second, []string{"not ready after 6s (startLimit", "still warming up"}},
		"it does not listen":  {func() string { return "" }, 10 * time.Millisecond, []string{"not ready after 30ms (startLimit", "it does not listen"}},
		"no answer within it": {find, time.Nanosecond, []string{"not ready after 3ns (startLimit"}},
	} {
		_, err := await(t.Context(), c.find, drivers.Start{Ready: drivers.ReadyProbe, Limit: c.limit}, 3)
		for _, want := range c.want {
			if !errors.As(err, new(strangerError)) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: want the driver given up after three times its limit, and %q, got %v", name, want, err)
			}
		}
	}
}

func TestRoutes(t *testing.T) {
	for _, suffix := range []string{".sock", "/csi.sock", "/in/it/csi.sock", ".d/csi.sock"} {
		dir := shortDir(t)
		r := routes{dir, suffix}
		if got := r.any(); got != "" {
			t.Errorf("%s: want nobody, got %q", suffix, got)
		}
		if got := (routes{filepath.Join(dir, "none"), suffix}).any(); got != "" {
			t.Errorf("no folder: want nobody, got %q", got)
		}
		for _, node := range []string{"a", "b"} {
			if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, node+suffix)), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		left, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "a"+suffix)})
		if err != nil {
			t.Fatal(err)
		}
		left.SetUnlinkOnClose(false)
		if err := left.Close(); err != nil {
			t.Fatal(err)
		}
		fake{}.listens(t, filepath.Join(dir, "b"+suffix))
		for node, want := range map[string]string{"": dir + "/b" + suffix, "a": dir + "/a" + suffix, "c": dir + "/c" + suffix, "../b": "", "x/b": ""} {
			if want != "" {
				want = "unix://" + want
			}
			if got := r.to(node); got != want {
				t.Errorf("%s: node %q: want %q, got %q", suffix, node, want, got)
			}
		}
	}
}
