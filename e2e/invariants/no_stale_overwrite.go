package invariants

import (
	"fmt"

	"headroom/e2e/framework/history"
	"headroom/e2e/invariants/model"
)

// noStaleOverwrite links answers to generations of the quota by what the backend had told of the node by then, from both sides: a fall while the backend
// answers goes to the very value of a generation, so the answer is of that generation or a later one; and no answer can be of a generation that
// allows less than it says, unless the driver was never told of one that allows as much. What lies between could be a step of a slow rise: it is not
// accused. So a driver that goes back to an older and lower value is not seen here.
var noStaleOverwrite = Invariant{
	Name:     "no-stale-overwrite",
	Claim:    "for NodeGetInfo calls that do not overlap, the generation of the quota that an answer comes from never decreases",
	Source:   "KEP-4876: the kubelet writes the last answer, whatever it was made from",
	Boundary: history.Driver,
	Needs:    []string{history.PrefixCSI, history.SourceBackend},
	New:      func(p Params) Checker { return newChecker(p, stale{}) },
}

type stale struct{ atEnd }

func (stale) finish(m *model.Model) []Verdict {
	t := tally{}
	for _, c := range capacities(m) {
		judgeGenerations(m, t, c)
	}
	return t.verdicts(history.Driver)
}

// atGeneration is an answer that is certainly of a generation or a later one.
type atGeneration struct {
	generation int64
	call       *model.Call
}

func judgeGenerations(m *model.Model, t tally, c capacity) {
	var floors []atGeneration // rising
	for i, b := range c.answers {
		if b.Max <= 0 {
			continue
		}
		var low atGeneration
		for j := len(floors) - 1; j >= 0 && low.call == nil; j-- {
			if floors[j].call.Done <= b.Invoked {
				low = floors[j]
			}
		}
		told := toldBy(m, c.node, b)
		if high, ok := newestThatAllows(told, b.Max); ok && low.call != nil {
			if high.Quota.Generation < low.generation {
				f := found(b, high.Ref, low.call.End)
				f.detail = fmt.Sprintf("want an answer from generation %d of the quota or a later one, which the answer of %d at %s came from, got %d at %s: only generation %d "+
					"and earlier ones allow as much", low.generation, low.call.Max, m.Since(low.call.Done), b.Max, m.Since(b.Done), high.Quota.Generation)
				t.missing(m, c.id.String(), f, history.SourceBackend)
				continue
			}
			t.held(c.id.String(), b.Scope)
		}
		a := c.after(i)
		if a == nil || b.Max >= a.Max || !c.knows(m, b) || m.Outage(c.node, "get", remembered(m, b), b.Done) {
			continue
		}
		if g, ok := oldestOf(told, b.Max, low.generation); ok && g > low.generation {
			floors = append(floors, atGeneration{g, b})
		}
	}
}

// toldBy are the quotas that the driver can have known when it answered c.
func toldBy(m *model.Model, node string, c *model.Call) []model.Told {
	all := m.Told(node)
	for len(all) > 0 && all[len(all)-1].At > c.Done {
		all = all[:len(all)-1]
	}
	return all
}

func newestThatAllows(told []model.Told, n int64) (best model.Told, ok bool) {
	for _, k := range told {
		if max(1, k.Quota.Usable()) >= n && (!ok || k.Quota.Generation > best.Quota.Generation) {
			best, ok = k, true
		}
	}
	return best, ok
}

// oldestOf is the oldest generation, not before from, that allows exactly n.
func oldestOf(told []model.Told, n, from int64) (g int64, ok bool) {
	for _, k := range told {
		if max(1, k.Quota.Usable()) == n && k.Quota.Generation >= from && (!ok || k.Quota.Generation < g) {
			g, ok = k.Quota.Generation, true
		}
	}
	return g, ok
}
