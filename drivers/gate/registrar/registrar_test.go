package registrar

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"headroom/e2e/framework/history"
)

func TestRegistration(t *testing.T) {
	dir, err := os.MkdirTemp("", "r")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	w, err := history.Create(dir, "run", "csi/n1")
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "d.test-reg.sock")
	gone := make(chan struct{})
	r, err := New(Options{Socket: socket, DriverName: "d.test", Endpoint: "/plugins/d.test/csi.sock", Node: "n1", History: w, Restart: func(int) time.Duration {
		gone <- struct{}{}
		return 0
	}})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- r.Serve(context.Background()) }()
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	kubelet := registration.NewRegistrationClient(conn)

	if s := r.Status(); s.Notified || s.Registered {
		t.Fatalf("before the kubelet came: %+v", s)
	}
	ended, end := context.WithCancel(ctx)
	end()
	if err := r.Wait(ended); !errors.Is(err, ErrNotAsked) {
		t.Fatalf("want an error that says that nobody asked, got %v", err)
	}
	info, err := kubelet.GetInfo(ctx, &registration.InfoRequest{})
	if err != nil || info.Type != registration.CSIPlugin || info.Name != "d.test" || info.Endpoint != "/plugins/d.test/csi.sock" || len(info.SupportedVersions) != 1 {
		t.Fatalf("info %v, %v", info, err)
	}
	if err := r.Wait(ended); err == nil || errors.Is(err, ErrNotAsked) || !strings.Contains(err.Error(), "said nothing since") {
		t.Fatalf("want an error that says that the kubelet asked only, got %v", err)
	}
	if _, err := kubelet.NotifyRegistrationStatus(ctx, &registration.RegistrationStatus{Error: "no NodeGetInfo"}); err != nil {
		t.Fatal(err)
	}
	if err := r.Wait(ended); err == nil || !strings.Contains(err.Error(), "no NodeGetInfo") {
		t.Fatalf("want the kubelet's error, got %v", err)
	}
	<-gone // or the next call may reach the socket that goes
	waited := make(chan error, 1)
	go func() { waited <- r.Wait(ctx) }()
	if _, err := kubelet.NotifyRegistrationStatus(ctx, &registration.RegistrationStatus{PluginRegistered: true}, grpc.WaitForReady(true)); err != nil {
		t.Fatal(err)
	}
	if err := <-waited; err != nil || !r.Status().Registered {
		t.Fatalf("want registered, got %v, %+v", err, r.Status())
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-served; err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatalf("closing twice: %v", err)
	}
	if _, err := os.Stat(socket); !os.IsNotExist(err) {
		t.Fatalf("want the socket removed, got %v", err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, "csi", "n1.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	if strings.Count(text, `"GetInfo"`) != 2 || strings.Count(text, `"NotifyRegistrationStatus"`) != 4 {
		t.Fatalf("want an invoke and a completion of each call, got %s", text)
	}
	if n := strings.Count(text, `"SocketRemoved"`); n != 2 {
		t.Fatalf("want the socket's removal told once after the refusal and once at the end, got %d times in %s", n, text)
	}
	if !strings.Contains(text, `"registered":true`) || !strings.Contains(text, `"registered":false`) || !strings.Contains(text, "no NodeGetInfo") {
		t.Fatalf("want what the kubelet said, got %s", text)
	}
}

func TestNewRefuses(t *testing.T) {
	if _, err := New(Options{Socket: filepath.Join(t.TempDir(), "none", "a.sock"), DriverName: "d.test"}); err == nil {
		t.Fatal("want an error without a directory")
	}
}

// serving is a registrar that serves; served has how that ended.
func serving(t *testing.T, restart func(int) time.Duration) (r *Registrar, socket string, served chan error) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "d.test-reg.sock")
	r, err := New(Options{Socket: socket, DriverName: "d.test", Restart: restart})
	if err != nil {
		t.Fatal(err)
	}
	served = make(chan error, 1)
	go func() { served <- r.Serve(context.Background()) }()
	return r, socket, served
}

