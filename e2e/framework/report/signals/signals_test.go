package signals

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"headroom/e2e/framework/history"
)

// script is a history written by hand; times are seconds.
type script struct {
	header history.Header
	seq    map[string]uint64
	c      *Collector
}

func newScript() *script {
	h := history.Header{Schema: history.Schema, Run: "r"}
	return &script{header: h, seq: map[string]uint64{}, c: New(h)}
}

func (s *script) add(at float64, source string, phase history.Phase, e history.Event, body any) {
	s.seq[source]++
	e.At, e.Source, e.Seq, e.Phase = time.Duration(at*1e9), source, s.seq[source], phase
	if body != nil {
		e.Body = history.Encode(body)
	}
	s.c.Observe(e)
}

func (s *script) quota(at float64, limit, foreign int64) {
	s.add(at, "backend", history.Observed, history.Event{Node: "n1", Key: "quota"}, history.Backend{Quota: &history.Quota{Limit: limit, Foreign: foreign}})
}

// count writes a state of CSINode n1; 0 is an entry without a count, less is no entry.
func (s *script) count(at float64, rev int64, n int32) {
	b := history.CSINode{Object: history.Object{Type: "MODIFIED"}}
	switch {
	case n > 0:
		b.Drivers = []history.CSINodeDriver{{Name: "d", NodeID: "n1", Count: &n}}
	case n == 0:
		b.Drivers = []history.CSINodeDriver{{Name: "d", NodeID: "n1"}}
	}
	s.add(at, "api/csinodes", history.Observed, history.Event{Rev: rev, Key: "n1"}, b)
}

func (s *script) attachment(at float64, name, kind string, attached bool) {
	s.add(at, "api/volumeattachments", history.Observed, history.Event{Key: name}, history.VolumeAttachment{
		Object: history.Object{Type: kind}, Attacher: "d", NodeName: "n1", PVName: "pv-" + name, Attached: attached,
	})
}

func TestUpdateDelay(t *testing.T) {
	for name, tc := range map[string]struct {
		write func(*script)
		want  Delay
	}{
		"arrives": {func(s *script) {
			s.quota(0, 5, 0)
			s.count(1, 1, 5)
			s.quota(10, 8, 1)
			s.count(12, 2, 6) // a step on the way
			s.count(19, 3, 7)
		}, Delay{Samples: 1, P50Seconds: 9, P99Seconds: 9, MaxSeconds: 9}},
		"before the node had an entry": {func(s *script) {
			s.quota(0, 5, 0)
			s.quota(1, 6, 0)
			s.count(2, 1, 6)
		}, Delay{}},
		"superseded, then open": {func(s *script) {
			s.quota(0, 5, 0)
			s.count(1, 1, 5)
			s.quota(10, 8, 0)
			s.quota(11, 2, 0)
			s.count(12, 2, 8) // the first change, too late to count
			s.count(20, 3, 4)
		}, Delay{Superseded: 1, Open: 1, OldestOpenSeconds: 9}},
		"the entry goes": {func(s *script) {
			s.quota(0, 5, 0)
			s.count(1, 1, 5)
			s.quota(10, 8, 0)
			s.count(12, 2, -1)
			s.count(14, 3, 8)
		}, Delay{Superseded: 1}},
		"zero is shown as one": {func(s *script) {
			s.quota(0, 5, 0)
			s.count(1, 1, 5)
			s.quota(10, 3, 3)
			s.count(13.5, 2, 1)
			s.quota(20, 1, 0) // usable 1: the count is right already
		}, Delay{Samples: 1, P50Seconds: 3.5, P99Seconds: 3.5, MaxSeconds: 3.5}},
		"unlimited is not an arrival": {func(s *script) {
			s.quota(0, 5, 0)
			s.count(1, 1, 5)
			s.quota(10, 8, 0)
			s.count(12, 2, 0)
		}, Delay{Open: 1, OldestOpenSeconds: 2}},
		"only foreign and limit moved": {func(s *script) {
			s.quota(0, 5, 0)
			s.count(1, 1, 5)
			s.quota(10, 6, 1)
		}, Delay{}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript()
			tc.write(s)
			if got := s.c.Finish().UpdateDelay; got != tc.want {
				t.Errorf("want %+v, got %+v", tc.want, got)
			}
		})
	}
}

func TestRankIsNearest(t *testing.T) {
	var all []time.Duration
	for i := range 100 {
		all = append(all, time.Duration(i+1)*time.Second)
	}
	for q, want := range map[float64]float64{0: 1, 0.5: 50, 0.99: 99, 1: 100} {
		if got := rank(all, q); got != want {
			t.Errorf("%v of 1..100 s: want %v, got %v", q, want, got)
		}
	}
	if got := rank(all[:1], 0.5); got != 1 {
		t.Errorf("of one: want 1, got %v", got)
	}
}

