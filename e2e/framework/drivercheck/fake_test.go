package drivercheck

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"headroom/e2e/framework/entry"
	"headroom/e2e/framework/report"
)

func TestMain(m *testing.M) {
	entry.Dispatch()
	if how := os.Getenv(poorVariable); how != "" {
		poorDriver(how, os.Args[1])
	}
	os.Exit(m.Run())
}

// poorVariable makes the test binary a driver that goes wrong in a process of its own: how, poorDriver says.
const poorVariable = "DRIVERCHECK_POOR"

// poorDriver serves on an endpoint: "mute", "hangs up", "speaks HTTP", or dies in the call that is named. It never returns.
func poorDriver(how, endpoint string) {
	l, err := net.Listen("unix", strings.TrimPrefix(endpoint, "unix://"))
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	answer := map[string]func(net.Conn){
		"mute": func(net.Conn) {}, "hangs up": func(c net.Conn) { c.Close() }, "speaks HTTP": func(c net.Conn) { fmt.Fprint(c, "HTTP/1.1 400 Bad Request\r\n\r\n"); c.Close() },
	}[how]
	for answer != nil {
		c, err := l.Accept()
		if err != nil {
			os.Exit(1)
		}
		answer(c)
	}
	s := grpc.NewServer(grpc.UnaryInterceptor(func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		if strings.HasSuffix(info.FullMethod, "/"+how) {
			fmt.Println("dying in " + how)
			os.Exit(7)
		}
		return handler(ctx, req)
	}))
	f := &fake{limit: 3, attached: map[string]bool{}, name: os.Args[2], id: os.Args[3]}
	csi.RegisterIdentityServer(s, f)
	csi.RegisterControllerServer(s, f)
	csi.RegisterNodeServer(s, f)
	fmt.Println(s.Serve(l))
	os.Exit(1)
}

// fake is a driver in this process that does everything right with a limit of its own, but for what wrong says.
type fake struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedControllerServer
	csi.UnimplementedNodeServer
	wrong wrong
	name  string // fake.test when empty
	id    string // of its node; n1 when empty

	mu       sync.Mutex
	limit    int64
	foreign  int64
	down     bool
	attached map[string]bool // volume to read-only
	calls    int64
}

// wrong are the mistakes of a fake; what is nil stays right.
type wrong struct {
	info         func(*csi.GetPluginInfoResponse) error
	probe        func(*csi.ProbeResponse) error
	plugin       func(*csi.GetPluginCapabilitiesResponse) error
	capabilities func(*csi.ControllerGetCapabilitiesResponse) error
	// node changes the n-th answer of NodeGetInfo, counted from 1, with so many volumes attached.
	node func(n int64, attached int, right *csi.NodeGetInfoResponse) error
	// publish and unpublish replace the right outcome.
	publish   func(f *fake, req *csi.ControllerPublishVolumeRequest, right error) error
	unpublish func(req *csi.ControllerUnpublishVolumeRequest, right error) error
}

// known are the volumes of a fake.
var known = []string{"v1", "v2", "v3", "v4", "v5", "v6", "v7"}

func (f *fake) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	out := &csi.GetPluginInfoResponse{Name: cmp.Or(f.name, "fake.test"), VendorVersion: "v1"}
	return out, mistake(f.wrong.info, out)
}

// mistake applies one.
func mistake[T any](f func(T) error, out T) error {
	if f == nil {
		return nil
	}
	return f(out)
}

func (f *fake) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	out := &csi.ProbeResponse{Ready: wrapperspb.Bool(true)}
	return out, mistake(f.wrong.probe, out)
}

func (f *fake) GetPluginCapabilities(context.Context, *csi.GetPluginCapabilitiesRequest) (*csi.GetPluginCapabilitiesResponse, error) {
	out := &csi.GetPluginCapabilitiesResponse{Capabilities: []*csi.PluginCapability{{Type: &csi.PluginCapability_Service_{
		Service: &csi.PluginCapability_Service{Type: csi.PluginCapability_Service_CONTROLLER_SERVICE}}}}}
	return out, mistake(f.wrong.plugin, out)
}

