package gate

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"headroom/e2e/framework/history"
)

// blocked is a driver whose NodeGetInfo says that it began, and ends with its context or when freed.
func blocked() (d *fakeDriver, began, ended, free chan struct{}) {
	began, ended, free = make(chan struct{}, 1), make(chan struct{}, 1), make(chan struct{})
	return &fakeDriver{info: func(ctx context.Context) (*csi.NodeGetInfoResponse, error) {
		began <- struct{}{}
		defer func() { ended <- struct{}{} }()
		select {
		case <-ctx.Done():
			return nil, status.FromContextError(ctx.Err()).Err()
		case <-free:
			return &csi.NodeGetInfoResponse{NodeId: "n1", MaxVolumesPerNode: 8}, nil
		}
	}}, began, ended, free
}

func await(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		t.Fatalf("wait for %s: nothing after %s", what, patience)
	}
}

// withDeadline calls NodeGetInfo with a deadline that passes, and returns the rig, which prepare had a say in. A call that did not get as far as reached
// wants it by then is made once more, on another rig and with more time, and so is one that came to the gate so late that it cannot tell a deadline that
// passed from a client that gave up.
func withDeadline(t *testing.T, prepare func(*rig) (reached func() bool)) *rig {
	t.Helper()
	for limit := 200 * time.Millisecond; limit < patience; limit *= 2 {
		r := newRig(t, nil)
		reached := prepare(r)
		began := history.Now()
		ctx, cancel := context.WithTimeout(r.ctx(), limit)
		_, err := r.info(ctx)
		cancel()
		if status.Code(err) != codes.DeadlineExceeded {
			t.Fatalf("want DEADLINE_EXCEEDED, got %v", err)
		}
		if at, came := r.came(); came && at-began < 100*time.Millisecond && reached() {
			return r
		}
	}
	t.Fatal("no call got there in time")
	return nil
}

func TestCancellationReachesTheDriver(t *testing.T) {
	r := newRig(t, nil)
	d, began, ended, _ := blocked()
	serveDriver(t, r.driver, d)
	ctx, cancel := context.WithCancel(r.ctx())
	failed := make(chan error, 1)
	go func() { _, err := r.info(ctx); failed <- err }()
	await(t, "the call at the driver", began)
	cancel()
	if err := <-failed; status.Code(err) != codes.Canceled {
		t.Fatalf("want CANCELED, got %v", err)
	}
	await(t, "the end of the call at the driver", ended)
	r.wantEvents(
		"invoke client NodeGetInfo node=n1",
		"invoke driver NodeGetInfo node=n1",
		"unknown driver NodeGetInfo node=n1 code=1",
		"unknown client NodeGetInfo node=n1 code=1",
	)
}