func TestCountChangesPerMinute(t *testing.T) {
	s := newScript()
	s.count(0, 1, -1)
	s.count(1, 2, 5) // registered: no change in place
	s.count(30, 3, 6)
	s.count(60, 4, 0)
	s.count(90, 5, 0)
	s.count(100, 6, -1)
	s.count(120, 7, 3)
	if got, want := s.c.Finish().CountChanges, (Changes{Changes: 2, PerMinute: 1}); got != want {
		t.Errorf("want %+v, got %+v", want, got)
	}
}

func TestUnschedulable(t *testing.T) {
	for message, want := range map[string][]string{
		"": nil,
		"0/3 nodes are available: 1 node(s) exceed max volume count, 2 Too many pods. preemption: 0/3 nodes are available: 3 No victims.": {
			"exceed max volume count", "Too many pods"},
		"0/1 nodes are available: 1 node(s) exceed max volume count.":                               {"exceed max volume count"},
		"0/2 nodes are available: 2 node(s) had untolerated taint {a: b, c}. preemption: not told.": {"had untolerated taint {a: b, c}"},
		"0/2 nodes are available: because, 1 x.":                                                    {"because", "x"},
		"running PreBind plugin failed":                                                             {"running PreBind plugin failed"},
	} {
		if got := unschedulable(message); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: want %q, got %q", message, want, got)
		}
	}
}

func TestPendingReasonsCountPods(t *testing.T) {
	s := newScript()
	pod := func(at float64, uid, phase, node, reason, unschedulable string) {
		s.add(at, "api/pods", history.Observed, history.Event{Key: "ns/" + uid}, history.Pod{
			Object: history.Object{Type: "MODIFIED", UID: uid}, PodPhase: phase, NodeName: node, Reason: reason, Unschedulable: unschedulable, Claims: []string{"c-" + uid},
		})
	}
	const full = "0/1 nodes are available: 1 node(s) exceed max volume count."
	pod(0, "a", "Pending", "", "", full)
	pod(1, "a", "Pending", "", "", full)
	pod(2, "b", "Pending", "", "", full)
	pod(3, "c", "Running", "n1", "", full) // an old condition
	pod(4, "d", "Pending", "n1", "", "")
	s.add(5, "api/persistentvolumeclaims", history.Observed, history.Event{Key: "ns/c-d"}, history.PVC{Object: history.Object{Type: "ADDED"}, VolumeName: "pv"})
	code := int32(8)
	for _, attach := range []history.VolumeAttachment{{AttachCode: &code, AttachError: "full"}, {AttachError: "timed out"}, {}} {
		attach.Object, attach.NodeName, attach.PVName = history.Object{Type: "MODIFIED"}, "n1", "pv"
		s.add(6, "api/volumeattachments", history.Observed, history.Event{Key: "va"}, attach)
	}
	pod(7, "d", "Failed", "n1", "VolumeAttachmentLimitExceeded", "")
	for _, uid := range []string{"b", "e", "e"} {
		pod(8, uid, "Pending", "", "", "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found")
	}
	want := []Reason{
		{"exceed max volume count", 2}, {"attach failed: ResourceExhausted", 1}, {"attach failed: no code", 1}, {"rejected: VolumeAttachmentLimitExceeded", 1},
	}
	got := s.c.Finish()
	if !reflect.DeepEqual(got.PendingReasons, want) || got.PodsBeforeVolumes != 2 {
		t.Errorf("want %+v and 2 pods before their volumes, got %+v and %d", want, got.PendingReasons, got.PodsBeforeVolumes)
	}
}

func TestAttachFailuresCountWhatTheAttacherGot(t *testing.T) {
	s := newScript()
	side := func(op string, side history.Side, phase history.Phase, code uint32) {
		s.add(1, "csi/controller/d", phase, history.Event{Op: op, Key: "ControllerPublishVolume"}, history.CSICall{Side: side, Driver: "d", Volume: "v", Code: code})
	}
	call := func(op string, driver, client uint32) {
		for _, at := range []struct {
			side history.Side
			code uint32
		}{{history.DriverSide, driver}, {history.ClientSide, client}} {
			side(op, at.side, history.Invoke, 0)
			phase := history.OK
			if at.code != 0 {
				phase = history.Fail
			}
			side(op, at.side, phase, at.code)
		}
	}
	call("same", 8, 8)
	call("rewritten", 8, 13)
	call("made good", 8, 0)
	call("ok", 0, 0)
	side("late", history.ClientSide, history.Fail, 4)
	side("late", history.DriverSide, history.Fail, 8)
	side("driver only", history.DriverSide, history.Fail, 8)
	side("never answered", history.ClientSide, history.Unknown, 0)
	side("odd", history.ClientSide, history.Fail, 99)
	s.add(2, "csi/n1", history.Fail, history.Event{Op: "x", Key: "NodeGetInfo"}, history.CSICall{Side: history.ClientSide, Driver: "d", Code: 14})
	want := []Failures{{8, "ResourceExhausted", 2}, {0, "no answer", 1}, {4, "DeadlineExceeded", 1}, {13, "Internal", 1}, {99, "code 99", 1}}
	if got := s.c.Finish().AttachFailures; !reflect.DeepEqual(got, want) {
		t.Errorf("want %+v, got %+v", want, got)
	}
}

