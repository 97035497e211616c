package invariants

import (
	"fmt"
	"time"

	"headroom/e2e/framework/history"
	"headroom/e2e/invariants/model"
)

// totalNotRemaining judges pairs of answers between which the quota stood still and could be asked for. A driver that reports what is left answers
// lower by just as many volumes as were attached meanwhile. A lower answer of another size has another cause and is not judged here, and neither is
// a higher one, which may be a step of a slow rise.
var totalNotRemaining = Invariant{
	Name: "total-not-remaining",
	Claim: "while the quota is known and stands still, an answer does not fall by the number of volumes that Kubernetes attached since the answer before; " +
		"driver restarts included",
	Source:   "CSI spec NodeGetInfo: max_volumes_per_node is the total; kubernetes pkg/scheduler nodevolumelimits subtracts what is in use itself",
	Boundary: history.Driver,
	Needs:    []string{history.PrefixCSI, history.SourceBackend},
	New:      func(p Params) Checker { return newChecker(p, &total{t: tally{}, capacities: newCapacities()}) },
}

type total struct {
	t tally
	capacities
}

func (r *total) settle(m *model.Model, to time.Duration) time.Duration {
	return r.each(m, to, func(c *capacity) {
		if a, b := c.before(), c.last(); a != nil && a.Max > 0 && b.Max > 0 && pairable(m, a, b) {
			judgeTotal(m, r.t, c, a, b)
		}
	})
}

func (r *total) finish(m *model.Model) []Verdict { return r.t.verdicts(m, history.Driver) }

func judgeTotal(m *model.Model, t tally, c *capacity, a, b *model.Call) {
	from := remembered(m, a)
	usable, _, still := m.SteadyQuota(c.node, from, b.Done)
	if !still || !c.knows(m, b) || m.Outage(c.node, "get", from, b.Done) {
		return
	}
	before, after := countsOver(m, c.node, from, a.Done), countsOver(m, c.node, remembered(m, b), b.Done)
	name, fall := c.id.String(), a.Max-b.Max
	switch p, ok := fellBy(before, after, fall, b.Max); {
	case fall > 0 && ok:
		f := found(b, a.End, p.Ref)
		f.detail = fmt.Sprintf("want an answer of %d or more, as at %s, for the quota stayed at %d, got %d at %s, when %d volumes were attached",
			a.Max, m.Since(a.Done), usable, b.Max, m.Since(b.Done), p.Value)
		t.missing(name, f, history.SourceBackend)
	case fall <= 0 && most(before) < least(after), fall == 0 && least(before) > most(after):
		t.held(name, b.Scope)
	}
}

// countsOver are the counts of attached volumes in force from from to to; none attached where the history tells no count.
func countsOver(m *model.Model, node string, from, to time.Duration) []model.Point[int64] {
	if points := m.Counts(node).Over(from, to); len(points) > 0 {
		return points
	}
	return []model.Point[int64]{{}}
}

// fellBy says whether attaching can explain a fall of an answer to last, and with which count.
func fellBy(before, after []model.Point[int64], fall, last int64) (model.Point[int64], bool) {
	for _, p := range after {
		for _, q := range before {
			if more := p.Value - q.Value; more == fall || more > fall && last == 1 { // nothing lower than 1 can be answered
				return p, true
			}
		}
	}
	return model.Point[int64]{}, false
}

func most(points []model.Point[int64]) int64 {
	n := points[0].Value
	for _, p := range points {
		n = max(n, p.Value)
	}
	return n
}

func least(points []model.Point[int64]) int64 {
	n := points[0].Value
	for _, p := range points {
		n = min(n, p.Value)
	}
	return n
}
