package registrar

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
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
	r, err := New(Options{Socket: socket, DriverName: "d.test", Endpoint: "/plugins/d.test/csi.sock", Node: "n1", History: w})
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
	waited := make(chan error, 1)
	go func() { waited <- r.Wait(ctx) }()
	if _, err := kubelet.NotifyRegistrationStatus(ctx, &registration.RegistrationStatus{PluginRegistered: true}); err != nil {
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
	if n := strings.Count(text, `"SocketRemoved"`); n != 1 {
		t.Fatalf("want the socket's removal told once, got %d times in %s", n, text)
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
