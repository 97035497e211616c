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
	New: func(p Params) Checker {
		return newChecker(p, &arrives{t: tally{}, capacities: newCapacities(), of: map[model.ID]*arrival{}})
	},
}

type arrives struct {
	t tally
	capacities
	of map[model.ID]*arrival
}

// arrival is how far a driver's answers about a node have come.
type arrival struct {
	last  *model.Call   // the answer before, which the next one may build upon
	risen time.Duration // since when a step may be waited for
}

func (r *arrives) settle(m *model.Model, to time.Duration) time.Duration {
	return r.each(m, to, func(c *capacity) {
		if r.of[c.id] == nil {
			r.of[c.id] = &arrival{}
		}
		r.of[c.id].judge(m, r.t, c)
	})
}

func (r *arrives) finish(m *model.Model) []Verdict { return r.t.verdicts(m, history.Driver) }

func (x *arrival) judge(m *model.Model, t tally, c *capacity) {
	d, b := m.Header().Params.Driver, c.last()
	if x.last != nil && x.last.Done > b.Invoked {
		return
	}
	if b.Max <= 0 { // never-unbounded is about those, and what follows builds upon none
		x.last = nil
		return
	}
	before := x.last
	x.last = b
	from := remembered(m, b)
	usable, since, still := m.SteadyQuota(c.node, from, b.Done)
	if before == nil || !still || since > from || m.Outage(c.node, "get", from, b.Done) || m.Down("driver@"+c.id.String(), from, b.Done) {
		x.risen = b.Done
		return
	}
	want := max(1, usable)
	need := want
	settled := model.Plus(since, model.Minus(b.Invoked, from))
	x.risen = max(x.risen, settled)
	if before.Max < want && d.Step > 0 {
		need = before.Max
		due := model.Minus(b.Invoked, x.risen) >= model.Plus(time.Duration(d.StepInterval), m.Slack())
		switch {
		case m.Full(c.node, max(x.risen, model.Minus(b.Done, m.PairWithin(b.Done))), b.Done):
			x.risen = b.Done
		case due:
			need, x.risen = min(want, before.Max+d.Step), b.Invoked
		}
	}
	if b.Max > before.Max {
		x.risen = b.Done
	}
	if b.Max >= need && b.Max <= want {
		t.held(c.id.String(), b.Scope)
		return
	}
	f := found(b, before.End)
	f.detail = fmt.Sprintf("want an answer from %d to %d, the quota since %s, after one of %d at %s, got %d at %s",
		need, want, m.Since(since), before.Max, m.Since(before.Done), b.Max, m.Since(b.Done))
	t.late(m, c.id.String(), since, b.Done, f, history.SourceBackend)
}
