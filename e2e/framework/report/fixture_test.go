package report

import (
	"errors"
	"flag"
	"iter"
	"os"
	"path/filepath"
	"testing"
	"time"

	"headroom/e2e/framework/history"
	"headroom/e2e/invariants"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing with them")

// golden compares got with testdata/name.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != string(got) {
		t.Errorf("%s differs; run with -update to accept\n--- want\n%s--- got\n%s", path, want, got)
	}
}

// boot is when the histories of the tests begin, on their monotonic clock.
const boot = 1000 * time.Hour

var wall = time.Date(2026, 7, 29, 10, 15, 30, 0, time.UTC)

// script writes a history by hand: every method takes seconds since its start.
type script struct {
	events []history.Event
	seq    map[string]uint64
	err    error // yielded last
}

func newScript() *script {
	s := &script{seq: map[string]uint64{}}
	s.add(0, "beat/runner", history.Observed, "", history.Beat{Wall: wall, MaxGap: history.Duration(110 * time.Millisecond), CPUSome: -1})
	return s
}

func (s *script) add(at float64, source string, phase history.Phase, key string, body any, edit ...func(*history.Event)) history.Ref {
	s.seq[source]++
	e := history.Event{At: boot + time.Duration(at*float64(time.Second)), Source: source, Seq: s.seq[source], Phase: phase, Key: key}
	if body != nil {
		e.Body = history.Encode(body)
	}
	for _, f := range edit {
		f(&e)
	}
	s.events = append(s.events, e)
	return e.Ref()
}

func scoped(scope, node string) func(*history.Event) {
	return func(e *history.Event) { e.Scope, e.Node = scope, node }
}

// spec adds a spec that ended.
func (s *script) spec(from, to float64, id string, phase history.Phase, body history.Spec) {
	s.add(from, "spec/p1", history.Invoke, id, history.Spec{Title: body.Title, Boundary: body.Boundary})
	s.add(to, "spec/p1", phase, id, body)
}

func (s *script) all() iter.Seq2[history.Event, error] {
	return func(yield func(history.Event, error) bool) {
		for _, e := range s.events {
			if !yield(e, nil) {
				return
			}
		}
		if s.err != nil {
			yield(history.Event{}, s.err)
		}
	}
}

func header() history.Header {
	return history.Header{
		Schema: history.Schema, Run: "20260729-101530-7f3a", Seed: 42, Provider: "local",
		Versions: map[string]string{"kubelet": "v1.36.3", "kube-apiserver": "v1.36.3", "kube-scheduler": "v1.36.3", "csi-attacher": "v4.11.0"},
		Params:   history.Params{Slack: history.Duration(2 * time.Second), Driver: history.DriverParams{Name: "steady"}},
	}
}

func invariant(name string, b history.Boundary, known ...invariants.Known) invariants.Invariant {
	return invariants.Invariant{Name: name, Claim: claims[name], Source: "KEP-4876", Boundary: b, KnownUpstream: known}
}

var claims = map[string]string{
	"never-unbounded": "Once a quota was known for a node, no answer is 0 or less and registration never fails for lack of quota, " +
		"outages and driver restarts included.",
	"answer-to-csinode":          "CSINode equals the answer within 1 s.",
	"growth-requeues":            "A pod that waits for volume limits is bound within 15 s after room appeared.",
	"no-stale-overwrite-kubelet": "No CSINode revision carries an older answer after one carries a newer one.",
	"rejection-cleans-up":        "The rejected pod's VolumeAttachments are gone within 60 s.",
	"answer-within-quota":        "Each answer is at most the highest limit in force.",
	"kubelet-restart-keeps":      "Entry and count are unchanged over a kubelet restart.",
	"bind-within-seen":           "No bind exceeds the highest count in its window.",
}

func judged(inv invariants.Invariant, verdicts ...invariants.Verdict) Judged {
	return Judged{Invariant: inv, Verdicts: verdicts}
}