func TestDeadlineIsUnknownAndCode4(t *testing.T) {
	var ended chan struct{}
	r := withDeadline(t, func(r *rig) (reached func() bool) {
		var d *fakeDriver
		d, _, ended, _ = blocked()
		serveDriver(t, r.driver, d)
		return func() bool { return d.count() > 0 }
	})
	await(t, "the end of the call at the driver", ended)
	deadline := time.Now().Add(patience)
	for {
		lines, _ := r.events()
		if len(lines) == 4 {
			if lines[3] != "unknown client NodeGetInfo node=n1 code=4" {
				t.Fatalf("want what the client saw, code 4, got %q", lines)
			}
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("want 4 events, got %q", lines)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestDriverThatDiesInACall(t *testing.T) {
	r := newRig(t, nil)
	d, began, _, _ := blocked()
	stop := serveDriver(t, r.driver, d)
	failed := make(chan error, 1)
	go func() { _, err := r.info(r.ctx()); failed <- err }()
	await(t, "the call at the driver", began)
	stop()
	if err := <-failed; status.Code(err) != codes.Unavailable {
		t.Fatalf("want UNAVAILABLE, got %v", err)
	}
	r.wantEvents(
		"invoke client NodeGetInfo node=n1",
		"invoke driver NodeGetInfo node=n1",
		"unknown driver NodeGetInfo node=n1 code=14",
		"unknown client NodeGetInfo node=n1 code=14",
	)
}

func TestUnavailableOfTheDriverItselfIsAFailure(t *testing.T) {
	r := newRig(t, nil)
	serveDriver(t, r.driver, &fakeDriver{info: func(context.Context) (*csi.NodeGetInfoResponse, error) {
		return nil, status.Error(codes.Unavailable, "not now")
	}})
	if _, err := r.info(r.ctx()); status.Code(err) != codes.Unavailable || status.Convert(err).Message() != "not now" {
		t.Fatalf("want the driver's UNAVAILABLE, got %v", err)
	}
	r.wantEvents(
		"invoke client NodeGetInfo node=n1",
		"invoke driver NodeGetInfo node=n1",
		"fail driver NodeGetInfo node=n1 code=14",
		"fail client NodeGetInfo node=n1 code=14",
	)
}

func TestClosingCompletesCallsInTheHistory(t *testing.T) {
	r := newRig(t, nil)
	d, began, _, _ := blocked()
	serveDriver(t, r.driver, d)
	failed := make(chan error, 1)
	go func() { _, err := r.info(r.ctx()); failed <- err }()
	await(t, "the call at the driver", began)
	if err := r.gate.Close(); err != nil {
		t.Fatal(err)
	}
	lines, _ := r.events() // no waiting: Close returns after the completions
	if len(lines) != 4 || lines[3] != "unknown client NodeGetInfo node=n1 code=1" {
		t.Fatalf("want 4 events, the last unknown, got %q", lines)
	}
	if err := <-failed; status.Code(err) != codes.Unavailable {
		t.Fatalf("want UNAVAILABLE from a gate that is gone, got %v", err)
	}
}

// upstream is a client's call.
type upstream struct {
	grpc.ServerStream
	ctx context.Context
}

func (u upstream) Context() context.Context { return u.ctx }

// late is the context of a call that its client cancelled when its deadline passed, which the gate's own clock has not noticed.
type late struct{ context.Context }

func (late) Deadline() (time.Time, bool) { return time.Now(), true }

// TestClientsDeadlineIsNoCancellation: whichever of the two comes to the gate first, the client saw its deadline pass.
func TestClientsDeadlineIsNoCancellation(t *testing.T) {
	for name, call := range map[string]func(*Gate, grpc.ServerStream, method) error{
		"one answer": func(g *Gate, s grpc.ServerStream, m method) error { return g.unary(s, m, frame{}) },
		"a stream":   func(g *Gate, s grpc.ServerStream, m method) error { return g.stream(s, m) },
	} {
		r := newRig(t, nil)
		ctx, cancel := context.WithCancel(r.ctx())
		cancel()
		if err := call(r.gate, upstream{ctx: late{ctx}}, methodOf("/x.Y/Talk")); status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("%s: want DEADLINE_EXCEEDED, got %v", name, err)
		}
		r.wantEvents("invoke client Talk node=n1", "unknown client Talk node=n1 code=4")
	}
}

// counting is a driver's listener that knows which of its connections are open.
type counting struct {
	net.Listener
	made, open atomic.Int64
}

type counted struct {
	net.Conn
	closed func()
}

func (l *counting) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.made.Add(1)
	l.open.Add(1)
	return &counted{c, sync.OnceFunc(func() { l.open.Add(-1) })}, nil
}

func (c *counted) Close() error {
	c.closed()
	return c.Conn.Close()
}

// silent is a stage that answers without the driver.
type silent struct{}

func (silent) Handles(method string) bool { return method == "GetPluginInfo" }

func (silent) Handle(context.Context, string, proto.Message, grpc.ClientConnInterface) (proto.Message, error) {
	return &csi.GetPluginInfoResponse{Name: "d.test"}, nil
}

// TestConnectionsEndWithTheirCalls: a gate that kept them would run out of descriptors.
func TestConnectionsEndWithTheirCalls(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Stage = silent{} })
	l, err := net.Listen("unix", r.driver)
	if err != nil {
		t.Fatal(err)
	}
	all := &counting{Listener: l}
	serveOn(t, all, &fakeDriver{})
	for made, call := range []func() error{
		func() error { _, err := r.info(r.ctx()); return err },
		func() error {
			s, err := csi.NewSnapshotMetadataClient(r.conn).GetMetadataAllocated(r.ctx(), &csi.GetMetadataAllocatedRequest{})
			if err == nil {
				_, err = s.Recv()
			}
			if status.Code(err) == codes.Unimplemented {
				err = nil
			}
			return err
		},
		func() error {
			_, err := csi.NewIdentityClient(r.conn).GetPluginInfo(r.ctx(), &csi.GetPluginInfoRequest{})
			return err
		},
	} {
		if err := call(); err != nil {
			t.Errorf("call %d: %v", made+1, err)
		}
		deadline := time.Now().Add(patience)
		for (all.made.Load() != int64(made+1) || all.open.Load() > 0) && time.Now().Before(deadline) {
			time.Sleep(5 * time.Millisecond)
		}
		if all.made.Load() != int64(made+1) || all.open.Load() > 0 {
			t.Fatalf("after call %d: want %d connections made and none open, got %d and %d", made+1, made+1, all.made.Load(), all.open.Load())
		}
	}
}
