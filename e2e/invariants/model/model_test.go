package model

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"headroom/e2e/framework/history"
	"headroom/e2e/framework/versions"
)

// feed numbers the events of a small history and folds them. Times are whole seconds.
type feed struct {
	*Model
	seq   map[string]uint64
	ended []*Wait
}

func newFeed(h history.Header) *feed { return &feed{Model: New(h), seq: map[string]uint64{}} }

func (f *feed) add(at int, e history.Event, body any) Step {
	f.seq[e.Source]++
	e.At, e.Seq, e.Body = time.Duration(at)*time.Second, f.seq[e.Source], history.Encode(body)
	if e.Phase == "" {
		e.Phase = history.Observed
	}
	s := f.Observe(e)
	f.ended = append(f.ended, s.Over...)
	return s
}

func TestTimeline(t *testing.T) {
	var l Timeline[string]
	for i, v := range []string{"a", "b", "c"} {
		l.set(time.Duration(10*(i+1)), v, history.Ref{})
	}
	for _, c := range []struct {
		from, to time.Duration
		want     string
	}{
		{0, 5, ""}, {0, 10, "a"}, {10, 19, "a"}, {15, 20, "ab"}, {20, 29, "b"}, {5, 40, "abc"}, {35, 40, "c"}, {30, 20, ""},
	} {
		got := ""
		for _, p := range l.Over(c.from, c.to) {
			got += p.Value
		}
		if got != c.want {
			t.Errorf("over %d..%d: want %q, got %q", c.from, c.to, c.want, got)
		}
	}
	if _, ok := l.At(9); ok {
		t.Error("want nothing in force before the first point")
	}
	if p, _ := l.At(20); p.Value != "b" {
		t.Errorf("want a point to hold from its own time on, got %q", p.Value)
	}
	if p, ok := l.Back(2); !ok || p.Value != "a" {
		t.Errorf("want the oldest of three, got %q", p.Value)
	}
	l.set(5, "late", history.Ref{})
	if p, _ := l.Back(0); p.At != 30 {
		t.Errorf("want a time that goes back raised to the last, got %d", p.At)
	}
	var none *Timeline[string]
	if len(none.Over(0, 1)) != 0 || len(none.Points()) != 0 {
		t.Error("want nothing of a timeline that was never set")
	}
}

func TestTimesDoNotOverflow(t *testing.T) {
	for _, c := range []struct{ got, want time.Duration }{
		{Plus(Forever, time.Second), Forever},
		{Plus(-Forever, -time.Hour), -Forever},
		{Plus(2, 3), 5},
		{Minus(1, 3), -2},
		{Seconds(9223372037), Forever},
		{Seconds(math.MaxInt64), Forever},
		{Seconds(-1), 0},
		{Seconds(10), 10 * time.Second},
	} {
		if c.got != c.want {
			t.Errorf("want %d, got %d", c.want, c.got)
		}
	}
}

func TestSpans(t *testing.T) {
	s := merged([]Span{{5, 8}, {1, 2}, {7, 9}, {2, 3}})
	if want := (Spans{{1, 3}, {5, 9}}); !slices.Equal(s, want) {
		t.Fatalf("want %v, got %v", want, s)
	}
	for at, want := range map[time.Duration]bool{0: false, 1: true, 3: true, 4: false, 9: true, 10: false} {
		if got := s.Overlaps(at, at); got != want {
			t.Errorf("at %d: want %v, got %v", at, want, got)
		}
	}
}

