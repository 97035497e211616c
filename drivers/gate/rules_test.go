package gate

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestInjectedFailureHasNoDriverSide(t *testing.T) {
	r := newRig(t, nil)
	d := &fakeDriver{}
	serveDriver(t, r.driver, d)
	remove := r.gate.Rules().Add(Rule{Method: "NodeGetInfo", Code: codes.Internal, Message: "made up"})
	if _, err := r.info(r.ctx()); status.Code(err) != codes.Internal || status.Convert(err).Message() != "made up" {
		t.Fatalf("want the rule's error, got %v", err)
	}
	if d.count() != 0 {
		t.Fatal("want the driver not to be asked")
	}
	remove()
	remove() // twice does nothing
	if _, err := r.info(r.ctx()); err != nil {
		t.Fatal(err)
	}
	r.wantEvents(
		"invoke client NodeGetInfo node=n1",
		"fail client NodeGetInfo node=n1 code=13 injected",
		"invoke client NodeGetInfo node=n1",
		"invoke driver NodeGetInfo node=n1",
		"ok driver NodeGetInfo node=n1 @n1 max=8",
		"ok client NodeGetInfo node=n1 @n1 max=8",
	)
}

func TestRewrittenCountShowsOnTheClientSideOnly(t *testing.T) {
	r := newRig(t, nil)
	serveDriver(t, r.driver, &fakeDriver{info: func(context.Context) (*csi.NodeGetInfoResponse, error) {
		return &csi.NodeGetInfoResponse{NodeId: "n1", MaxVolumesPerNode: 8, AccessibleTopology: &csi.Topology{Segments: map[string]string{"z": "a"}}}, nil
	}})
	count := int64(-1)
	r.gate.Rules().Add(Rule{MaxVolumes: &count, Times: 1})
	got, err := r.info(r.ctx())
	if err != nil || got.MaxVolumesPerNode != -1 || got.NodeId != "n1" || got.AccessibleTopology.GetSegments()["z"] != "a" {
		t.Fatalf("want -1 and the rest unchanged, got %v, %v", got, err)
	}
	if got, err = r.info(r.ctx()); err != nil || got.MaxVolumesPerNode != 8 {
		t.Fatalf("want the rule to be used up, got %v, %v", got, err)
	}
	lines, _ := r.events()
	if lines[2] != "ok driver NodeGetInfo node=n1 @n1 max=8" || lines[3] != "ok client NodeGetInfo node=n1 @n1 max=-1 injected" {
		t.Fatalf("got %q", lines)
	}
}

func TestRewrittenIdentity(t *testing.T) {
	r := newRig(t, nil)
	serveDriver(t, r.driver, &fakeDriver{info: func(context.Context) (*csi.NodeGetInfoResponse, error) {
		return &csi.NodeGetInfoResponse{NodeId: "n1", MaxVolumesPerNode: 8, AccessibleTopology: &csi.Topology{Segments: map[string]string{"z": "a"}}}, nil
	}})
	other, empty := "n2", ""
	defer r.gate.Rules().Add(Rule{Method: "ControllerPublishVolume", NodeID: &other})()
	if got, err := csi.NewControllerClient(r.conn).ControllerPublishVolume(r.ctx(), &csi.ControllerPublishVolumeRequest{VolumeId: "v"}); err != nil || len(got.ProtoReflect().GetUnknown()) > 0 {
		t.Errorf("an answer of another method: want it as it is, got %v, %v", got, err)
	}
	for name, c := range map[string]struct {
		rule    Rule
		id, key string
	}{
		"another node": {Rule{NodeID: &other}, "n2", "z"},
		"no node":      {Rule{NodeID: &empty}, "", "z"},
		"topology":     {Rule{TopologyKey: "k"}, "n1", "k"},
	} {
		remove := r.gate.Rules().Add(c.rule)
		got, err := r.info(r.ctx())
		if err != nil || got.NodeId != c.id || got.MaxVolumesPerNode != 8 || len(got.AccessibleTopology.GetSegments()) != 1 || got.AccessibleTopology.Segments[c.key] == "" {
			t.Errorf("%s: want node id %q and a segment %q, got %v, %v", name, c.id, c.key, got, err)
		}
		remove()
	}
}

func TestRulesSelect(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Node = "" })
	serveDriver(t, r.driver, &fakeDriver{})
	r.gate.Rules().Add(Rule{Method: "ControllerPublishVolume", Volume: "v1", Node: "n1", Code: codes.Aborted})
	r.gate.Rules().Add(Rule{Volume: "v2", Code: codes.DataLoss})
	r.gate.Rules().Add(Rule{Node: "n3", Code: codes.OutOfRange})
	cases := []struct {
		volume, node string
		want         codes.Code
	}{
		{"v1", "n1", codes.Aborted}, {"v1", "n2", codes.OK}, {"v2", "n1", codes.DataLoss},
		{"v2", "n3", codes.DataLoss}, {"v9", "n3", codes.OutOfRange}, {"v9", "n9", codes.OK},
	}
	for _, c := range cases {
		_, err := csi.NewControllerClient(r.conn).ControllerPublishVolume(r.ctx(), &csi.ControllerPublishVolumeRequest{VolumeId: c.volume, NodeId: c.node})
		if status.Code(err) != c.want {
			t.Errorf("volume %q, node %q: want %s, got %v", c.volume, c.node, c.want, err)
		}
	}
}

