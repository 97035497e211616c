package cri

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"headroom/e2e/framework/unixsocket"
)

// began is the fake clock's first time.
var began = time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)

// harness is a served runtime, a kubelet's clients of it, and its clock.
type harness struct {
	t      *testing.T
	ctx    context.Context
	clock  *clocktesting.FakeClock
	server *Server
	socket string
	runtimeapi.RuntimeServiceClient
	images runtimeapi.ImageServiceClient
}

func start(t *testing.T, o Options) *harness {
	t.Helper()
	h := &harness{t: t, clock: clocktesting.NewFakeClock(began), socket: filepath.Join(tempDir(t), "cri.sock")}
	o.Clock = h.clock
	h.server = New(o)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	h.ctx = ctx
	serve(t, h.server, h.socket)
	h.dial()
	return h
}

// tempDir is short, for sockets.
func tempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "cri")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// serve serves until the test ends or stop is called.
func serve(t *testing.T, s *Server, socket string) (stop func()) {
	t.Helper()
	l, err := unixsocket.Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := s.ServeListener(ctx, l); err != nil {
			t.Errorf("serve: %v", err)
		}
	}()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return stop
}

func (h *harness) dial() {
	h.t.Helper()
	conn, err := grpc.NewClient("unix://"+h.socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { conn.Close() })
	h.RuntimeServiceClient, h.images = runtimeapi.NewRuntimeServiceClient(conn), runtimeapi.NewImageServiceClient(conn)
}

// must takes the two results of a call that cannot fail unless the test is broken.
func must[T any](answer T, err error) T {
	if err != nil {
		panic(err)
	}
	return answer
}

func wantCode(t *testing.T, what string, err error, want codes.Code) {
	t.Helper()
	if got := status.Code(err); got != want {
		t.Errorf("%s: want %s, got %s (%v)", what, want, got, err)
	}
}

func podConfig(name string, attempt uint32) *runtimeapi.PodSandboxConfig {
	return &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: name, Namespace: "ns", Uid: "uid-" + name, Attempt: attempt},
		Labels:   map[string]string{"pod": name, "all": "yes"}, Annotations: map[string]string{"note": name},
	}
}

// pod runs a sandbox and returns its id.
func (h *harness) pod(name string) string {
	h.t.Helper()
	return must(h.RunPodSandbox(h.ctx, &runtimeapi.RunPodSandboxRequest{Config: podConfig(name, 0)})).PodSandboxId
}

func containerConfig(name string, command ...string) *runtimeapi.ContainerConfig {
	return &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: name}, Image: &runtimeapi.ImageSpec{Image: "example.org/app:v1"}, Command: command,
		Labels: map[string]string{"container": name, "all": "yes"}, Annotations: map[string]string{"restarts": "0"},
	}
}

func (h *harness) create(pod string, c *runtimeapi.ContainerConfig) (string, error) {
	r, err := h.CreateContainer(h.ctx, &runtimeapi.CreateContainerRequest{PodSandboxId: pod, Config: c, SandboxConfig: podConfig("ignored", 0)})
	return r.GetContainerId(), err
}

func (h *harness) startContainer(id string) error {
	_, err := h.StartContainer(h.ctx, &runtimeapi.StartContainerRequest{ContainerId: id})
	return err
}

// run creates and starts a container and returns its id.
func (h *harness) run(pod, name string, command ...string) string {
	h.t.Helper()
	id, err := h.create(pod, containerConfig(name, command...))
	if err != nil {
		h.t.Fatal(err)
	}
	if err := h.startContainer(id); err != nil {
		h.t.Fatal(err)
	}
	return id
}

func (h *harness) status(id string) *runtimeapi.ContainerStatus {
	h.t.Helper()
	return must(h.ContainerStatus(h.ctx, &runtimeapi.ContainerStatusRequest{ContainerId: id})).Status
}

func (h *harness) podStatus(id string) *runtimeapi.PodSandboxStatus {
	h.t.Helper()
	return must(h.PodSandboxStatus(h.ctx, &runtimeapi.PodSandboxStatusRequest{PodSandboxId: id})).Status
}

func (h *harness) stopContainer(id string, grace int64) {
	h.t.Helper()
	if _, err := h.StopContainer(h.ctx, &runtimeapi.StopContainerRequest{ContainerId: id, Timeout: grace}); err != nil {
		h.t.Fatal(err)
	}
}

func TestStateOutlivesSocket(t *testing.T) {
	s := New(Options{Clock: clocktesting.NewFakeClock(began)})
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	h := &harness{t: t, ctx: ctx, server: s, socket: filepath.Join(tempDir(t), "cri.sock")}
	stop := serve(t, s, h.socket)
	h.dial()
	id := h.run(h.pod("p"), "c")
	stop()
	_, err := h.Version(ctx, &runtimeapi.VersionRequest{})
	wantCode(t, "call while not served", err, codes.Unavailable)
	if _, err := os.Lstat(h.socket); !os.IsNotExist(err) {
		t.Errorf("socket after the end: want none, got %v", err)
	}
	serve(t, s, h.socket)
	h.dial() // the kubelet's connection would come back by itself, after a backoff
	if got := h.status(id).State; got != runtimeapi.ContainerState_CONTAINER_RUNNING {
		t.Errorf("state after serving again: want running, got %s", got)
	}
}

func TestServeEndsWithContextAndFailsWithout(t *testing.T) {
	s, socket := New(Options{}), filepath.Join(tempDir(t), "cri.sock")
	ended, end := context.WithCancel(context.Background())
	end()
	if err := s.Serve(ended, socket); err != nil {
		t.Errorf("serve with an ended context: want nil, got %v", err)
	}
	l := must(unixsocket.Listen(socket))
	l.Close()
	if err := s.ServeListener(context.Background(), l); err == nil {
		t.Error("serve on a closed listener: want an error, got nil")
	}
}

func TestAddresses(t *testing.T) {
	for _, c := range []struct{ cidr, want string }{
		{"10.1.2.0/29", "10.1.2.2 10.1.2.3 10.1.2.4 10.1.2.5 10.1.2.6"},
		{"10.1.2.7/29", "10.1.2.2 10.1.2.3 10.1.2.4 10.1.2.5 10.1.2.6"},
		{"255.255.255.248/29", "255.255.255.250 255.255.255.251 255.255.255.252 255.255.255.253 255.255.255.254"},
		{"10.1.2.0/30", "10.1.2.2"},
		{"10.1.2.0/31", ""},
		{"10.1.2.0/32", ""},
		{"fd00::/126", "fd00::2"},
	} {
		a := newAddresses(netip.MustParsePrefix(c.cidr))
		var got []string
		for at := a.take(); at.IsValid(); at = a.take() {
			got = append(got, at.String())
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("addresses of %s: want %q, got %q", c.cidr, c.want, strings.Join(got, " "))
		}
	}
	a := newAddresses(netip.MustParsePrefix("10.1.2.0/29"))
	one, two := a.take(), a.take()
	a.give(one)
	if next := a.take(); next == one || next == two {
		t.Errorf("after giving back %s: want an address not used yet, got %s", one, next)
	}
	a.take()
	a.take()
	if again := a.take(); again != one {
		t.Errorf("last free address: want %s, got %s", one, again)
	}
}
