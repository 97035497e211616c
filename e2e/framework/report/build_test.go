package report

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"headroom/e2e/framework/history"
	"headroom/e2e/invariants"
)

func TestRequirements(t *testing.T) {
	for name, tc := range map[string]struct {
		phase   history.Phase
		body    history.Spec
		want    Status
		message string
	}{
		"ok":                     {history.OK, history.Spec{Outcome: "Held"}, Held, ""},
		"ok without outcome":     {history.OK, history.Spec{}, Held, ""},
		"fail":                   {history.Fail, history.Spec{Outcome: "Violated", Message: "want 1, got 2"}, Violated, "want 1, got 2"},
		"fail without message":   {history.Fail, history.Spec{}, Violated, "the spec failed without a message"},
		"fail that claims held":  {history.Fail, history.Spec{Outcome: "Held"}, Violated, "the spec failed without a message"},
		"ok that says violated":  {history.OK, history.Spec{Outcome: "Violated", Message: "m"}, Violated, "m"},
		"unknown":                {history.Unknown, history.Spec{Message: "etcd died"}, Inconclusive, "etcd died"},
		"unknown that says held": {history.Unknown, history.Spec{Outcome: "Held"}, Inconclusive, "the spec ended without a verdict"},
		"ok that is open":        {history.OK, history.Spec{Outcome: "Inconclusive", Message: "slow"}, Inconclusive, "slow"},
		"no outcome at all":      {history.OK, history.Spec{Outcome: "Passed"}, Inconclusive, "the spec ended with outcome Passed, which is none"},
		"skipped":                {history.OK, history.Spec{Skipped: true, Message: "no gate"}, Skipped, "no gate"},
		"skipped, observed":      {history.Observed, history.Spec{Skipped: true, Message: "no gate"}, Skipped, "no gate"},
		"skipped without reason": {history.OK, history.Spec{Skipped: true}, Inconclusive, "skipped without a reason"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript()
			s.spec(1, 3, "a", tc.phase, tc.body)
			r := Build(Input{Header: header(), Events: s.all()})
			if len(r.Requirements) != 1 {
				t.Fatalf("want one requirement, got %+v", r.Requirements)
			}
			if q := r.Requirements[0]; q.Status != tc.want || q.Message != tc.message || q.Elapsed != Duration(2*time.Second) {
				t.Errorf("want %s %q after 2s, got %s %q after %s", tc.want, tc.message, q.Status, q.Message, q.Elapsed)
			}
		})
	}
}

func TestRequirementsOutOfTheOrdinary(t *testing.T) {
	op := func(op string) func(*history.Event) { return func(e *history.Event) { e.Op = op } }
	s := newScript()
	s.add(0, "spec/p1", history.Observed, history.KeyOpen, map[string]string{"run": "r"})
	s.add(1, "spec/p1", history.Invoke, "twice", history.Spec{}, op("1"))
	s.add(2, "spec/p1", history.Fail, "twice", history.Spec{Message: "first"}, op("1"))
	s.add(3, "spec/p1", history.Invoke, "twice", history.Spec{}, op("2"))
	s.add(3, "spec/p2", history.Invoke, "other", history.Spec{}, op("1")) // the same op in another process
	s.add(4, "spec/p1", history.OK, "twice", history.Spec{}, op("2"))
	s.add(5, "spec/p2", history.OK, "other", history.Spec{}, op("1"))
	s.add(6, "spec/p2", history.OK, "lost start", history.Spec{}, op("9"))
	s.add(7, "spec/p2", history.Invoke, "bad body", nil, op("10"))
	s.add(8, "spec/p2", history.OK, "bad body", []int{1}, op("10"))
	s.add(9, "spec/p2", history.Invoke, "killed", history.Spec{}, op("11"))
	for n := range 9 {
		s.add(10+float64(n), "backend", history.Observed, "quota", nil, scoped("killed", "n1"))
	}
	r := Build(Input{Header: header(), Events: s.all()})
	got := map[string][]Status{}
	for _, q := range r.Requirements {
		got[q.ID] = append(got[q.ID], q.Status)
	}
	want := map[string][]Status{
		"twice": {Violated, Held}, "other": {Held}, "lost start": {Held}, "bad body": {Inconclusive}, "killed": {Inconclusive},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("want %v, got %v", want, got)
	}
	last := r.Requirements[len(r.Requirements)-1]
	if len(last.LastEvents) != maxLast || last.LastEvents[maxLast-1].Ref != "backend#9" {
		t.Errorf("want the last %d events of the scope, got %+v", maxLast, last.LastEvents)
	}
}

