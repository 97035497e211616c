package gate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"headroom/e2e/framework/history"
)

// patience bounds waits for what happens at once on an idle machine.
const patience = 30 * time.Second

// fakeDriver answers as its functions say.
type fakeDriver struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedControllerServer
	csi.UnimplementedNodeServer
	info    func(context.Context) (*csi.NodeGetInfoResponse, error)
	publish func(context.Context, *csi.ControllerPublishVolumeRequest) (*csi.ControllerPublishVolumeResponse, error)
	mu      sync.Mutex
	calls   int
}

func (d *fakeDriver) NodeGetInfo(ctx context.Context, _ *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	d.mu.Lock()
	d.calls++
	d.mu.Unlock()
	if d.info == nil {
		return &csi.NodeGetInfoResponse{NodeId: "n1", MaxVolumesPerNode: 8}, nil
	}
	return d.info(ctx)
}

func (d *fakeDriver) ControllerPublishVolume(ctx context.Context, r *csi.ControllerPublishVolumeRequest) (*csi.ControllerPublishVolumeResponse, error) {
	if d.publish == nil {
		return &csi.ControllerPublishVolumeResponse{}, nil
	}
	return d.publish(ctx, r)
}

func (d *fakeDriver) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: "d.test", VendorVersion: "v7"}, nil
}

func (d *fakeDriver) CreateVolume(context.Context, *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	return &csi.CreateVolumeResponse{Volume: &csi.Volume{VolumeId: "id-1"}}, nil
}

func (d *fakeDriver) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.calls
}

// shortDir is a temporary directory whose path leaves room for a socket's name.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "g")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// serveDriver serves d at path until stop is called, cutting off calls as a killed process does.
func serveDriver(t *testing.T, path string, d *fakeDriver, opts ...grpc.ServerOption) (stop func()) {
	t.Helper()
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	return serveOn(t, l, d, opts...)
}

// serveOn is serveDriver on a listener of one's own.
func serveOn(t *testing.T, l net.Listener, d *fakeDriver, opts ...grpc.ServerOption) (stop func()) {
	t.Helper()
	s := grpc.NewServer(opts...)
	csi.RegisterIdentityServer(s, d)
	csi.RegisterControllerServer(s, d)
	csi.RegisterNodeServer(s, d)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := s.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) { // before it began
			t.Errorf("driver: %v", err)
		}
	}()
	stop = sync.OnceFunc(func() { s.Stop(); <-done })
	t.Cleanup(stop)
	return stop
}

type rig struct {
	t      *testing.T
	dir    string
	driver string // socket path
	gate   *Gate
	conn   *grpc.ClientConn
	writer *history.Writer
}

// newRig is a gate in front of a socket at which nothing serves yet.
func newRig(t *testing.T, change func(*Options)) *rig {
	t.Helper()
	r := &rig{t: t, dir: shortDir(t)}
	r.driver = filepath.Join(r.dir, "d.sock")
	w, err := history.Create(filepath.Join(r.dir, "events"), "run", "csi/n1")
	if err != nil {
		t.Fatal(err)
	}
	r.writer = w
	o := Options{Listen: filepath.Join(r.dir, "g.sock"), Driver: "unix://" + r.driver, DriverName: "d.test", Node: "n1", History: w}
	if change != nil {
		change(&o)
	}
	if r.gate, err = New(o); err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- r.gate.Serve(context.Background()) }()
	r.conn, err = grpc.NewClient("unix://"+o.Listen, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority("localhost"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.conn.Close()
		if err := r.gate.Close(); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func (r *rig) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	r.t.Cleanup(cancel)
	return ctx
}

func (r *rig) info(ctx context.Context) (*csi.NodeGetInfoResponse, error) {
	return csi.NewNodeClient(r.conn).NodeGetInfo(ctx, &csi.NodeGetInfoRequest{})
}

// recorded are the events of calls written so far.
func (r *rig) recorded() (events []history.Event) {
	r.t.Helper()
	b, err := os.ReadFile(filepath.Join(r.dir, "events", "csi", "n1.jsonl"))
	if err != nil {
		r.t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if !strings.HasSuffix(line, "\n") {
			break // it is being written
		}
		var e history.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			r.t.Fatal(err)
		}
		if e.Op != "" {
			events = append(events, e)
		}
	}
	return events
}

// came is when the first call came to the gate.
func (r *rig) came() (at time.Duration, came bool) {
	r.t.Helper()
	events := r.recorded()
	if len(events) == 0 {
		return 0, false
	}
	return events[0].At, true
}

// events are the lines "<phase> <side> <key>..." written so far; ops are their operation ids.
func (r *rig) events() (lines, ops []string) {
	r.t.Helper()
	for _, e := range r.recorded() {
		var c history.CSICall
		if err := e.Decode(&c); err != nil {
			r.t.Fatal(err)
		}
		s := fmt.Sprintf("%s %s %s node=%s", e.Phase, c.Side, e.Key, e.Node)
		if c.Volume != "" || c.NodeID != "" {
			s += fmt.Sprintf(" %s@%s", c.Volume, c.NodeID)
		}
		if c.Code != 0 {
			s += fmt.Sprintf(" code=%d", c.Code)
		}
		if c.MaxVolumes != nil {
			s += fmt.Sprintf(" max=%d", *c.MaxVolumes)
		}
		if c.Injected {
			s += " injected"
		}
		lines, ops = append(lines, s), append(ops, e.Op)
	}
	return lines, ops
}

// wantEvents waits until the history is want: completions are written after the client may have gone on.
func (r *rig) wantEvents(want ...string) {
	r.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		got, _ := r.events()
		if strings.Join(got, "\n") == strings.Join(want, "\n") {
			return
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("events after %s:\nwant\n  %s\ngot\n  %s", patience, strings.Join(want, "\n  "), strings.Join(got, "\n  "))
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// outgoingPairs is a context with metadata to send.
func outgoingPairs(ctx context.Context, kv ...string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, kv...)
}
