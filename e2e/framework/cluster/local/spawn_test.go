package local

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"headroom/e2e/framework/cluster"
)

// The address of a socket holds 107 bytes; a run directory may be deeper.
func TestUnixSocketAnywhere(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("d", 100), strings.Repeat("e", 100))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	path := controlSocket(dir)
	if _, err := net.Listen("unix", path); err == nil {
		t.Fatalf("a path of %d bytes: want it too long for a socket", len(path))
	}
	file, err := listenUnix(path)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.FileListener(file)
	if err := errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("socket: want mode 0600, got %v, %v", info, err)
	}
	client, err := dialUnix(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	server, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	send(t, client, "x")
	receive(t, server, "x")

	if _, err := listenUnix(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("listen twice: want an error with the whole path, got %v", err)
	}
	if _, err := dialUnix(t.Context(), filepath.Join(dir, "missing", "sock")); err == nil {
		t.Error("dial in a missing directory: want an error")
	}
}

func TestListenHost(t *testing.T) {
	file, port, err := listenHost(0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if port == 0 {
		t.Error("port: want a number, got 0")
	}
	_, _, err = listenHost(port)
	var env *cluster.EnvironmentError
	if !errors.As(err, &env) || !strings.Contains(env.Remedy, "--port") {
		t.Errorf("a port that is taken: want an environment error with a remedy, got %v", err)
	}
}

func TestKindOf(t *testing.T) {
	for id, want := range map[string]string{"kubelet@n1": "kubelet", "etcd": "etcd", "driver@n1/d": "driver"} {
		if got := kindOf(id); got != want {
			t.Errorf("kind of %q: want %q, got %q", id, want, got)
		}
	}
}