func TestVerdicts(t *testing.T) {
	known := invariants.Known{Versions: ">=1.33 <1.38", Source: "nodeinfomanager.go", Scenario: "stale-tick"}
	fixed := invariants.Known{Versions: "<1.36"}
	signed := invariants.Known{Versions: "all", Scenario: "stale-tick", Signed: true}
	verdict := func(s invariants.Status) invariants.Verdict { return invariants.Verdict{Status: s, Subject: "n1"} }
	for name, tc := range map[string]struct {
		inv      invariants.Invariant
		verdicts []invariants.Verdict
		want     Status
		detail   string // part of the row's
		boundary history.Boundary
	}{
		"held": {invariant("x", history.Kubelet), []invariants.Verdict{verdict(invariants.Held)}, Held, "", history.Kubelet},
		"none": {invariant("x", history.Kubelet), nil, NotJudged, neverTested, ""},
		"open beats held": {invariant("x", history.Kubelet),
			[]invariants.Verdict{verdict(invariants.Held), verdict(invariants.Inconclusive)}, Inconclusive, "", history.Kubelet},
		"violated beats open": {invariant("x", history.Kubelet), []invariants.Verdict{verdict(invariants.Inconclusive), verdict(invariants.Violated)},
			Violated, "", history.Kubelet},
		"zero status":     {invariant("x", history.Kubelet), []invariants.Verdict{verdict("")}, Violated, `status "": want Held`, history.Harness},
		"no status":       {invariant("x", history.Kubelet, known), []invariants.Verdict{verdict("Passed")}, Violated, `status "Passed"`, history.Harness},
		"known":           {invariant("x", history.Kubelet, known), []invariants.Verdict{verdict(invariants.Violated)}, KnownUpstream, "", history.Kubelet},
		"known, unsigned": {invariant("x", history.Kubelet, signed), []invariants.Verdict{verdict(invariants.Violated)}, Violated, "", history.Kubelet},
		"known, signed": {invariant("x", history.Kubelet, signed),
			[]invariants.Verdict{{Status: invariants.Violated, Defect: "stale-tick"}}, KnownUpstream, "", history.Kubelet},
		"known, signed by another": {invariant("x", history.Kubelet, signed),
			[]invariants.Verdict{{Status: invariants.Violated, Defect: "other"}}, Violated, "", history.Kubelet},
		"known, but open too": {invariant("x", history.Kubelet, known),
			[]invariants.Verdict{verdict(invariants.Violated), verdict(invariants.Inconclusive)}, Inconclusive, "", history.Kubelet},
		"known, of another component": {invariant("x", history.Kubelet, known),
			[]invariants.Verdict{{Status: invariants.Violated, Boundary: history.Driver}}, Violated, "", history.Driver},
		"known, fixed before": {invariant("x", history.Kubelet, fixed),
			[]invariants.Verdict{verdict(invariants.Violated)}, Violated, "known for <1.36, v1.36.3 ran", history.Kubelet},
		"known, version not known": {invariant("x", history.ControllerManager, known),
			[]invariants.Verdict{verdict(invariants.Violated)}, Violated, "does not say which version", history.ControllerManager},
		"known, of a driver": {invariant("x", history.Driver, known),
			[]invariants.Verdict{verdict(invariants.Violated)}, Violated, "does not say which version", history.Driver},
		"known, bad range": {invariant("x", history.Kubelet, invariants.Known{Versions: "~1.36"}), []invariants.Verdict{verdict(invariants.Violated)},
			Violated, `version range "~1.36"`, history.Kubelet},
		"known, held elsewhere": {invariant("x", history.Kubelet, known),
			[]invariants.Verdict{{Status: invariants.Held, Scope: "conformance/restart"}}, Held, "", history.Kubelet},
		"known, held where it must show": {invariant("x", history.Kubelet, known),
			[]invariants.Verdict{{Status: invariants.Held, Scope: "incidents/stale-tick"}}, Violated, "it is fixed", history.Harness},
	} {
		t.Run(name, func(t *testing.T) {
			r := Build(Input{Header: header(), Events: newScript().all(), Judged: []Judged{judged(tc.inv, tc.verdicts...)}})
			row := r.Invariants[0]
			if row.Status != tc.want || !strings.Contains(row.Detail, tc.detail) {
				t.Errorf("want %s with %q, got %s with %q", tc.want, tc.detail, row.Status, row.Detail)
			}
			if n := len(row.Verdicts); n > 0 && row.Verdicts[n-1].Boundary != tc.boundary {
				t.Errorf("boundary: want %q, got %q", tc.boundary, row.Verdicts[n-1].Boundary)
			}
		})
	}
}