func (f *fake) ControllerGetCapabilities(context.Context, *csi.ControllerGetCapabilitiesRequest) (*csi.ControllerGetCapabilitiesResponse, error) {
	out := &csi.ControllerGetCapabilitiesResponse{}
	for _, t := range []csi.ControllerServiceCapability_RPC_Type{
		csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME, csi.ControllerServiceCapability_RPC_PUBLISH_READONLY,
	} {
		out.Capabilities = append(out.Capabilities, &csi.ControllerServiceCapability{Type: &csi.ControllerServiceCapability_Rpc{Rpc: &csi.ControllerServiceCapability_RPC{Type: t}}})
	}
	return out, mistake(f.wrong.capabilities, out)
}

func (f *fake) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls++
	out := &csi.NodeGetInfoResponse{NodeId: cmp.Or(f.id, "n1"), MaxVolumesPerNode: f.limit - f.foreign}
	if f.wrong.node == nil {
		return out, nil
	}
	return out, f.wrong.node(f.calls, len(f.attached), out)
}

func (f *fake) ControllerPublishVolume(_ context.Context, req *csi.ControllerPublishVolumeRequest) (*csi.ControllerPublishVolumeResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.right(req)
	if f.wrong.publish != nil {
		err = f.wrong.publish(f, req, err)
	}
	if err != nil {
		return nil, err
	}
	f.attached[req.VolumeId] = req.Readonly
	return &csi.ControllerPublishVolumeResponse{}, nil
}

// right is what an attach should come to.
func (f *fake) right(req *csi.ControllerPublishVolumeRequest) error {
	readOnly, attached := f.attached[req.VolumeId]
	switch {
	case req.VolumeId == "" || req.NodeId == "" || req.VolumeCapability == nil:
		return status.Error(codes.InvalidArgument, "a field is missing")
	case !slices.Contains(known, req.VolumeId) || req.NodeId != "n1":
		return status.Error(codes.NotFound, "none of mine")
	case attached && readOnly != req.Readonly:
		return status.Error(codes.AlreadyExists, "otherwise")
	case attached:
		return nil
	case f.down:
		return status.Error(codes.Unavailable, "nobody to ask")
	case int64(len(f.attached)) >= f.limit-f.foreign:
		return status.Error(codes.ResourceExhausted, "full")
	}
	return nil
}

func (f *fake) ControllerUnpublishVolume(_ context.Context, req *csi.ControllerUnpublishVolumeRequest) (*csi.ControllerUnpublishVolumeResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var err error
	if f.wrong.unpublish != nil {
		err = f.wrong.unpublish(req, nil)
	}
	if err == nil {
		delete(f.attached, req.VolumeId)
	}
	return &csi.ControllerUnpublishVolumeResponse{}, err
}