func TestDelayEndsWhenTheRuleIsRemoved(t *testing.T) {
	for name, rule := range map[string]Rule{"before the driver": {Delay: time.Hour}, "after it": {Hold: time.Hour}} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			serveDriver(t, r.driver, &fakeDriver{})
			remove := r.gate.Rules().Add(rule)
			done := make(chan error, 1)
			go func() { _, err := r.info(r.ctx()); done <- err }()
			if rule.Hold > 0 {
				r.wantEvents("invoke client NodeGetInfo node=n1", "invoke driver NodeGetInfo node=n1", "ok driver NodeGetInfo node=n1 @n1 max=8")
			} else {
				r.wantEvents("invoke client NodeGetInfo node=n1")
			}
			remove()
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			if lines, _ := r.events(); lines[3] != "ok client NodeGetInfo node=n1 @n1 max=8 injected" {
				t.Fatalf("got %q", lines)
			}
		})
	}
}

// TestRulesOnStreams: of a stream they see method and node, and can delay and fail it.
func TestRulesOnStreams(t *testing.T) {
	r := newRig(t, nil)
	serveDriver(t, r.driver, &fakeDriver{})
	call := func() error {
		s, err := csi.NewSnapshotMetadataClient(r.conn).GetMetadataAllocated(r.ctx(), &csi.GetMetadataAllocatedRequest{SnapshotId: "s"})
		if err == nil {
			_, err = s.Recv()
		}
		return err
	}
	for _, other := range []Rule{{Method: "GetMetadataDelta"}, {Volume: "v"}, {Node: "n2"}} {
		other.Code = codes.DataLoss
		defer r.gate.Rules().Add(other)()
	}
	r.gate.Rules().Add(Rule{Method: "GetMetadataAllocated", Node: "n1", Times: 1, Code: codes.Aborted, Message: "made up"})
	if err := call(); status.Code(err) != codes.Aborted || status.Convert(err).Message() != "made up" {
		t.Errorf("want the rule's error, got %v", err)
	}
	want := []string{"invoke client GetMetadataAllocated node=n1", "fail client GetMetadataAllocated node=n1 code=10 injected"}
	r.wantEvents(want...)
	remove := r.gate.Rules().Add(Rule{Delay: time.Hour})
	ended := make(chan error, 1)
	go func() { ended <- call() }()
	want = append(want, "invoke client GetMetadataAllocated node=n1")
	r.wantEvents(want...)
	remove()
	if err := <-ended; status.Code(err) != codes.Unimplemented {
		t.Errorf("want the driver's UNIMPLEMENTED, got %v", err)
	}
	r.wantEvents(append(want,
		"invoke driver GetMetadataAllocated node=n1",
		"fail driver GetMetadataAllocated node=n1 code=12",
		"fail client GetMetadataAllocated node=n1 code=12 injected")...)
}

// TestRulesAreShared: those of several gates count the calls of all.
func TestRulesAreShared(t *testing.T) {
	rules := &Rules{}
	var rigs []*rig
	for range 2 {
		r := newRig(t, func(o *Options) { o.Rules = rules })
		serveDriver(t, r.driver, &fakeDriver{})
		rigs = append(rigs, r)
	}
	rules.Add(Rule{Code: codes.Aborted, Times: 3})
	for i, want := range []codes.Code{codes.Aborted, codes.Aborted, codes.Aborted, codes.OK} {
		if _, err := rigs[i%2].info(rigs[i%2].ctx()); status.Code(err) != want {
			t.Errorf("call %d: want %s, got %v", i+1, want, err)
		}
	}
	if rigs[0].gate.Rules() != rules || newRig(t, nil).gate.Rules() == nil {
		t.Error("want the rules given, and rules of its own for a gate that is given none")
	}
}

// TestRewriteOfWhatDoesNotDecode: an answer that is none is the driver's failure, not a count of 0.
func TestRewriteOfWhatDoesNotDecode(t *testing.T) {
	count := int64(5)
	rule := &active{Rule: Rule{MaxVolumes: &count}}
	garbage := frame{[]byte("\xff")}
	for full, want := range map[string]codes.Code{"/csi.v1.Node/NodeGetInfo": codes.Internal, "/csi.v1.Node/NodeGetCapabilities": codes.OK, "/csi.v9.Node/NodeGetInfo": codes.OK} {
		_, err := rule.after(t.Context(), methodOf(full), garbage, nil)
		if status.Code(err) != want || want != codes.OK && !strings.Contains(err.Error(), "answer of the driver does not decode") {
			t.Errorf("%s: want %s, got %v", full, want, err)
		}
	}
	refused := status.Error(codes.NotFound, "no node")
	if _, err := rule.after(t.Context(), methodOf("/csi.v1.Node/NodeGetInfo"), frame{}, refused); err != refused {
		t.Errorf("an error of the driver: want it as it is, got %v", err)
	}
}

func TestDelayLongerThanTheClientsDeadline(t *testing.T) {
	d := &fakeDriver{}
	r := withDeadline(t, func(r *rig) (reached func() bool) {
		serveDriver(t, r.driver, d)
		r.gate.Rules().Add(Rule{Delay: time.Hour})
		return func() bool { return true } // the gate, which is far enough
	})
	if d.count() != 0 {
		t.Fatal("want a driver that was not asked")
	}
	r.wantEvents("invoke client NodeGetInfo node=n1", "unknown client NodeGetInfo node=n1 code=4 injected")
}
