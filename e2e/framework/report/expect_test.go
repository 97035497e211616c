package report

import (
	"strings"
	"testing"

	"headroom/e2e/framework/history"
	"headroom/e2e/invariants"
)

// TestExpectations plays two scenarios whose names begin alike, and judges what one of them expects of one invariant.
func TestExpectations(t *testing.T) {
	own := func(s invariants.Status) invariants.Verdict {
		return invariants.Verdict{Status: s, Boundary: history.Kubelet, Subject: "late-n1/late.steady.headroom.test", Detail: "d"}
	}
	other := invariants.Verdict{Status: invariants.Violated, Boundary: history.Kubelet, Subject: "late-answer-n1", Detail: "other's"}
	blamed := own(invariants.Violated)
	blamed.Boundary = history.Driver
	long := own(invariants.Held)
	long.Worst = history.Duration(3e9)
	for name, tc := range map[string]struct {
		want     history.Expectation
		verdicts []invariants.Verdict
		status   Status // of the scenario
		row      Status // of the invariant
		message  string
	}{
		"shown":               {history.Expectation{Violated: true}, []invariants.Verdict{own(invariants.Violated)}, Held, Expected, ""},
		"shown once":          {history.Expectation{Violated: true}, []invariants.Verdict{own(invariants.Held), own(invariants.Violated)}, Held, Expected, ""},
		"not shown":           {history.Expectation{Violated: true}, []invariants.Verdict{own(invariants.Held)}, Violated, Held, "want it violated, got it held 1 time"},
		"not told":            {history.Expectation{Violated: true}, []invariants.Verdict{own(invariants.Inconclusive)}, Inconclusive, Inconclusive, "not told whether it is violated: d"},
		"never tested":        {history.Expectation{Violated: true}, nil, Inconclusive, NotJudged, "never put it to the test"},
		"held":                {history.Expectation{}, []invariants.Verdict{own(invariants.Held)}, Held, Held, ""},
		"held, never tested":  {history.Expectation{}, nil, Inconclusive, NotJudged, "never put it to the test"},
		"not held":            {history.Expectation{}, []invariants.Verdict{own(invariants.Violated)}, Violated, Violated, "want it held, got violated: d"},
		"held and not told":   {history.Expectation{}, []invariants.Verdict{own(invariants.Held), own(invariants.Inconclusive)}, Inconclusive, Inconclusive, "not told whether it holds"},
		"shown by another":    {history.Expectation{Violated: true}, []invariants.Verdict{blamed}, Inconclusive, Violated, "never put it to the test"},
		"no bound":            {history.Expectation{}, []invariants.Verdict{long}, Held, Held, ""},
		"another's violation": {history.Expectation{Violated: true}, []invariants.Verdict{other}, Inconclusive, Violated, "never put it to the test"},
		"another's, and own":  {history.Expectation{Violated: true}, []invariants.Verdict{other, own(invariants.Violated)}, Held, Violated, ""},
		"in time":             {history.Expectation{AtMost: history.Duration(3e9)}, []invariants.Verdict{long}, Held, Held, ""},
		"too late":            {history.Expectation{AtMost: history.Duration(2e9)}, []invariants.Verdict{long}, Violated, Held, "want durations of at most 2s, got 3s"},
		"no such invariant":   {history.Expectation{Invariant: "y"}, nil, Inconclusive, NotJudged, "no such invariant"},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.want.Invariant == "" {
				tc.want.Invariant = "x"
			}
			s := newScript()
			for _, scope := range []string{"late-answer", "late"} {
				body := history.Scenario{Spec: "scenario/" + scope}
				if scope == "late" {
					body.Expect = []history.Expectation{tc.want}
				}
				s.add(1, history.SourceScenario, history.Observed, scope, body, scoped(scope, ""))
			}
			s.add(2, "spec/runner", history.Invoke, "scenario/late", history.Spec{})
			s.add(3, "spec/runner", history.OK, "scenario/late", history.Spec{Outcome: "Held"})
			r := Build(Input{Header: header(), Events: s.all(), Judged: []Judged{judged(invariant("x", history.Kubelet), tc.verdicts...)}})
			q, row := r.Requirements[0], r.Invariants[0]
			if q.Status != tc.status || row.Status != tc.row || !strings.Contains(q.Message, tc.message) {
				t.Errorf("want the scenario %s with %q and the row %s, got %s %q and %s", tc.status, tc.message, tc.row, q.Status, q.Message, row.Status)
			}
		})
	}
}

