package local

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"headroom/drivers/gate"
	"headroom/drivers/gate/registrar"
)

// testFront is the front of a driver on a node, without the node.
func testFront(t *testing.T) *front {
	t.Helper()
	dir := t.TempDir()
	csi := filepath.Join(dir, "csi.sock")
	g, err := gate.New(gate.Options{Listen: csi, Driver: "unix://" + filepath.Join(dir, "driver.sock"), DriverName: "d"})
	if err != nil {
		t.Fatal(err)
	}
	f := newFront(g, csi, registrar.Options{Socket: filepath.Join(dir, "reg.sock"), Endpoint: csi, DriverName: "d", Node: "n1"})
	if _, err := f.open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.close(); err != nil {
			t.Error(err)
		}
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// accept tells whoever serves the registration socket that its driver is registered, as a kubelet does, until ctx ends.
func accept(ctx context.Context, socket string) {
	for ctx.Err() == nil {
		conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err == nil {
			_, _ = registration.NewRegistrationClient(conn).NotifyRegistrationStatus(ctx, &registration.RegistrationStatus{PluginRegistered: true})
			_ = conn.Close()
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func there(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func TestFrontSocketsGoAndComeBack(t *testing.T) {
	f := testFront(t)
	for _, socket := range []string{SocketCSI, SocketRegistration} {
		if _, err := f.apply(t.Context(), frontRequest{Driver: "d", Do: "unlink", Socket: socket}); err != nil {
			t.Fatal(err)
		}
		if there(f.paths[socket]) {
			t.Errorf("%s: want its path gone", socket)
		}
		if _, err := f.apply(t.Context(), frontRequest{Driver: "d", Do: "link", Socket: socket}); err != nil {
			t.Fatal(err)
		}
		conn, err := net.Dial("unix", f.paths[socket])
		if err != nil {
			t.Errorf("%s: want the same socket again, got %v", socket, err)
			continue
		}
		_ = conn.Close()
	}
}

// TestFrontSurge holds that an old instance which ends last takes the new one's path with it, and that registering mends that.
func TestFrontSurge(t *testing.T) {
	f := testFront(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	go accept(ctx, f.paths[SocketRegistration])
	if _, err := f.apply(ctx, frontRequest{Driver: "d", Do: "surge"}); err != nil {
		t.Fatal(err)
	}
	if there(f.paths[SocketRegistration]) {
		t.Error("want the registration socket gone after a surge")
	}
	if _, err := f.apply(ctx, frontRequest{Driver: "d", Do: "register"}); err != nil {
		t.Fatal(err)
	}
	if !there(f.paths[SocketRegistration]) {
		t.Error("want the registration socket there after registering again")
	}
}

func TestFrontRules(t *testing.T) {
	f := testFront(t)
	answer, err := f.apply(t.Context(), frontRequest{Driver: "d", Do: "add-rule", Rule: gate.Rule{Method: "NodeGetInfo"}})
	if err != nil || answer.ID == "" {
		t.Fatalf("want an id, got %q, %v", answer.ID, err)
	}
	for _, c := range []struct {
		request frontRequest
		want    string // "" for no error
	}{
		{frontRequest{Driver: "d", Do: "remove-rule", ID: answer.ID}, ""},
		{frontRequest{Driver: "d", Do: "remove-rule", ID: answer.ID}, `driver "d" has no rule "1"`},
		{frontRequest{Driver: "d", Do: "unlink", Socket: "tcp"}, `socket "tcp": want "csi" or "registration"`},
		{frontRequest{Driver: "d", Do: "explode"}, `driver "d": cannot "explode"`},
	} {
		_, err := f.apply(t.Context(), c.request)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: want %q, got %v", c.request.Do, c.want, err)
		}
	}
}

func TestGateFlags(t *testing.T) {
	x := &executables{gates: map[string]map[string]bool{"kubelet": {"B": false, "A": true}}}
	if got := strings.Join(x.gateFlags("kubelet"), " "); got != "--feature-gates A=true,B=false" {
		t.Errorf("got %q", got)
	}
	if got := x.gateFlags("etcd"); got != nil {
		t.Errorf("no gates: want no flags, got %q", got)
	}
}

// TestRoute: controller calls go to the driver of their node, those for no node to any that runs the driver, and those for what is no such node nowhere.
func TestRoute(t *testing.T) {
	c := &cell{nodes: map[string]*node{"n1": {name: "n1", drivers: []string{"d"}}, "n2": {name: "n2", drivers: []string{"other"}}}}
	there := "unix://" + driverSocket("n1", "d")
	for id, want := range map[string]string{"n1": there, "": there, "n2": "", "n3": ""} {
		if got := c.route(id, "d"); got != want {
			t.Errorf("node id %q: want %q, got %q", id, want, got)
		}
	}
	if got := c.route("", "nobody's"); got != "" {
		t.Errorf("a driver of no node: want nowhere, got %q", got)
	}
}