func TestSlow(t *testing.T) {
	for _, c := range []struct {
		name string
		run  func(*feed)
		want string // the seconds from 0 to 9 that are slow
	}{
		{"steady beats", func(f *feed) {
			for i := range 10 {
				f.add(i, history.Event{Source: "beat/p"}, history.Beat{MaxGap: history.Duration(100 * time.Millisecond)})
			}
		}, ""},
		{"a gap above half the slack", func(f *feed) {
			f.add(4, history.Event{Source: "beat/p"}, history.Beat{})
			f.add(6, history.Event{Source: "beat/p"}, history.Beat{MaxGap: history.Duration(1100 * time.Millisecond)})
		}, "456"},
		{"missing beats", func(f *feed) {
			f.add(2, history.Event{Source: "beat/p"}, history.Beat{})
			f.add(3, history.Event{Source: "beat/q"}, history.Beat{})
			f.add(6, history.Event{Source: "beat/p"}, history.Beat{})
		}, "23456"},
		{"a slow probe", func(f *feed) {
			f.add(7, history.Event{Source: "probe", Phase: history.OK}, history.Probe{Latency: history.Duration(3 * time.Second)})
		}, "4567"},
		{"a quick failure", func(f *feed) {
			f.add(7, history.Event{Source: "probe", Phase: history.Fail}, history.Probe{Latency: history.Duration(time.Millisecond), Error: "refused"})
		}, ""},
	} {
		f := newFeed(history.Header{})
		c.run(f)
		got := ""
		for i := range 10 {
			at := time.Duration(i) * time.Second
			if f.Slow(at, at) {
				got += fmt.Sprint(i)
			}
		}
		if got != c.want {
			t.Errorf("%s: want slow at %q, got %q", c.name, c.want, got)
		}
	}
}

func TestGaps(t *testing.T) {
	f := newFeed(history.Header{Missing: map[string]string{"audit": "no access"}})
	f.add(1, history.Event{Source: history.SourceMerge, Phase: history.Gap, Key: "csi/n1"}, history.GapReason{Reason: "torn"})
	f.add(2, history.Event{Source: "backend", Phase: history.Gap}, nil)
	f.add(3, history.Event{Source: "probe", Phase: history.OK}, "no object")
	for need, want := range map[string]int{"csi/": 1, "csi/n1": 1, "csi/n2": 0, "backend": 1, "probe": 1, "audit": 1, "api/pods": 0} {
		if got := len(f.Gaps(need)); got != want {
			t.Errorf("%s: want %d gaps, got %d", need, want, got)
		}
	}
	f.Lose("", "unreadable", history.Ref{})
	if got := len(f.Gaps("api/pods")); got != 1 {
		t.Errorf("want a gap in all sources to be in each, got %d", got)
	}
}

func TestRegistrationEnds(t *testing.T) {
	yes := true
	id := ID{"n1", "d"}
	entry := []history.CSINodeDriver{{Name: "d", NodeID: "n1"}}
	for _, c := range []struct {
		name string
		end  func(*feed)
		want bool
	}{
		{"nothing", func(*feed) {}, true},
		{"kubelet killed", func(f *feed) {
			f.add(5, history.Event{Source: "component/x", Key: "kubelet@n1"}, history.Component{State: "exited"})
		}, false},
		{"kubelet paused", func(f *feed) {
			f.add(5, history.Event{Source: "component/x", Key: "kubelet@n1"}, history.Component{State: "paused"})
		}, true},
		{"entry gone", func(f *feed) { f.add(5, history.Event{Source: "api/csinodes", Key: "n1", Rev: 9}, history.CSINode{}) }, false},
		{"an older state seen late", func(f *feed) { f.add(5, history.Event{Source: "api/csinodes", Key: "n1", Rev: 2}, history.CSINode{}) }, true},
	} {
		f := newFeed(history.Header{})
		f.add(1, history.Event{Source: "csi/n1", Key: NotifyRegistered, Node: "n1"}, history.CSICall{Driver: "d", Side: history.ClientSide, Registered: &yes})
		f.add(2, history.Event{Source: "api/csinodes", Key: "n1", Rev: 3}, history.CSINode{Drivers: entry})
		c.end(f)
		if p, _ := f.Registered(id).At(6 * time.Second); p.Value != c.want {
			t.Errorf("%s: want registered %v, got %v", c.name, c.want, p.Value)
		}
	}
}

