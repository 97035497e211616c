package gate

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"headroom/e2e/framework/history"
)

func TestBothSidesAreRecorded(t *testing.T) {
	r := newRig(t, nil)
	serveDriver(t, r.driver, &fakeDriver{})
	got, err := r.info(r.ctx())
	if err != nil || got.MaxVolumesPerNode != 8 || got.NodeId != "n1" {
		t.Fatalf("want n1 with 8, got %v, %v", got, err)
	}
	r.wantEvents(
		"invoke client NodeGetInfo node=n1",
		"invoke driver NodeGetInfo node=n1",
		"ok driver NodeGetInfo node=n1 @n1 max=8",
		"ok client NodeGetInfo node=n1 @n1 max=8",
	)
	if _, ops := r.events(); ops[0] == "" || ops[0] != ops[1] || ops[1] != ops[2] || ops[2] != ops[3] {
		t.Fatalf("want one op on both sides, got %q", ops)
	}
	if _, err := r.info(r.ctx()); err != nil {
		t.Fatal(err)
	}
	if _, ops := r.events(); ops[4] == ops[0] {
		t.Fatalf("want another op for another call, got %q", ops)
	}
}

func TestStatusWithDetailsAndMetadataPassThrough(t *testing.T) {
	want, err := status.New(codes.ResourceExhausted, "full: 8 of 8").WithDetails(&errdetails.ErrorInfo{Reason: "LIMIT"})
	if err != nil {
		t.Fatal(err)
	}
	var saw metadata.MD
	var left time.Duration
	r := newRig(t, func(o *Options) { o.Node = "" })
	serveDriver(t, r.driver, &fakeDriver{publish: func(ctx context.Context, q *csi.ControllerPublishVolumeRequest) (*csi.ControllerPublishVolumeResponse, error) {
		saw, _ = metadata.FromIncomingContext(ctx)
		if d, ok := ctx.Deadline(); ok {
			left = time.Until(d)
		}
		if err := errors.Join(grpc.SetHeader(ctx, metadata.Pairs("x-head", "h")), grpc.SetTrailer(ctx, metadata.Pairs("x-tail", "t"))); err != nil {
			return nil, err
		}
		return nil, want.Err()
	}})
	var header, trailer metadata.MD
	ctx := outgoingPairs(r.ctx(), "x-request", "42", "x-blob-bin", "\x00\xff")
	_, err = csi.NewControllerClient(r.conn).ControllerPublishVolume(ctx,
		&csi.ControllerPublishVolumeRequest{VolumeId: "v1", NodeId: "n7"}, grpc.Header(&header), grpc.Trailer(&trailer))
	got := status.Convert(err)
	if got.Code() != want.Code() || got.Message() != want.Message() || len(got.Details()) != 1 {
		t.Fatalf("want %v with details, got %v with %v", want, got, got.Details())
	}
	if info, ok := got.Details()[0].(*errdetails.ErrorInfo); !ok || info.Reason != "LIMIT" {
		t.Fatalf("want the detail of the driver, got %v", got.Details()[0])
	}
	if strings.Join(saw["x-request"], ",") != "42" || strings.Join(saw["x-blob-bin"], ",") != "\x00\xff" {
		t.Fatalf("metadata at the driver: %v", saw)
	}
	if left <= 0 || left > patience {
		t.Fatalf("deadline at the driver: want up to %s from now, got %s", patience, left)
	}
	if strings.Join(header["x-head"], "") != "h" || strings.Join(trailer["x-tail"], "") != "t" {
		t.Fatalf("metadata at the client: header %v, trailer %v", header, trailer)
	}
	r.wantEvents(
		"invoke client ControllerPublishVolume node=n7 v1@n7",
		"invoke driver ControllerPublishVolume node=n7 v1@n7",
		"fail driver ControllerPublishVolume node=n7 v1@n7 code=8",
		"fail client ControllerPublishVolume node=n7 v1@n7 code=8",
	)
}

func TestSecretsAreNotRecorded(t *testing.T) {
	r := newRig(t, nil)
	serveDriver(t, r.driver, &fakeDriver{})
	_, err := csi.NewControllerClient(r.conn).ControllerPublishVolume(r.ctx(),
		&csi.ControllerPublishVolumeRequest{VolumeId: "v1", NodeId: "n1", Secrets: map[string]string{"token": "hunter2"}})
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(r.dir, "events", "csi", "n1.jsonl"))
	if err != nil || bytes.Contains(b, []byte("hunter2")) {
		t.Fatalf("want no secret in the history, got %s, %v", b, err)
	}
}