// socketDir is a folder whose path is short enough for sockets.
func socketDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "dc")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// serveFake serves a fake and returns its endpoint.
func serveFake(t *testing.T, f *fake, options ...grpc.ServerOption) string {
	t.Helper()
	if f.limit == 0 {
		f.limit = 3
	}
	f.attached = map[string]bool{}
	path := filepath.Join(socketDir(t), "csi.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer(options...)
	csi.RegisterIdentityServer(s, f)
	csi.RegisterControllerServer(s, f)
	csi.RegisterNodeServer(s, f)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	return "unix://" + path
}

// violated lists the violated cases of a report, "check/case".
func violated(r Report) (out []string) {
	for _, c := range r.Checks {
		for _, k := range c.Cases {
			if k.Status == report.Violated {
				out = append(out, c.ID+"/"+k.Name)
			}
		}
	}
	return out
}

// caseOf finds a case in a report.
func caseOf(t *testing.T, r Report, c caseID) Case {
	t.Helper()
	for _, res := range r.Checks {
		for _, k := range res.Cases {
			if res.ID == c.check && k.Name == c.name {
				return k
			}
		}
	}
	t.Fatalf("no case %v in the report", c)
	return Case{}
}

func bounded(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// TestMistakes makes each mistake that shows without changing the limit, and wants it caught by its own case and no other.
func TestMistakes(t *testing.T) {
	t.Parallel()
	failed := func(c codes.Code) error { return status.Error(c, "mistake") }
	cases := map[string]struct {
		wrong wrong
		want  []caseID
		// open are cases that must not be held either.
		open []caseID
	}{
		"none":          {},
		"name":          {wrong: wrong{info: func(r *csi.GetPluginInfoResponse) error { r.Name = "-no"; return nil }}, want: []caseID{caseName}},
		"no info":       {wrong: wrong{info: func(*csi.GetPluginInfoResponse) error { return failed(codes.Internal) }}, want: []caseID{caseName}},
		"probe":         {wrong: wrong{probe: func(*csi.ProbeResponse) error { return failed(codes.FailedPrecondition) }}, want: []caseID{caseProbe}},
		"not ready":     {wrong: wrong{probe: func(r *csi.ProbeResponse) error { r.Ready = wrapperspb.Bool(false); return nil }}, open: []caseID{caseProbe}},
		"capabilities":  {wrong: wrong{plugin: func(*csi.GetPluginCapabilitiesResponse) error { return failed(codes.Internal) }}, want: []caseID{caseCapabilities}},
		"no controller": {wrong: wrong{plugin: func(r *csi.GetPluginCapabilitiesResponse) error { r.Capabilities = nil; return nil }}, open: []caseID{caseFirst, caseOver}},
		"attaches not":  {wrong: wrong{capabilities: func(r *csi.ControllerGetCapabilitiesResponse) error { r.Capabilities = nil; return nil }}, open: []caseID{caseFirst, caseOver}},
		"negative":      {wrong: wrong{node: func(_ int64, _ int, r *csi.NodeGetInfoResponse) error { r.MaxVolumesPerNode = -1; return nil }}, want: []caseID{caseCount}},
		"too much":      {wrong: wrong{node: func(_ int64, _ int, r *csi.NodeGetInfoResponse) error { r.MaxVolumesPerNode = 1 << 31; return nil }}, want: []caseID{caseCount}},
		"no limit":      {wrong: wrong{node: func(_ int64, _ int, r *csi.NodeGetInfoResponse) error { r.MaxVolumesPerNode = 0; return nil }}, open: []caseID{caseCount, caseFill}},
		"no node id":    {wrong: wrong{node: func(_ int64, _ int, r *csi.NodeGetInfoResponse) error { r.NodeId = ""; return nil }}, want: []caseID{caseNodeID, caseFirst}},
		"topology": {wrong: wrong{node: func(_ int64, _ int, r *csi.NodeGetInfoResponse) error {
			r.AccessibleTopology = &csi.Topology{Segments: map[string]string{"a": "b"}}
			return nil
		}}, want: []caseID{caseTopology}},
		"node id drifts": {wrong: wrong{node: func(n int64, _ int, r *csi.NodeGetInfoResponse) error {
			r.NodeId += strings.Repeat("x", int(min(n, 2))-1)
			return nil
		}}, want: []caseID{caseSameID}},
		"topology drifts": {wrong: wrong{
			plugin: func(r *csi.GetPluginCapabilitiesResponse) error {
				r.Capabilities = append(r.Capabilities, &csi.PluginCapability{Type: &csi.PluginCapability_Service_{
					Service: &csi.PluginCapability_Service{Type: csi.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS}}})
				return nil
			},
			node: func(n int64, _ int, r *csi.NodeGetInfoResponse) error {
				r.AccessibleTopology = &csi.Topology{Segments: map[string]string{fmt.Sprint("key", min(n, 2)): "v"}}
				return nil
			}}, want: []caseID{caseSameID}},
		"limit drifts": {wrong: wrong{node: func(n int64, _ int, r *csi.NodeGetInfoResponse) error {
			if n == 2 {
				r.MaxVolumesPerNode = 2
			}
			return nil
		}}, want: []caseID{caseSameCount}},
		"remaining": {wrong: wrong{node: func(_ int64, attached int, r *csi.NodeGetInfoResponse) error {
			r.MaxVolumesPerNode -= int64(attached)
			return nil
		}}, want: []caseID{caseTotal}},
		"no volume id": {wrong: wrong{publish: func(_ *fake, q *csi.ControllerPublishVolumeRequest, err error) error {
			if q.VolumeId == "" {
				return failed(codes.NotFound)
			}
			return err
		}}, want: []caseID{caseNoVolumeID}},
		"no node": {wrong: wrong{publish: func(_ *fake, q *csi.ControllerPublishVolumeRequest, err error) error {
			if q.NodeId == "" {
				return failed(codes.Unknown)
			}
			return err
		}}, want: []caseID{caseNoNodeID}},
		"no capability": {wrong: wrong{publish: func(_ *fake, q *csi.ControllerPublishVolumeRequest, err error) error {
			if q.VolumeCapability == nil {
				return nil
			}
			return err
		}}, want: []caseID{caseNoCapability}},
		"attaches nothing": {wrong: wrong{publish: func(_ *fake, q *csi.ControllerPublishVolumeRequest, err error) error {
			if err == nil {
				return failed(codes.Internal)
			}
			return err
		}}, want: []caseID{caseFirst}, open: []caseID{caseTwice, caseFill, caseOver, caseFull, caseNoVolume}},
		"not twice": {wrong: wrong{publish: func(f *fake, q *csi.ControllerPublishVolumeRequest, err error) error {
			if _, again := f.attached[q.VolumeId]; again && err == nil {
				return failed(codes.AlreadyExists)
			}
			return err
		}}, want: []caseID{caseTwice, caseWhenFull}},
		"a slot each time": {wrong: wrong{publish: func(f *fake, q *csi.ControllerPublishVolumeRequest, err error) error {
			if _, again := f.attached[q.VolumeId]; again && err == nil && f.limit == 3 {
				f.limit--
			}
			return err
		}, node: func(_ int64, _ int, r *csi.NodeGetInfoResponse) error { r.MaxVolumesPerNode = 3; return nil }}, want: []caseID{caseTwice}, open: []caseID{caseFill, caseFull}},
		"stops early": {wrong: wrong{publish: func(f *fake, _ *csi.ControllerPublishVolumeRequest, err error) error {
			if err == nil && len(f.attached) == 1 {
				return failed(codes.Internal)
			}
			return err
		}}, want: []caseID{caseTwice, caseFill}, open: []caseID{caseOver, caseFull}},
		"over-promises": {wrong: wrong{publish: func(_ *fake, _ *csi.ControllerPublishVolumeRequest, err error) error {
			if status.Code(err) == codes.ResourceExhausted {
				return nil
			}
			return err
		}}, want: []caseID{caseOver}, open: []caseID{caseFull}},
		"full is internal": {wrong: wrong{publish: func(_ *fake, _ *csi.ControllerPublishVolumeRequest, err error) error {
			if status.Code(err) == codes.ResourceExhausted {
				return failed(codes.Internal)
			}
			return err
		}}, want: []caseID{caseFull}},
		"missing is full": {wrong: wrong{publish: func(_ *fake, _ *csi.ControllerPublishVolumeRequest, err error) error {
			if status.Code(err) == codes.NotFound {
				return failed(codes.ResourceExhausted)
			}
			return err
		}}, want: []caseID{caseNoVolume, caseNoNode}},
		"read-only is all the same": {wrong: wrong{publish: func(_ *fake, _ *csi.ControllerPublishVolumeRequest, err error) error {
			if status.Code(err) == codes.AlreadyExists {
				return failed(codes.InvalidArgument)
			}
			return err
		}}, want: []caseID{caseIncompatible}},
		"detaches nothing": {wrong: wrong{unpublish: func(q *csi.ControllerUnpublishVolumeRequest, _ error) error {
			if slices.Contains(known, q.VolumeId) && q.NodeId == "n1" {
				return failed(codes.Internal)
			}
			return nil
		}}, want: []caseID{caseUnpublish, caseUnpublishAgain}},
		"knows nobody": {wrong: wrong{unpublish: func(q *csi.ControllerUnpublishVolumeRequest, _ error) error {
			if !slices.Contains(known, q.VolumeId) || q.NodeId != "n1" {
				return failed(codes.Internal)
			}
			return nil
		}}, want: []caseID{caseUnpublishVolume, caseUnpublishNode}},
		"knows nobody, as it may": {wrong: wrong{unpublish: func(q *csi.ControllerUnpublishVolumeRequest, _ error) error {
			if !slices.Contains(known, q.VolumeId) || q.NodeId != "n1" {
				return failed(codes.NotFound)
			}
			return nil
		}}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // they wait for the cache age of a driver that declares none
			r, err := Run(bounded(t), Options{Socket: serveFake(t, &fake{wrong: c.wrong}), Volumes: known})
			if err != nil {
				t.Fatal(err)
			}
			var want []string
			for _, id := range c.want {
				want = append(want, id.check+"/"+id.name)
			}
			got := violated(r)
			slices.Sort(want)
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("want %q violated, got %q", want, got)
			}
			if want := map[bool]Conclusion{true: Failure, false: Partial}[len(c.want) > 0]; r.Conclusion != want {
				t.Errorf("want %s, as nobody can change the limit, got %s", want, r.Conclusion)
			}
			for _, id := range append(c.open, caseFall, caseOutage) {
				if got := caseOf(t, r, id); got.Status != report.Skipped && got.Status != report.Inconclusive || got.Detail == "" {
					t.Errorf("want %v not judged, with a reason, got %+v", id, got)
				}
			}
		})
	}
}