func TestKnownNeedsEveryVersionThatRan(t *testing.T) {
	s := newScript()
	s.add(1, "component/cell", history.Observed, history.KeyOpen, map[string]string{"run": "r"})
	s.add(2, "component/cell", history.Observed, "kubelet@n1", history.Component{State: "started", Version: "v1.38.0"})
	inv := invariant("x", history.Kubelet, invariants.Known{Versions: "<1.38"})
	r := Build(Input{Header: header(), Events: s.all(), Judged: []Judged{judged(inv, invariants.Verdict{Status: invariants.Violated})}})
	if row := r.Invariants[0]; row.Status != Violated || !strings.Contains(row.Detail, "v1.36.3 and v1.38.0 ran") {
		t.Errorf("want a violation that names both versions, got %s %q", row.Status, row.Detail)
	}
}

func TestEvidenceIsBounded(t *testing.T) {
	s := newScript()
	var refs []history.Ref
	for n := range 2 * maxEvidence {
		refs = append(refs, s.add(float64(n), "csi/n1", history.OK, "NodeGetInfo", history.CSICall{Message: strings.Repeat("é", maxBody)}))
	}
	slices.Reverse(refs)
	j := judged(invariant("x", history.Driver),
		invariants.Verdict{Status: invariants.Violated, Evidence: refs}, invariants.Verdict{Status: invariants.Held, Evidence: refs})
	v := Build(Input{Header: header(), Events: s.all(), Judged: []Judged{j}}).Invariants[0].Verdicts
	if len(v[0].Evidence) != maxEvidence || v[0].More != maxEvidence || v[0].Evidence[0].Ref != refs[0].String() {
		t.Errorf("want %d events in the verdict's order and %d more, got %d and %d, first %s",
			maxEvidence, maxEvidence, len(v[0].Evidence), v[0].More, v[0].Evidence[0].Ref)
	}
	if n := len(v[0].Evidence[0].Body); n > maxBody+3 {
		t.Errorf("body of %d bytes", n)
	}
	if len(v[1].Evidence) != 0 {
		t.Errorf("want no evidence of what held, got %d events", len(v[1].Evidence))
	}
}

func TestBrief(t *testing.T) {
	for body, want := range map[string]string{
		`{"a":"x","b":8,"c":{"d": [1, 2]},"e":"two words","f":""}`: `a=x b=8 c={"d":[1,2]} e="two words" f=""`,
		`{}`:             "",
		`[1]`:            `[1]`,
		`{"a":"cut of..`: `{"a":"cut of..`,
		``:               ``,
	} {
		if got := brief(body); got != want {
			t.Errorf("%s: want %q, got %q", body, want, got)
		}
	}
}
