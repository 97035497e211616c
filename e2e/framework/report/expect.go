package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"headroom/e2e/framework/history"
)

// expectations are the scenarios of a history and what each must show.
type expectations struct {
	scenarios []played
	damage    string
}

// played is one scenario. Its scope is its name: everything that it made has a name that begins with it.
type played struct {
	history.Scenario
	scope string
}

func (x *expectations) observe(e history.Event) {
	if e.Source != history.SourceScenario || e.Key == history.KeyOpen || e.Key == history.KeyClose {
		return
	}
	p := played{scope: e.Scope}
	if err := e.Decode(&p.Scenario); err != nil {
		x.damage = err.Error()
		return
	}
	x.scenarios = append(x.scenarios, p)
}

// judge compares the verdicts with what the scenarios expect. A violation that is expected fails nothing; one that does not show, and a claim that is
// expected to hold and does not, fail the scenario that expects it.
func (x *expectations) judge(r *Report) {
	if x.damage != "" {
		r.Doubts = append(r.Doubts, "what a scenario expects cannot be read: "+x.damage)
	}
	for _, p := range x.scenarios {
		if slices.ContainsFunc(r.Requirements, func(q Requirement) bool { return q.ID == p.Spec && q.Status == Skipped }) {
			continue // it was not played
		}
		for _, want := range p.Expect {
			status, why := x.check(r, p, want)
			fail(r, p.Spec, status, why)
		}
	}
	for i := range r.Invariants {
		if row := &r.Invariants[i]; len(row.Verdicts) > 0 {
			row.Status, row.Detail = aggregate(row.Verdicts)
		}
	}
}

// check judges one expectation. Held means that it is met.
func (x *expectations) check(r *Report, p played, want history.Expectation) (Status, string) {
	i := slices.IndexFunc(r.Invariants, func(i InvariantResult) bool { return i.Name == want.Invariant })
	if i < 0 {
		return Inconclusive, fmt.Sprintf("%s: this version of headroom has no such invariant", want.Invariant)
	}
	row := &r.Invariants[i]
	shown, held, open := 0, 0, ""
	for n := range row.Verdicts {
		v := &row.Verdicts[n]
		if x.owner(*v) != p.scope {
			continue
		}
		switch {
		case v.Status == KnownUpstream, v.Status == Violated && v.Boundary == row.Boundary:
			if !want.Violated {
				return Violated, fmt.Sprintf("%s: want it held, got %s: %s", want.Invariant, v.Status.word(), v.Detail)
			}
			if shown++; v.Status == Violated {
				v.Status = Expected
			}
		case v.Status == Inconclusive:
			open = cmp.Or(open, v.Detail, "no detail given")
		case v.Status == Held:
			held++
		}
		if want.AtMost > 0 && v.Worst > Duration(want.AtMost) {
			return Violated, fmt.Sprintf("%s: want durations of at most %s, got %s", want.Invariant, want.AtMost, time.Duration(v.Worst))
		}
	}
	switch {
	case want.Violated && shown > 0, !want.Violated && held > 0 && open == "":
		return Held, ""
	case open != "":
		return Inconclusive, fmt.Sprintf("%s: it is not told whether it %s: %s", want.Invariant, map[bool]string{true: "is violated", false: "holds"}[want.Violated], open)
	case want.Violated && held > 0:
		return Violated, fmt.Sprintf("%s: want it violated, got it held %s: the defect is gone, or the scenario no longer triggers it", want.Invariant, Plural(held, "time"))
	}
	return Inconclusive, fmt.Sprintf("%s: the scenario never put it to the test", want.Invariant)
}

// owner is the scope of the scenario that a verdict is about, by its scope or by the name of its subject; "" when it is about none. Of scopes that
// begin alike the longest counts.
func (x *expectations) owner(v Verdict) string {
	subject := v.Subject[strings.LastIndex(v.Subject, "/")+1:]
	found := ""
	for _, p := range x.scenarios {
		of := func(name string) bool {
			rest, ok := strings.CutPrefix(name, p.scope)
			return ok && (rest == "" || rest[0] == '-' || rest[0] == '.')
		}
		first, _, _ := strings.Cut(v.Subject, "/")
		if (v.Scope == p.scope || of(first) || of(subject)) && len(p.scope) > len(found) {
			found = p.scope
		}
	}
	return found
}

// fail makes a scenario's row what an expectation that is not met makes of it: the worse of the two counts, and the row says both.
func fail(r *Report, spec string, status Status, why string) {
	if status == Held {
		return
	}
	for i := range r.Requirements {
		q := &r.Requirements[i]
		if q.ID != spec {
			continue
		}
		if q.Status == Held || q.Status == Inconclusive && status == Violated {
			q.Status = status
		}
		q.Message = joinDetail(q.Message, why)
	}
}
