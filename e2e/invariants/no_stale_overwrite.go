package invariants

import (
	"fmt"
	"slices"
	"time"

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
	New: func(p Params) Checker {
		return newChecker(p, &stale{t: tally{}, capacities: newCapacities(), told: map[string]*generations{}, floors: map[model.ID][]atGeneration{}})
	},
}

type stale struct {
	t tally
	capacities
	told map[string]*generations // by the backend's name of the node
	// floors are answers that are certainly of a generation or a later one, rising; the last few.
	floors map[model.ID][]atGeneration
}

// atGeneration is an answer that is certainly of a generation or a later one.
type atGeneration struct {
	generation int64
	call       *model.Call
}

func (r *stale) settle(m *model.Model, to time.Duration) time.Duration {
	needs := r.each(m, to, func(c *capacity) { r.judge(m, c) })
	for node := range m.ToldOf() {
		r.toldBy(m, node, to)
	}
	return needs
}

func (r *stale) finish(m *model.Model) []Verdict { return r.t.verdicts(m, history.Driver) }

func (r *stale) judge(m *model.Model, c *capacity) {
	b := c.last()
	if b.Max <= 0 {
		return
	}
	var low atGeneration
	for _, f := range slices.Backward(r.floors[c.id]) {
		if f.call.Done <= b.Invoked {
			low = f
			break
		}
	}
	told := r.toldBy(m, c.node, b.Done)
	if high, ok := told.newestThatAllows(b.Max); ok && low.call != nil {
		if high.Quota.Generation < low.generation {
			f := found(b, high.Ref, low.call.End)
			f.detail = fmt.Sprintf("want an answer from generation %d of the quota or a later one, which the answer of %d at %s came from, got %d at %s: only generation %d "+
				"and earlier ones allow as much", low.generation, low.call.Max, m.Since(low.call.Done), b.Max, m.Since(b.Done), high.Quota.Generation)
			r.t.missing(c.id.String(), f, history.SourceBackend)
			return
		}
		r.t.held(c.id.String(), b.Scope)
	}
	a := c.before()
	if a == nil || b.Max >= a.Max || !c.knows(m, b) || m.Outage(c.node, "get", remembered(m, b), b.Done) {
		return
	}
	if g, ok := told.oldestOf(b.Max, low.generation); ok && g > low.generation {
		floors := append(r.floors[c.id], atGeneration{g, b})
		r.floors[c.id] = slices.Delete(floors, 0, max(0, len(floors)-answersKept))
	}
}

// generationsKept bounds the generations remembered of one number of volumes: of a quota that goes to and fro, the older ones are forgotten.
const generationsKept = 64

// generations are those of a node's quota that a driver can have known.
type generations struct {
	until time.Duration // when they were told at the latest
	begun bool
	// highest are quotas of which none allows as much as another one of the same generation or a later one.
	highest []model.Told
	// exact are the generations that allow exactly a number of volumes, rising, and forgotten is the newest that is not among them any more.
	exact     map[int64][]int64
	forgotten map[int64]int64
}

// toldBy takes what was told of the node up to the time to.
func (r *stale) toldBy(m *model.Model, node string, to time.Duration) *generations {
	g := r.told[node]
	if g == nil {
		g = &generations{exact: map[int64][]int64{}, forgotten: map[int64]int64{}}
		r.told[node] = g
	}
	for _, k := range m.Told(node) {
		if k.At <= to && (!g.begun || k.At > g.until) {
			g.add(k)
		}
	}
	if !g.begun || to > g.until {
		g.begun, g.until = true, to
	}
	return g
}

func (g *generations) add(k model.Told) {
	n := max(1, k.Quota.Usable())
	above := func(a, b model.Told) bool {
		return max(1, a.Quota.Usable()) >= max(1, b.Quota.Usable()) && a.Quota.Generation >= b.Quota.Generation
	}
	if !slices.ContainsFunc(g.highest, func(o model.Told) bool { return above(o, k) }) {
		g.highest = append(slices.DeleteFunc(g.highest, func(o model.Told) bool { return above(k, o) }), k)
	}
	i, known := slices.BinarySearch(g.exact[n], k.Quota.Generation)
	if known {
		return
	}
	g.exact[n] = slices.Insert(g.exact[n], i, k.Quota.Generation)
	if len(g.exact[n]) > generationsKept {
		g.forgotten[n] = max(g.forgotten[n], g.exact[n][0])
		g.exact[n] = slices.Delete(g.exact[n], 0, 1)
	}
}

func (g *generations) newestThatAllows(n int64) (best model.Told, ok bool) {
	for _, k := range g.highest {
		if max(1, k.Quota.Usable()) >= n && (!ok || k.Quota.Generation > best.Quota.Generation) {
			best, ok = k, true
		}
	}
	return best, ok
}

// oldestOf is the oldest generation, not before from, that allows exactly n; false where none is known, or it is forgotten.
func (g *generations) oldestOf(n, from int64) (int64, bool) {
	all := g.exact[n]
	i, _ := slices.BinarySearch(all, from)
	if old, some := g.forgotten[n]; i == len(all) || some && old >= from {
		return 0, false
	}
	return all[i], true
}