// TestExpectedFailsNoRun holds exit codes: a violation that a scenario shows is a pass, and no other is.
func TestExpectedFailsNoRun(t *testing.T) {
	r := Report{Requirements: []Requirement{{Status: Held}}, Invariants: []InvariantResult{{Status: Expected}}}
	if s := r.Summarise(); s.ExitCode != ExitHeld || s.Expected != 1 {
		t.Errorf("want exit code 0 with one expected, got %+v", s)
	}
	r.Invariants = append(r.Invariants, InvariantResult{Status: Violated})
	if got := ExitCode(r); got != ExitViolated {
		t.Errorf("beside an expected violation: want exit code 1, got %d", got)
	}
}

// TestExpectationsLeaveRowsWhatTheyAre: what is known upstream stays that where a scenario shows it, and a scenario that was open becomes violated by what
// does not show.
func TestExpectationsLeaveRowsWhatTheyAre(t *testing.T) {
	x := &expectations{scenarios: []played{{
		Scenario: history.Scenario{Spec: "scenario/late", Expect: []history.Expectation{{Invariant: "known", Violated: true}, {Invariant: "held", Violated: true}}}, scope: "late",
	}}}
	r := Report{
		Requirements: []Requirement{{ID: "scenario/late", Status: Inconclusive, Message: "cut short"}},
		Invariants: []InvariantResult{
			{Name: "known", Verdicts: []Verdict{{Status: KnownUpstream, Scope: "late"}}},
			{Name: "held", Verdicts: []Verdict{{Status: Held, Scope: "late"}}},
		},
	}
	x.judge(&r)
	if got := r.Invariants[0].Status; got != KnownUpstream {
		t.Errorf("want it known upstream, got %s", got)
	}
	if q := r.Requirements[0]; q.Status != Violated || !strings.Contains(q.Message, "cut short") || !strings.Contains(q.Message, "want it violated, got it held") {
		t.Errorf("want the scenario violated, for both reasons, got %s %q", q.Status, q.Message)
	}
}

// TestSkippedScenarioExpectsNothing holds that a scenario which the cluster cannot play stays skipped.
func TestSkippedScenarioExpectsNothing(t *testing.T) {
	s := newScript()
	body := history.Scenario{Spec: "scenario/late", Expect: []history.Expectation{{Invariant: "x"}}}
	s.add(1, history.SourceScenario, history.Observed, "late", body, scoped("late", ""))
	s.add(2, "spec/runner", history.Observed, "scenario/late", history.Spec{Skipped: true, Message: "no gate"})
	r := Build(Input{Header: header(), Events: s.all(), Judged: []Judged{judged(invariant("x", history.Kubelet))}})
	if q := r.Requirements[0]; q.Status != Skipped || q.Message != "no gate" {
		t.Errorf("want it skipped for its reason, got %s %q", q.Status, q.Message)
	}
}

// TestUnreadableExpectationIsADoubt holds that a scenario whose expectations are lost is no pass.
func TestUnreadableExpectationIsADoubt(t *testing.T) {
	s := newScript()
	s.add(1, history.SourceScenario, history.Observed, "late", []int{1}, scoped("late", ""))
	s.add(2, "spec/runner", history.OK, "scenario/late", history.Spec{Outcome: "Held"})
	r := Build(Input{Header: header(), Events: s.all()})
	if len(r.Doubts) == 0 || ExitCode(r) != ExitInconclusive {
		t.Errorf("want a doubt, got %q and exit code %d", r.Doubts, ExitCode(r))
	}
}
