package sidecar

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"headroom/e2e/framework/history"
)

func TestFlags(t *testing.T) {
	unused := func(context.Context, options) error { t.Error("want no service with wrong flags"); return nil }
	whole := []string{"--driver", "unix:///d", "--driver-name", "d", "--events", "/e", "--run", "r"}
	for _, args := range [][]string{{"--nosuch"}, whole, append(whole, "--listen", "")} {
		if code := program(ControllerGate, args, unused); code != 2 {
			t.Errorf("controller-gate %q: want exit code 2, got %d", args, code)
		}
	}
	if code := program(NodeGate, append(whole, "--node", "n1"), unused); code != 2 {
		t.Errorf("node-gate without --kubelet: want exit code 2, got %d", code)
	}
	var got options
	code := program(NodeGate, append(whole, "--node", "n1", "--kubelet", "/k"), func(_ context.Context, o options) error { got = o; return nil })
	if want := (options{driver: "unix:///d", name: "d", events: "/e", run: "r", node: "n1", kubelet: "/k"}); code != 0 || got != want {
		t.Errorf("want %+v, got %+v and exit code %d", want, got, code)
	}
}

// served runs a program until its sockets are there and the driver listens, ends it, and returns what its history says at the end.
func served(t *testing.T, serve func(context.Context, options) error, o options, source string, sockets ...string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- serve(ctx, o) }()
	time.Sleep(100 * time.Millisecond)
	if _, err := os.Stat(sockets[len(sockets)-1]); len(sockets) > 1 && err == nil {
		t.Error("want no registration before the driver listens")
	}
	driver, err := net.Listen("unix", strings.TrimPrefix(o.driver, "unix://"))
	if err != nil {
		t.Fatal(err)
	}
	defer driver.Close()
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

func TestNodeRegistersOnceTheDriverListensAndDeregistersAtTheEnd(t *testing.T) {
	dir := shortDir(t)
	o := options{driver: "unix://" + filepath.Join(dir, "d.sock"), name: "d.test", events: filepath.Join(dir, "events"), run: "r", node: "n1", kubelet: dir}
	if err := os.Mkdir(filepath.Join(dir, "plugins_registry"), 0o755); err != nil {
		t.Fatal(err)
	}
	served(t, serveNode, o, "csi/n1", filepath.Join(dir, "plugins", "d.test", "csi.sock"), filepath.Join(dir, "plugins_registry", "d.test-reg.sock"))
}

func TestControllerKeepsItsHistory(t *testing.T) {
	dir := shortDir(t)
	o := options{driver: "unix://" + filepath.Join(dir, "d.sock"), name: "d.test", events: filepath.Join(dir, "events"), run: "r", listen: filepath.Join(dir, "csi.sock")}
	served(t, serveController, o, "csi/controller/d.test", o.listen)
}