func TestCSINodeWrites(t *testing.T) {
	s := newScript()
	write := func(at float64, user, resource string, phase history.Phase) {
		s.add(at, "audit", history.Invoke, history.Event{}, history.Audit{User: user, Verb: "update", Resource: resource, Name: "n1"})
		s.add(at, "audit", phase, history.Event{}, history.Audit{User: user, Verb: "update", Resource: resource, Name: "n1"})
	}
	write(0, "system:node:n1", "csinodes", history.OK)
	write(5, "system:node:n1", "csinodes", history.Fail)
	write(5, "system:node:n1", "csinodes", history.Unknown) // nobody knows
	write(5, "system:node:n1", "volumeattachments", history.OK)
	write(6, "system:node:n2", "csinodes", history.OK)
	write(10, "admin", "csinodes", history.OK)
	got := s.c.Finish()
	want := []Writes{{"system:node:n1", 2, 1, 0.2}, {"admin", 1, 0, 0.1}, {"system:node:n2", 1, 0, 0.1}}
	if !reflect.DeepEqual(got.CSINodeWrites, want) {
		t.Errorf("want %+v, got %+v", want, got.CSINodeWrites)
	}
	if text := got.writers(); text != "2 kubelets 0.300/s (3), the busiest n1 (2); admin 0.100/s (1)" {
		t.Errorf("got %q", text)
	}
}

func TestVolumesInUse(t *testing.T) {
	s := newScript()
	s.count(0, 1, 2)
	s.attachment(1, "a", "ADDED", false)
	s.attachment(2, "a", "MODIFIED", true)
	s.attachment(3, "b", "ADDED", true)
	s.attachment(5, "c", "ADDED", true)
	s.attachment(8, "c", "DELETED", true)
	s.attachment(9, "d", "ADDED", false)
	s.count(10, 2, 1)
	s.attachment(12, "b", "DELETED", true)
	s.count(15, 3, 0)
	s.attachment(20, "a", "MODIFIED", true)
	// Full from 3 to 5, 8 to 10 and 12 to 15; over from 5 to 8 and 10 to 12; nothing is full without a count.
	want := []Volumes{{Node: "n1", Driver: "d", Attached: 1, MostAttached: 3, MostWaiting: 1, FullSeconds: 7, OverSeconds: 5}}
	got := s.c.Finish()
	if !reflect.DeepEqual(got.Volumes, want) {
		t.Errorf("want %+v, got %+v", want, got.Volumes)
	}
	if text := got.use(); !strings.Contains(text, "at most 3 attached, on n1; above the count on 1 of 1, longest on n1 for 5.0s; 1 of 1 without a count") {
		t.Errorf("got %q", text)
	}
}

func TestGapsMakeLowerBounds(t *testing.T) {
	s := newScript()
	s.header.Missing = map[string]string{"audit": "the provider has none"}
	s.c = New(s.header)
	s.quota(0, 5, 0)
	s.add(1, "merge", history.Gap, history.Event{Key: "csi/controller/d"}, history.GapReason{Reason: "torn"})
	want := []string{"attach failures: csi/controller/d: torn", "CSINode writes: audit: the provider has none"}
	if got := s.c.Finish().Incomplete; !reflect.DeepEqual(got, want) {
		t.Errorf("want %q, got %q", want, got)
	}
}

func TestNothing(t *testing.T) {
	var text []string
	for _, l := range New(history.Header{}).Finish().Lines() {
		text = append(text, l.Text)
	}
	want := []string{"no change of quota arrived", "0 per minute (0)", "none", "none", "none seen in the audit log", "no node has the driver"}
	if !reflect.DeepEqual(text, want) {
		t.Errorf("want %q, got %q", want, text)
	}
}

// TestBrokenBodies holds that no event ends the program, and that what could not be read shows.
func TestBrokenBodies(t *testing.T) {
	c := New(history.Header{})
	for i, source := range []string{"backend", "api/csinodes", "api/pods", "audit", "csi/n1", "api/volumeattachments"} {
		for _, body := range []string{`{"quota":5}`, `[]`, `"x"`, `{}`, `null`} {
			c.Observe(history.Event{At: time.Duration(i), Source: source, Seq: 1, Phase: history.OK, Key: "quota", Body: json.RawMessage(body)})
		}
	}
	if got := fmt.Sprint(c.Finish().Incomplete); !strings.Contains(got, "backend") || !strings.Contains(got, "audit") {
		t.Errorf("want the sources that could not be read, got %s", got)
	}
}