func TestUnknownMethodPassesByteForByte(t *testing.T) {
	const method = "/csi.v9.Future/Foresee"
	request, answer := []byte("\x0a\x03abc\xff not protobuf \x00"), []byte("\x00\x01\x02 nor this \xfe")
	var saw []byte
	r := newRig(t, nil)
	serveDriver(t, r.driver, &fakeDriver{}, grpc.ForceServerCodecV2(raw{}), grpc.UnknownServiceHandler(func(_ any, s grpc.ServerStream) error {
		var f frame
		if err := s.RecvMsg(&f); err != nil {
			return err
		}
		saw = f.bytes
		if got, ok := grpc.MethodFromServerStream(s); !ok || got != method {
			return status.Errorf(codes.Unimplemented, "method %q", got)
		}
		return s.SendMsg(&frame{answer})
	}))
	var got frame
	if err := r.conn.Invoke(r.ctx(), method, &frame{request}, &got, grpc.ForceCodecV2(raw{})); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(saw, request) || !bytes.Equal(got.bytes, answer) {
		t.Fatalf("want %q and %q, got %q and %q", request, answer, saw, got.bytes)
	}
	r.wantEvents("invoke client Foresee node=n1", "invoke driver Foresee node=n1", "ok driver Foresee node=n1", "ok client Foresee node=n1")
}

func TestUnknownStreamPassesInBothDirections(t *testing.T) {
	r := newRig(t, nil)
	serveDriver(t, r.driver, &fakeDriver{}, grpc.ForceServerCodecV2(raw{}), grpc.UnknownServiceHandler(func(_ any, s grpc.ServerStream) error {
		for {
			var f frame
			if err := s.RecvMsg(&f); errors.Is(err, io.EOF) {
				return status.Error(codes.Aborted, "enough")
			} else if err != nil {
				return err
			}
			if err := s.SendMsg(&frame{append([]byte("re: "), f.bytes...)}); err != nil {
				return err
			}
		}
	}))
	s, err := r.conn.NewStream(r.ctx(), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, "/x.Y/Talk", grpc.ForceCodecV2(raw{}))
	if err != nil {
		t.Fatal(err)
	}
	var got frame
	for _, word := range []string{"a", "b", "c"} { // each answer comes before the next question
		if err := s.SendMsg(&frame{[]byte(word)}); err != nil {
			t.Fatal(err)
		}
		if err := s.RecvMsg(&got); err != nil || string(got.bytes) != "re: "+word {
			t.Fatalf("want re: %s, got %q, %v", word, got.bytes, err)
		}
	}
	if err := s.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if err := s.RecvMsg(&got); status.Code(err) != codes.Aborted || status.Convert(err).Message() != "enough" {
		t.Fatalf("want the driver's status, got %v", err)
	}
	r.wantEvents("invoke client Talk node=n1", "invoke driver Talk node=n1", "fail driver Talk node=n1 code=10", "fail client Talk node=n1 code=10")
}

func TestKnownMethodThatTheDriverLacks(t *testing.T) {
	r := newRig(t, nil)
	serveDriver(t, r.driver, &fakeDriver{})
	_, err := csi.NewControllerClient(r.conn).CreateSnapshot(r.ctx(), &csi.CreateSnapshotRequest{})
	if status.Code(err) != codes.Unimplemented {
		t.Fatalf("want the driver's UNIMPLEMENTED, got %v", err)
	}
}

func TestDriverThatIsNotThereAndComesBack(t *testing.T) {
	r := newRig(t, nil)
	for range 3 {
		if _, err := r.info(r.ctx()); status.Code(err) != codes.Unavailable {
			t.Fatalf("no driver: want UNAVAILABLE, got %v", err)
		}
	}
	for range 3 { // each time the very next call reaches it
		stop := serveDriver(t, r.driver, &fakeDriver{})
		if _, err := r.info(r.ctx()); err != nil {
			t.Fatalf("driver is there: %v", err)
		}
		stop()
		if _, err := r.info(r.ctx()); status.Code(err) != codes.Unavailable {
			t.Fatalf("driver is gone: want UNAVAILABLE, got %v", err)
		}
	}
	lines, _ := r.events()
	want := []string{"invoke client NodeGetInfo node=n1", "fail client NodeGetInfo node=n1 code=14"}
	if len(lines) < 2 || lines[0] != want[0] || lines[1] != want[1] {
		t.Fatalf("driver that was never reached: want %q, got %q", want, lines)
	}
}

func TestRouteByNodeID(t *testing.T) {
	var other string
	r := newRig(t, func(o *Options) {
		other = filepath.Join(filepath.Dir(o.Listen), "o.sock")
		o.Node = ""
		o.Route = func(node string) string {
			return map[string]string{"n1": o.Driver, "n2": "unix://" + other, "n3": ""}[node]
		}
	})
	answer := func(code codes.Code) *fakeDriver {
		return &fakeDriver{publish: func(context.Context, *csi.ControllerPublishVolumeRequest) (*csi.ControllerPublishVolumeResponse, error) {
			return nil, status.Error(code, "me")
		}}
	}
	serveDriver(t, r.driver, answer(codes.Aborted))
	serveDriver(t, other, answer(codes.OutOfRange))
	for node, want := range map[string]codes.Code{"n1": codes.Aborted, "n2": codes.OutOfRange, "n3": codes.Aborted} {
		_, err := csi.NewControllerClient(r.conn).ControllerPublishVolume(r.ctx(), &csi.ControllerPublishVolumeRequest{VolumeId: "v", NodeId: node})
		if status.Code(err) != want {
			t.Errorf("node %q: want %s, got %v", node, want, err)
		}
	}
}