func TestRevisionsJoinAuditAndWatch(t *testing.T) {
	f := newFeed(history.Header{})
	audit := func(at int, rev int64, user string) {
		f.add(at, history.Event{Source: "audit", Phase: history.OK, Rev: rev}, history.Audit{User: user, Verb: "update", Resource: "csinodes", Name: "n1"})
	}
	watch := func(at int, rev int64) {
		f.add(at, history.Event{Source: "api/csinodes", Key: "n1", Rev: rev}, history.CSINode{Object: history.Object{Type: "MODIFIED"}})
	}
	watch(4, 11) // before the audited answer
	audit(5, 11, "b")
	audit(6, 10, "a") // an older write answered late
	watch(7, 10)
	watch(8, 12)
	got := ""
	for _, r := range f.Revisions("n1") {
		got += fmt.Sprintf("%d@%s:%d ", r.Rev, r.At, len(r.Claims))
	}
	if want := "10@4s:1 11@4s:1 12@8s:0 "; got != want {
		t.Errorf("want %q, got %q", want, got)
	}
	if i := f.After("n1", 4*time.Second); i != 2 {
		t.Errorf("want the state after 4 s at index 2, got %d", i)
	}
}

func TestCallsJoin(t *testing.T) {
	f := newFeed(history.Header{})
	n := int64(5)
	f.add(1, history.Event{Source: "csi/n1", Phase: history.Invoke, Op: "a", Key: NodeGetInfo}, history.CSICall{Driver: "d", Side: history.ClientSide})
	f.add(1, history.Event{Source: "csi/n1", Phase: history.Invoke, Op: "a", Key: NodeGetInfo}, history.CSICall{Driver: "d", Side: history.DriverSide})
	f.add(2, history.Event{Source: "csi/n1", Phase: history.OK, Op: "a", Key: NodeGetInfo}, history.CSICall{Driver: "d", Side: history.DriverSide, NodeID: "id-1", MaxVolumes: &n})
	id := ID{"n1", "d"}
	client, driver := f.Infos(id)[0], f.Served(id)[0]
	if client.Answered != "" || client.Done != Forever || !driver.OK() || driver.Max != 5 || driver.Invoked != time.Second {
		t.Errorf("want the driver side answered and the client side not, got %+v and %+v", driver, client)
	}
	s := f.add(3, history.Event{Source: "csi/controller/d", Phase: history.Invoke, Op: "b", Key: Publish, Node: "id-1"}, history.CSICall{Driver: "d", Side: history.DriverSide, Volume: "v"})
	if s.Call.Node != "n1" {
		t.Errorf("want the CSI node id mapped to its node, got %q", s.Call.Node)
	}
	if s := f.add(4, history.Event{Source: "csi/n1", Phase: history.OK, Op: "zz", Key: NodeGetInfo}, history.CSICall{Driver: "d"}); !s.Call.Orphan {
		t.Error("want a completion without an invoke marked as an orphan")
	}
}

func TestFeatureByVersionAndGate(t *testing.T) {
	for _, c := range []struct {
		version, gate               string
		refreshes, rejects, mutable bool
	}{
		{"", "", false, false, false},
		{"v1.32.9", "true", false, false, false},
		{"v1.33.0", "", false, false, false},
		{"v1.33.0", "true", true, false, true},
		{"v1.34.2", "true", true, true, true},
		{"v1.35.0", "", true, true, true},
		{"v1.35.0", "false", false, false, false},
		{"v1.36.3", "false", true, true, true}, // locked on
		{"nonsense", "true", false, false, false},
	} {
		h := history.Header{Versions: map[string]string{"kubelet": c.version, "kube-apiserver": c.version}}
		if c.gate != "" {
			for _, component := range []string{"kubelet", "kube-apiserver"} {
				h.Versions[component+"/"+versions.MutableCSINodeAllocatableCount] = c.gate
			}
		}
		m := New(h)
		if m.Refreshes("n1", 0) != c.refreshes || m.Rejects("n1", 0) != c.rejects || m.Mutable(0) != c.mutable {
			t.Errorf("%q, gate %q: want %v %v %v, got %v %v %v", c.version, c.gate, c.refreshes, c.rejects, c.mutable,
				m.Refreshes("n1", 0), m.Rejects("n1", 0), m.Mutable(0))
		}
	}
}