// fixtures are the runs of the golden files.
var fixtures = map[string]func() Input{
	"conformance": func() Input {
		s := newScript()
		s.add(1, "csi/controller/d", history.OK, "GetPluginInfo", history.CSICall{Side: history.ClientSide, Driver: "d", Version: "v1.17.1"})
		s.spec(2, 9, "count-drop", history.OK, history.Spec{Title: "The count falls.", Boundary: history.Kubelet, Outcome: "Held"})
		s.spec(3, 12, "limit-enforced", history.OK, history.Spec{Title: "The limit is kept to.", Boundary: history.Driver, Outcome: "Held"})
		s.spec(4, 5, "driver-old-version", history.Observed,
			history.Spec{Title: "Releases.", Boundary: history.Driver, Skipped: true, Message: "the definition has no ${RELEASE}: the driver has one release only"})
		h := header()
		h.Params.Driver = history.DriverParams{Name: "hostpath-gate", Limit: history.LimitGate}
		held := func(b history.Boundary) invariants.Verdict {
			return invariants.Verdict{Status: invariants.Held, Boundary: b, Subject: "n1", Judged: 3}
		}
		return Input{Header: h, Events: s.all(), Judged: []Judged{
			judged(invariant("answer-within-quota", history.Driver), held(history.Driver)),
			judged(invariant("never-unbounded", history.Driver),
				invariants.Verdict{Status: invariants.Violated, Boundary: history.Driver, Subject: "n1", Detail: "want 1 or more, got 0"}),
			judged(invariant("answer-to-csinode", history.Kubelet), held(history.Kubelet)),
		}}
	},
	"held": func() Input {
		s := newScript()
		s.spec(1, 43.1, "conformance/count-drop", history.OK,
			history.Spec{Title: "a drop shows within a period", Boundary: history.Kubelet, Outcome: "Held"})
		s.spec(44, 44.2, "conformance/gate-off", history.OK,
			history.Spec{Boundary: history.APIServer, Skipped: true, Message: "the gate cannot be turned off at v1.36"})
		return Input{Header: header(), Events: s.all(), Judged: []Judged{
			judged(invariant("answer-to-csinode", history.Kubelet),
				invariants.Verdict{Status: invariants.Held, Subject: "n1", Detail: "worst 0.21 s, 63 answers"},
				invariants.Verdict{Status: invariants.Held, Subject: "n2", Detail: "worst 0.20 s, 61 answers"}),
			judged(invariant("kubelet-restart-keeps", history.Kubelet)),
			judged(invariant("growth-requeues", history.Scheduler)),
			{Invariant: invariant("rejection-cleans-up", history.ControllerManager), Reason: "no pod was rejected"},
		}}
	},
	"violated": func() Input {
		s := newScript()
		call := func(max int64) history.CSICall {
			return history.CSICall{Side: history.DriverSide, Driver: "steady.csi.headroom", NodeID: "n1", MaxVolumes: &max}
		}
		s.add(2, "component/cell", history.Observed, "kubelet@n1", history.Component{State: "ready", Version: "v1.36.3", PID: 17})
		s.add(10, "spec/p1", history.Invoke, "conformance/outage", history.Spec{Boundary: history.Driver})
		s.add(11, "backend", history.Observed, "fault", history.Backend{Fault: "outage"}, scoped("", "n1"))
		before := s.add(11.5, "csi/n1", history.OK, "NodeGetInfo", call(8), scoped("conformance/outage", "n1"))
		after := s.add(12.345, "csi/n1", history.OK, "NodeGetInfo", call(0), scoped("conformance/outage", "n1"))
		s.add(20, "spec/p1", history.Fail, "conformance/outage", history.Spec{Outcome: "Violated",
			Message: "wait for CSINode \"n1\" count: want 8, last none after 30s\x1b[31m (last error: none)"})
		s.spec(21, 22, "conformance/count-drop", history.OK, history.Spec{Boundary: history.Kubelet, Outcome: "Held"})
		return Input{Header: header(), Events: s.all(), Judged: []Judged{
			judged(invariant("never-unbounded", history.Driver),
				invariants.Verdict{Status: invariants.Held, Subject: "n2", Detail: "61 answers"},
				invariants.Verdict{
					Status: invariants.Violated, Boundary: history.Driver, Subject: "n1", Scope: "conformance/outage",
					Evidence: []history.Ref{before, after, {Source: "csi/n1", Seq: 99}},
					Detail:   "want an answer above 0 since quota 8 was known, got 0 at +12.345s",
				}),
			judged(invariant("no-stale-overwrite-kubelet", history.Kubelet, invariants.Known{Versions: "all", Source: "kubernetes#1", Scenario: "stale-tick"}),
				invariants.Verdict{Status: invariants.Violated, Subject: "n1", Evidence: []history.Ref{after}, Detail: "want 0, got 8 at +12.5s"}),
			judged(invariant("bind-within-seen", history.Scheduler, invariants.Known{Versions: ">=1.33 <1.36"}),
				invariants.Verdict{Status: invariants.Violated, Subject: "default/p1", Detail: "want 8 volumes, got 9 at +14s"}),
			judged(invariant("answer-to-csinode", history.Kubelet), invariants.Verdict{Status: invariants.Held, Subject: "n1", Detail: "worst 0.21 s"}),
		}}
	},
	"inconclusive": func() Input {
		s := newScript()
		s.add(1, "spec/p1", history.Invoke, "conformance/count-drop", history.Spec{Boundary: history.Kubelet})
		s.add(3, "beat/runner", history.Observed, "", history.Beat{Wall: wall.Add(3 * time.Second), MaxGap: history.Duration(1900 * time.Millisecond)})
		s.add(4, "api/csinodes", history.Observed, "n1", history.CSINode{Object: history.Object{Type: "MODIFIED"}}, scoped("conformance/count-drop", "n1"))
		s.add(9, "probe", history.OK, "", history.Probe{Latency: history.Duration(1500 * time.Millisecond)})
		s.add(9, history.SourceMerge, history.Gap, "spec/p1", history.GapReason{Reason: "it has no close record: its writer was killed or still runs"})
		h := header()
		h.Missing = map[string]string{"audit": "the provider gives no audit log"}
		return Input{Header: h, Events: s.all(), Judged: []Judged{
			judged(invariant("answer-to-csinode", history.Kubelet),
				invariants.Verdict{Status: invariants.Inconclusive, Subject: "n1", Detail: "the harness was slow from +1.1s to +3s",
					Evidence: []history.Ref{{Source: "beat/runner", Seq: 2}}},
				invariants.Verdict{Status: invariants.Held, Subject: "n2"}),
		}}
	},
	"environment": func() Input {
		s := newScript()
		s.add(5, history.SourceFault, history.Observed, "quota-outage",
			history.Fault{State: "failed", Target: "backend", Detail: "heal: connection refused"})
		s.add(1, "spec/p1", history.Invoke, "conformance/count-drop", history.Spec{})
		s.add(6, "spec/p1", history.Unknown, "conformance/count-drop", history.Spec{Outcome: "Inconclusive", Message: "the environment failed"})
		return Input{Header: header(), Events: s.all(), Environment: []EnvironmentProblem{
			{Op: "start kube-apiserver", Error: "exec: \"kube-apiserver\": no such file", Remedy: "headroom binaries fetch v1.36.3"},
		}, Judged: []Judged{judged(invariant("answer-to-csinode", history.Kubelet))}}
	},
	"damaged": func() Input {
		s := newScript()
		s.spec(1, 2, "conformance/count-drop", history.OK, history.Spec{Outcome: "Held"})
		s.err = errors.New("history.jsonl:7: the history is truncated")
		return Input{Header: header(), Events: s.all(), Judged: []Judged{
			judged(invariant("answer-to-csinode", history.Kubelet), invariants.Verdict{Status: invariants.Held, Subject: "n1", Detail: "worst 0.21 s"}),
			judged(invariant("answer-within-quota", history.Driver)),
		}}
	},
}