// TestRecordedFields are what the history has of calls beside NodeGetInfo and attaches: by these volumes are told apart, and releases.
func TestRecordedFields(t *testing.T) {
	r := newRig(t, func(o *Options) {
		o.Node = ""
		driver := o.Driver
		o.Driver, o.Route = "", func(node string) string { return map[string]string{"": driver}[node] }
	})
	serveDriver(t, r.driver, &fakeDriver{})
	if _, err := csi.NewIdentityClient(r.conn).GetPluginInfo(r.ctx(), &csi.GetPluginInfoRequest{}); err != nil {
		t.Fatalf("want the Identity service routed, too, got %v", err)
	}
	if _, err := csi.NewControllerClient(r.conn).CreateVolume(r.ctx(), &csi.CreateVolumeRequest{Name: "pvc-1"}); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(patience)
	for len(r.recorded()) < 8 && time.Now().Before(deadline) {
		time.Sleep(5 * time.Millisecond)
	}
	for i, e := range r.recorded() {
		var c history.CSICall
		if err := e.Decode(&c); err != nil {
			t.Fatal(err)
		}
		if e.Key == "GetPluginInfo" && (c.Version == "v7") != (e.Phase == history.OK) {
			t.Errorf("event %d: want the version in the answer, got %q when %s", i, c.Version, e.Phase)
		}
		if e.Key == "CreateVolume" && (c.Name != "pvc-1" || (c.Volume == "id-1") != (e.Phase == history.OK)) {
			t.Errorf("event %d: want the name, and the volume in the answer, got %q and %q when %s", i, c.Name, c.Volume, e.Phase)
		}
	}
	if n := len(r.recorded()); n != 8 {
		t.Errorf("want 8 events, got %d", n)
	}
}

// TestBigMessagesPass: limits are the client's and the driver's to have, and gRPC's own are below what a CSI call may hold.
func TestBigMessagesPass(t *testing.T) {
	big := strings.Repeat("x", 5<<20)
	r := newRig(t, nil)
	serveDriver(t, r.driver, &fakeDriver{info: func(context.Context) (*csi.NodeGetInfoResponse, error) {
		return &csi.NodeGetInfoResponse{NodeId: big}, nil
	}}, grpc.MaxRecvMsgSize(maxMessage))
	got, err := csi.NewNodeClient(r.conn).NodeGetInfo(r.ctx(), &csi.NodeGetInfoRequest{}, grpc.MaxCallRecvMsgSize(maxMessage))
	if err != nil || got.NodeId != big {
		t.Errorf("want an answer of 5 MiB, got %v", err)
	}
	if _, err := csi.NewControllerClient(r.conn).ControllerPublishVolume(r.ctx(), &csi.ControllerPublishVolumeRequest{VolumeId: big, NodeId: "n1"}); err != nil {
		t.Errorf("want a request of 5 MiB taken, got %v", err)
	}
}

// TestServeEndsWithItsContext: a gate whose context ends is no error.
func TestServeEndsWithItsContext(t *testing.T) {
	g, err := New(Options{Listen: filepath.Join(shortDir(t), "g"), Driver: "unix:///d"})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- g.Serve(ctx) }()
	cancel()
	select {
	case err := <-served:
		if err != nil {
			t.Errorf("want no error, got %v", err)
		}
	case <-time.After(patience):
		t.Errorf("it serves %s after its context's end", patience)
	}
}

func TestRouteToNobody(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Driver, o.Route = "", func(string) string { return "" } })
	_, err := csi.NewControllerClient(r.conn).ControllerPublishVolume(r.ctx(), &csi.ControllerPublishVolumeRequest{VolumeId: "v", NodeId: "n9"})
	if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), `the id "n9": `) || !strings.Contains(err.Error(), "nodeIDs: own") {
		t.Fatalf("want UNAVAILABLE that names the node, got %v", err)
	}
}

func TestNewRefuses(t *testing.T) {
	dir := shortDir(t)
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cases := map[string]Options{
		"no driver":       {Listen: filepath.Join(dir, "a")},
		"relative path":   {Listen: filepath.Join(dir, "c"), Driver: "unix://d"},
		"driver endpoint": {Listen: filepath.Join(dir, "b"), Driver: "tcp://x"},
		"long path":       {Listen: filepath.Join(dir, strings.Repeat("x", 120)), Driver: "unix:///d"},
		"not a socket":    {Listen: file, Driver: "unix:///d"},
		"no directory":    {Listen: filepath.Join(dir, "none", "a"), Driver: "unix:///d"},
	}
	for name, o := range cases {
		if g, err := New(o); err == nil {
			t.Errorf("%s: want an error", name)
			g.Close()
		}
	}
}
