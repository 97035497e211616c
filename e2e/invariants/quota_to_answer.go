package invariants

import (
	"fmt"
	"time"

	"headroom/e2e/framework/history"
	"headroom/e2e/invariants/model"
)

// quotaToAnswer judges an answer once the quota has stood still, and could be asked for, over the cache age and slack before it. A rise may come in
// steps: of each answer that is an interval and slack after the one before, or after the change, one step is wanted, and none while the node is full or
// refuses attaches, for a driver may wait then. So a driver that is asked seldom is not accused of what nobody could see.
var quotaToAnswer = Invariant{
	Name: "quota-to-answer",
	Claim: "a quota change shows in the first answer after the driver's declared cache age; where it rises, by at least one declared step for each answer " +
		"that is a declared interval after the last",
	Source:   "the driver's declared cache age, step and interval; KEP-4876, periodic updates",
	Boundary: history.Driver,
	Needs:    []string{history.PrefixCSI, history.SourceBackend},
	New:      func(p Params) Checker { return newChecker(p, arrives{}) },
}

type arrives struct{ atEnd }

func (arrives) finish(m *model.Model) []Verdict {
	t := tally{}
	for _, c := range capacities(m) {
		judgeShown(m, t, c)
	}
	return t.verdicts(history.Driver)
}

func judgeShown(m *model.Model, t tally, c capacity) {
	d := m.Header().Params.Driver
	var last *model.Call    // the answer before, which this one may build upon
	var risen time.Duration // since when a step may be waited for
	for _, b := range c.answers {
		if last != nil && last.Done > b.Invoked {
			continue
		}
		if b.Max <= 0 { // never-unbounded is about those, and what follows builds upon none
			last = nil
			continue
		}
		before := last
		last = b
		from := remembered(m, b)
		usable, since, still := m.SteadyQuota(c.node, from, b.Done)
		if !still || since > from || m.Outage(c.node, "get", from, b.Done) || m.Down("driver@"+c.id.String(), from, b.Done) {
			risen = b.Done
			continue
		}
		if before == nil {
			risen = b.Done
			continue
		}
		want := max(1, usable)
		need := want
		settled := model.Plus(since, model.Minus(b.Invoked, from))
		risen = max(risen, settled)
		if before.Max < want && d.Step > 0 {
			need = before.Max
			due := model.Minus(b.Invoked, risen) >= model.Plus(time.Duration(d.StepInterval), m.Slack())
			switch {
			case m.Full(c.node, risen, b.Done):
				risen = b.Done
			case due:
				need, risen = min(want, before.Max+d.Step), b.Invoked
			}
		}
		if b.Max > before.Max {
			risen = b.Done
		}
		if b.Max >= need && b.Max <= want {
			t.held(c.id.String(), b.Scope)
			continue
		}
		f := found(b, before.End)
		f.detail = fmt.Sprintf("want an answer from %d to %d, the quota since %s, after one of %d at %s, got %d at %s",
			need, want, m.Since(since), before.Max, m.Since(before.Done), b.Max, m.Since(b.Done))
		t.late(m, c.id.String(), since, b.Done, f, history.SourceBackend)
	}
}