// TestHangAndDeath are drivers that stop answering on the way: a violation, and all that was not reached is open.
func TestHangAndDeath(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		wrong wrong
		want  string
		dies  bool
	}{
		"hangs at once":   {wrong{info: func(*csi.GetPluginInfoResponse) error { select {} }}, "GetPluginInfo: want an answer within 10s", false},
		"hangs on attach": {wrong{publish: func(*fake, *csi.ControllerPublishVolumeRequest, error) error { select {} }}, "ControllerPublishVolume: want an answer within 10s", false},
		"dies":            {wrong{}, "the driver is gone", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &fake{wrong: c.wrong}
			var stop func()
			if c.dies {
				f.wrong.publish = func(*fake, *csi.ControllerPublishVolumeRequest, error) error {
					go stop()
					return status.Error(codes.Unavailable, "the end")
				}
			}
			endpoint, end := serveUntil(t, f)
			stop = end
			r, err := Run(bounded(t), Options{Socket: endpoint, Volumes: known})
			if err != nil {
				t.Fatal(err)
			}
			if got := caseOf(t, r, caseAnswers); got.Status != report.Violated || !strings.Contains(got.Detail, c.want) {
				t.Errorf("want %q, got %+v", c.want, got)
			}
			if got := caseOf(t, r, caseUnpublish); got.Status == report.Held {
				t.Errorf("want what was not reached open, got %+v", got)
			}
		})
	}
}

// serveUntil is serveFake with the function that ends it, its socket included.
func serveUntil(t *testing.T, f *fake) (string, func()) {
	t.Helper()
	f.limit, f.attached = 3, map[string]bool{}
	path := filepath.Join(socketDir(t), "csi.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	csi.RegisterIdentityServer(s, f)
	csi.RegisterControllerServer(s, f)
	csi.RegisterNodeServer(s, f)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { go s.Stop() }) // a handler that hangs would hold it up
	return "unix://" + path, func() { s.Stop() }
}

// TestInterrupted shows that a run that is cut short says so and is no verdict.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(bounded(t))
	f := &fake{wrong: wrong{publish: func(_ *fake, _ *csi.ControllerPublishVolumeRequest, err error) error { cancel(); return err }}}
	r, err := Run(ctx, Options{Socket: serveFake(t, f), Volumes: known})
	if !errors.Is(err, context.Canceled) || r.Conclusion != Partial || len(violated(r)) > 0 {
		t.Errorf("want an interrupted run without a violation, got %v, %s, %q", err, r.Conclusion, violated(r))
	}
}
