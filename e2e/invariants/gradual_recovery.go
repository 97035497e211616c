package invariants

import (
	"fmt"
	"time"

	"headroom/e2e/framework/history"
	"headroom/e2e/invariants/model"
)

// gradualRecovery takes an answer for as early or as late as its call allows, so that a driver which steps at moments of its own is not accused. "The
// backend refused an attach" is read as: within one interval, and the driver was told since, in an answer to a query, that the node is full. A rise up to
// what is attached admits nothing new and is no rise of that kind.
var gradualRecovery = Invariant{
	Name: "gradual-recovery",
	Claim: "an answer rises by at most one declared step per declared interval, and not within an interval of the backend refusing an attach for lack of " +
		"room and telling the driver that the node is full",
	Source:   "the driver's declared step and interval; KEP-4876, risks: a count that jumps places more pods than may attach",
	Boundary: history.Driver,
	Needs:    []string{history.PrefixCSI, history.SourceBackend},
	New:      func(p Params) Checker { return newChecker(p, &gradual{t: tally{}, capacities: newCapacities()}) },
}

type gradual struct {
	t tally
	capacities
}

func (r *gradual) settle(m *model.Model, to time.Duration) time.Duration {
	d := m.Header().Params.Driver
	return r.each(m, to, func(c *capacity) {
		if a := c.before(); d.Step > 0 && d.StepInterval > 0 && a != nil && a.Max > 0 && c.last().Max > a.Max {
			judgeRise(m, r.t, c, a)
		}
	})
}

func (r *gradual) finish(m *model.Model) []Verdict { return r.t.verdicts(m, history.Driver) }

// judgeRise holds a rise against the answers before it, because steps that come too often show over a few of them.
func judgeRise(m *model.Model, t tally, c *capacity, last *model.Call) {
	d := m.Header().Params.Driver
	interval := time.Duration(d.StepInterval)
	b, name := c.last(), c.id.String()
	for _, a := range c.earlier() {
		if a.Max <= 0 || a.Done > b.Invoked { // from unlimited there is no rise
			continue
		}
		took := b.Done - a.Invoked
		steps := int64((took+m.Slack())/interval) + 1
		if b.Max-a.Max > steps*d.Step {
			f := found(b, a.End)
			f.detail = fmt.Sprintf("want a rise of at most %d in %s, %d per %s, got one from %d to %d at %s",
				steps*d.Step, took.Round(time.Millisecond), d.Step, interval, a.Max, b.Max, m.Since(b.Done))
			t.violated(name, f)
			return
		}
	}
	if r, told, ok := toldFull(m, c.node, b, last); ok && pairable(m, last, b) && b.Max > most(countsOver(m, c.node, last.Done, b.Done)) {
		f := found(b, r.Ref, told.Ref)
		f.detail = fmt.Sprintf("want no rise within %s of being told that the node is full, at %s, an attach having been refused at %s, got one from %d to %d at %s",
			interval, m.Since(told.At), m.Since(r.Done), last.Max, b.Max, m.Since(b.Done))
		t.violated(name, f)
		return
	}
	t.held(name, b.Scope)
}

// toldFull finds a refusal for lack of room and a later answer of the backend that told the driver of it in time for its answer b: within an interval of
// b's end, and so long before its beginning that it certainly had arrived.
func toldFull(m *model.Model, node string, b, last *model.Call) (*model.Attach, model.Told, bool) {
	interval := time.Duration(m.Header().Params.Driver.StepInterval)
	known := m.Told(node)
	for i := len(known) - 1; i >= 0; i-- {
		k := known[i]
		if k.At > b.Invoked-m.Slack() {
			continue
		}
		if b.Done-k.At >= interval {
			break
		}
		if k.Quota.Attached < k.Quota.Usable() {
			continue
		}
		if r, ok := m.LastRefusal(node, max(k.At-interval, last.Invoked-interval), k.At); ok {
			return r, k, true
		}
	}
	return nil, model.Told{}, false
}
