package report

import (
	"testing"

	"headroom/e2e/framework/history"
	"headroom/e2e/invariants"
)

// TestScopeOfAVerdict holds that verdicts about CSI calls, which carry no scope, are joined to the spec that they were seen in.
func TestScopeOfAVerdict(t *testing.T) {
	s := newScript()
	s.add(1, "spec/p1", history.Invoke, "stale-tick", history.Spec{})
	s.add(1, "api/nodes", history.Observed, "p1-1-n1", history.Node{}, scoped("p1-1", "p1-1-n1"))
	s.add(1, "api/nodes", history.Observed, "p1-2-n1", history.Node{}, scoped("p1-2", "p1-2-n1"))
	s.add(1, "api/csidrivers", history.Observed, "p1-1.d", history.CSIDriver{}, scoped("p1-1", ""))
	one := s.add(2, "csi/p1-1-n1", history.OK, "NodeGetInfo", nil, scoped("", "p1-1-n1"))
	other := s.add(2, "csi/p1-2-n1", history.OK, "NodeGetInfo", nil, scoped("", "p1-2-n1"))
	nowhere := s.add(2, "probe", history.OK, "", nil)
	s.add(3, "spec/p1", history.Fail, "stale-tick", history.Spec{Message: "want 1, got 2"}, scoped("p1-1", ""))
	for name, tc := range map[string]struct {
		verdict invariants.Verdict
		scope   string
	}{
		"its own":             {invariants.Verdict{Scope: "p1-9", Subject: "p1-1-n1"}, "p1-9"},
		"a node":              {invariants.Verdict{Subject: "p1-1-n1"}, "p1-1"},
		"a driver on a node":  {invariants.Verdict{Subject: "p1-2-n1/p1-2.d"}, "p1-2"},
		"a driver":            {invariants.Verdict{Subject: "p1-1.d"}, "p1-1"},
		"by its evidence":     {invariants.Verdict{Subject: "a pod", Evidence: []history.Ref{one, one}}, "p1-1"},
		"of two scopes":       {invariants.Verdict{Subject: "a pod", Evidence: []history.Ref{one, other}}, ""},
		"partly of none":      {invariants.Verdict{Subject: "a pod", Evidence: []history.Ref{one, nowhere}}, ""},
		"nothing tells":       {invariants.Verdict{Subject: "a pod"}, ""},
		"of an unknown node":  {invariants.Verdict{Subject: "n9"}, ""},
		"an unknown evidence": {invariants.Verdict{Subject: "x", Evidence: []history.Ref{{Source: "x", Seq: 1}}}, ""},
	} {
		tc.verdict.Status = invariants.Violated
		r := Build(Input{Header: header(), Events: s.all(), Judged: []Judged{judged(invariant("x", history.Driver), tc.verdict)}})
		v := r.Invariants[0].Verdicts[0]
		spec := map[string]string{"p1-1": "stale-tick"}[tc.scope]
		if v.Scope != tc.scope || v.Spec != spec {
			t.Errorf("%s: want scope %q and spec %q, got %q and %q", name, tc.scope, spec, v.Scope, v.Spec)
		}
		if last := r.Requirements[0].LastEvents; len(last) != 3 || last[2].Ref != one.String() {
			t.Errorf("want the events of the spec's node among its last ones, got %+v", last)
		}
	}
}

// TestScopeOnALentNode: a node that two benches had one after the other tells nothing of a verdict; the driver's name does.
func TestScopeOnALentNode(t *testing.T) {
	s := newScript()
	for i, scope := range []string{"p1-1", "p1-2"} {
		at := float64(10 * (i + 1))
		s.add(at, "api/nodes", history.Observed, "w", history.Node{}, scoped(scope, "w"))
		s.add(at, "api/csidrivers", history.Observed, scope+".d", history.CSIDriver{}, scoped(scope, ""))
		s.add(at, "spec/p1", history.Invoke, scope, history.Spec{})
		s.add(at+1, "csi/w", history.OK, scope, nil, scoped("", "w"))
		s.add(at+2, "spec/p1", history.Fail, scope, history.Spec{Message: "want 1, got 2"}, scoped(scope, ""))
	}
	for subject, want := range map[string]string{"w/p1-1.d": "p1-1", "w/p1-2.d": "p1-2", "p1-2.d": "p1-2", "w": ""} {
		verdict := invariants.Verdict{Status: invariants.Violated, Subject: subject}
		r := Build(Input{Header: header(), Events: s.all(), Judged: []Judged{judged(invariant("x", history.Driver), verdict)}})
		if got := r.Invariants[0].Verdicts[0].Scope; got != want {
			t.Errorf("%s: want scope %q, got %q", subject, want, got)
		}
		for _, q := range r.Requirements {
			if last := q.LastEvents; len(last) == 0 || last[len(last)-1].Key != q.ID {
				t.Errorf("want the call of its own time as the last event of %s, got %+v", q.ID, last)
			}
		}
	}
}

// TestAFixedDefectIsFoundByItsSpec holds that a defect which no longer shows in the spec that shows it turns the row red, though verdicts name a bench.
func TestAFixedDefectIsFoundByItsSpec(t *testing.T) {
	s := newScript()
	s.add(1, "spec/p1", history.Invoke, "stale-tick", history.Spec{})
	s.add(1, "api/nodes", history.Observed, "p1-1-n1", history.Node{}, scoped("p1-1", "p1-1-n1"))
	s.add(3, "spec/p1", history.OK, "stale-tick", history.Spec{}, scoped("p1-1", ""))
	known := invariants.Known{Versions: "all", Scenario: "stale-tick"}
	for subject, want := range map[string]Status{"p1-1-n1": Violated, "p1-2-n1": Held} {
		r := Build(Input{Header: header(), Events: s.all(), Judged: []Judged{
			judged(invariant("x", history.Kubelet, known), invariants.Verdict{Status: invariants.Held, Subject: subject}),
		}})
		if got := r.Invariants[0].Status; got != want {
			t.Errorf("held for %s: want %s, got %s", subject, want, got)
		}
	}
}
