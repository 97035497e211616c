package report

import (
	"fmt"
	"testing"
)

// TestExitCodeOfEveryCombination puts every set of rows into a report, as requirements and as invariants.
func TestExitCodeOfEveryCombination(t *testing.T) {
	const (
		held = 1 << iota
		violated
		environment
		inconclusive
		known
		unjudged
		skipped
		doubt
		none // a row whose status was never set
		all
	)
	for set := range all {
		has := func(bit int) bool { return set&bit != 0 }
		want := 0
		switch {
		case has(violated), has(none):
			want = 1
		case has(environment):
			want = 3
		case has(inconclusive), has(doubt), !has(held) && !has(known): // nothing judged is no pass
			want = 4
		}
		rows := map[int]Status{
			held: Held, violated: Violated, inconclusive: Inconclusive, known: KnownUpstream, unjudged: NotJudged, skipped: Skipped, none: "",
		}
		var q, i Report
		for bit, status := range rows {
			if has(bit) {
				q.Requirements = append(q.Requirements, Requirement{Status: status})
				i.Invariants = append(i.Invariants, InvariantResult{Status: status})
			}
		}
		if has(environment) {
			q.Environment = []EnvironmentProblem{{}}
		}
		if has(doubt) {
			q.Doubts = []string{"x"}
		}
		i.Environment, i.Doubts = q.Environment, q.Doubts
		for name, r := range map[string]Report{"requirements": q, "invariants": i} {
			if got := ExitCode(r); got != want {
				t.Errorf("set %s as %s: want %d, got %d", fmt.Sprintf("%09b", set), name, want, got)
			}
		}
	}
}

func TestUnknownStatusFails(t *testing.T) {
	for _, s := range []Status{"", "held", "Passed"} {
		r := Report{Invariants: []InvariantResult{{Status: Held}, {Status: s}}}
		if got := ExitCode(r); got != ExitViolated {
			t.Errorf("status %q: want exit code 1, got %d", s, got)
		}
	}
}

func TestWorstExit(t *testing.T) {
	order := []int{ExitHeld, ExitInconclusive, ExitEnvironment, ExitViolated}
	for i, a := range order {
		for j, b := range order {
			if got, want := WorstExit(a, b), order[max(i, j)]; got != want {
				t.Errorf("%d and %d: want %d, got %d", a, b, want, got)
			}
		}
	}
	if got := WorstExit(); got != ExitInconclusive {
		t.Errorf("of no run: want %d, got %d", ExitInconclusive, got)
	}
	if got := WorstExit(ExitHeld, 9, ExitViolated); got != 9 {
		t.Errorf("a code that is none: want it, got %d", got)
	}
}