// TestRefusedComesBack: the socket goes when the kubelet refuses, and comes back after the time of that refusal, which starts anew after a success.
func TestRefusedComesBack(t *testing.T) {
	asked, release := make(chan int), make(chan struct{})
	r, socket, served := serving(t, func(n int) time.Duration {
		asked <- n
		<-release
		return 0
	})
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	notify := func(registered bool) {
		t.Helper()
		conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		status := &registration.RegistrationStatus{PluginRegistered: registered}
		if _, err := registration.NewRegistrationClient(conn).NotifyRegistrationStatus(ctx, status, grpc.WaitForReady(true)); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []int{0, 1, 2} {
		notify(false)
		if n := <-asked; n != want {
			t.Errorf("refusal %d: got number %d", want, n)
		}
		if _, err := os.Stat(socket); !os.IsNotExist(err) {
			t.Errorf("want no socket after a refusal, got %v", err)
		}
		release <- struct{}{}
	}
	notify(true)
	notify(false)
	if n := <-asked; n != 0 {
		t.Errorf("the first refusal after a success: got number %d", n)
	}
	if err := r.Close(); err != nil { // while it waits
		t.Fatal(err)
	}
	release <- struct{}{}
	if err := <-served; err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(socket); !os.IsNotExist(err) {
		t.Errorf("want no socket after Close, got %v", err)
	}
}

// TestServeEnds: with its context and with Close, while it serves and while it waits after a refusal, however long that would be.
func TestServeEnds(t *testing.T) {
	for name, c := range map[string]struct{ refused, byContext bool }{
		"context, serving": {false, true}, "context, waiting": {true, true}, "closed, serving": {false, false}, "closed, waiting": {true, false},
	} {
		asked := make(chan struct{}, 1)
		r, err := New(Options{Socket: filepath.Join(t.TempDir(), "d.test-reg.sock"), DriverName: "d.test", Restart: func(int) time.Duration {
			asked <- struct{}{}
			return time.Hour
		}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- r.Serve(ctx) }()
		if c.refused {
			if _, err := r.NotifyRegistrationStatus(ctx, &registration.RegistrationStatus{}); err != nil {
				t.Fatal(err)
			}
			<-asked
		}
		if c.byContext {
			cancel()
		} else if err := r.Close(); err != nil {
			t.Error(err)
		}
		select {
		case err := <-served:
			if err != nil {
				t.Errorf("%s: want no error, got %v", name, err)
			}
		case <-time.After(30 * time.Second):
			t.Errorf("%s: it goes on", name)
		}
		cancel()
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestRegisteredWhileSocketGoes: a kubelet that refuses and then, on the connection it still has, registers the driver, finds the socket again all the
// same. The calls are made without a connection, so that the second never waits for the first one's socket to go.
func TestRegisteredWhileSocketGoes(t *testing.T) {
	asked := make(chan int)
	r, socket, served := serving(t, func(n int) time.Duration {
		asked <- n
		return 0
	})
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for _, registered := range []bool{false, true} {
		if _, err := r.NotifyRegistrationStatus(ctx, &registration.RegistrationStatus{PluginRegistered: registered}); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case n := <-asked:
		if n != 0 {
			t.Errorf("the first refusal: got number %d", n)
		}
	case err := <-served:
		t.Fatalf("want the registrar to come back after a refusal, it ended: %v", err)
	}
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := registration.NewRegistrationClient(conn).GetInfo(ctx, &registration.InfoRequest{}, grpc.WaitForReady(true)); err != nil {
		t.Errorf("want the socket served again, got %v", err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-served; err != nil {
		t.Fatal(err)
	}
}

// waited is a context that tells when somebody has begun to wait for its end.
type waited struct {
	context.Context
	begun chan struct{}
	once  sync.Once
}

func (w *waited) Done() <-chan struct{} {
	w.once.Do(func() { close(w.begun) })
	return w.Context.Done()
}

// TestWaitTellsWhatCameMeanwhile: what the kubelet did while somebody waited counts, not what it had done before.
func TestWaitTellsWhatCameMeanwhile(t *testing.T) {
	for _, asks := range []bool{false, true} {
		r, _, _ := serving(t, nil)
		ctx, cancel := context.WithCancel(t.Context())
		w := &waited{Context: ctx, begun: make(chan struct{})}
		ended := make(chan error, 1)
		go func() { ended <- r.Wait(w) }()
		<-w.begun
		if asks {
			if _, err := r.GetInfo(t.Context(), &registration.InfoRequest{}); err != nil {
				t.Fatal(err)
			}
		}
		cancel()
		if err := <-ended; err == nil || errors.Is(err, ErrNotAsked) == asks {
			t.Errorf("asked while somebody waited: %t, got %v", asks, err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestBackoff(t *testing.T) {
	for n, want := range map[int]time.Duration{-1: time.Second, 0: time.Second, 1: 10 * time.Second, 2: 20 * time.Second, 5: 160 * time.Second, 6: 5 * time.Minute, 1000: 5 * time.Minute} {
		if got := Backoff(n); got != want {
			t.Errorf("refusal %d: want %s, got %s", n, want, got)
		}
	}
}
