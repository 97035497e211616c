package invariants

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"headroom/e2e/framework/history"
	"headroom/e2e/invariants/model"
)

// phasesSpread judges stretches over which the period of a driver's CSIDriver did not change, with the questions that the backend got about all of its
// nodes meanwhile. The bucket is any second of the period, wherever it begins, so that a crowd on the border of two is seen.
var phasesSpread = Invariant{
	Name: "phases-spread",
	Claim: "with 16 nodes or more over 20 periods or more, no second of the period holds more than half of the queries about the nodes " +
		"(a changed period realigns all kubelets, so only the driver's own jitter can spread them)",
	Source:   "kubernetes pkg/volume/csi/csi_node_updater.go: a plain ticker, restarted on every node when the period changes",
	Boundary: history.Driver,
	Needs:    []string{history.PrefixCSI, history.SourceBackend, history.PrefixAPI + "csidrivers"},
	New:      func(p Params) Checker { return newChecker(p, &spread{t: tally{}, of: map[string]*stretch{}}) },
}

const (
	spreadNodes   = 16
	spreadPeriods = 20
	spreadBucket  = time.Second
	// spreadGrain is how finely questions are told apart: a second is as many grains as fit, so none is accused of what it did not do.
	spreadGrain = spreadBucket / 20
)

type spread struct {
	t  tally
	of map[string]*stretch // by driver
	atOnce
}

// stretch is one over which a driver's period does not change.
type stretch struct {
	from   time.Duration
	period time.Duration // 0 where there is none
	nodes  map[string]*phases
}

// phases are the questions about one node, by the grain of the period in which they came.
type phases struct {
	first, last time.Duration
	n           map[int64]int
	refs        map[int64]history.Ref // the first of each second
}

func (r *spread) observe(m *model.Model, s *model.Step) {
	switch s.Body.(type) {
	case *history.CSIDriver:
		if p, ok := m.Period(s.Key).Back(0); ok && p.Ref == s.Ref() {
			r.end(m, s.Key, s.At)
			r.of[s.Key] = &stretch{from: s.At, nodes: map[string]*phases{}}
			if p.Value != nil {
				r.of[s.Key].period = model.Seconds(*p.Value)
			}
		}
	case *history.Backend:
		if (s.Key == "get" || s.Key == "list") && s.Phase == history.Invoke {
			for _, x := range r.of {
				x.ask(s)
			}
		}
	}
}

func (x *stretch) ask(s *model.Step) {
	if x.period <= spreadBucket {
		return
	}
	p := x.nodes[s.Node]
	if p == nil {
		p = &phases{first: s.At, n: map[int64]int{}, refs: map[int64]history.Ref{}}
		x.nodes[s.Node] = p
	}
	p.last = s.At
	in := (s.At - x.from) % x.period
	p.n[int64(in/spreadGrain)]++
	if second := int64(in / spreadBucket); p.refs[second] == (history.Ref{}) {
		p.refs[second] = s.Ref()
	}
}

func (r *spread) finish(m *model.Model) []Verdict {
	for driver := range r.of {
		r.end(m, driver, m.End())
	}
	return r.t.verdicts(m, history.Driver)
}

// end judges the stretch of a driver that ends now, by the nodes that it alone has asked about so far: two drivers ask about one node alike.
func (r *spread) end(m *model.Model, driver string, to time.Duration) {
	x := r.of[driver]
	if x == nil || x.period <= spreadBucket || (to-x.from)/spreadPeriods < x.period {
		return
	}
	nodes := 0
	from, until := x.from, to
	all := map[int64]int{}
	asked := 0
	refs := map[int64]history.Ref{}
	for node, ids := range m.Owners() {
		p := x.nodes[node]
		if len(ids) != 1 || ids[0].Driver != driver || p == nil || (p.last-p.first)/spreadPeriods < x.period {
			continue
		}
		nodes++
		from, until = max(from, p.first), min(until, p.last)
		for grain, n := range p.n {
			all[grain] += n
			asked += n
		}
		for second, ref := range p.refs {
			if old, ok := refs[second]; !ok || ref.Seq < old.Seq {
				refs[second] = ref
			}
		}
	}
	if nodes < spreadNodes || (until-from)/spreadPeriods < x.period {
		return
	}
	crowd, first := crowdest(all, x.period)
	if 2*crowd <= asked {
		r.t.held(driver, "")
		return
	}
	ref, ok := refs[int64(first/spreadBucket)]
	if !ok {
		ref = refs[int64((first+spreadBucket)%x.period/spreadBucket)]
	}
	r.t.violated(driver, finding{
		at: until, evidence: []history.Ref{ref},
		detail: fmt.Sprintf("want at most half of the %d queries about %d nodes in one second of the period of %s, got %d in the second that begins %s into it, from %s to %s",
			asked, nodes, x.period, crowd, first, m.Since(from), m.Since(until)),
	})
}

// crowdest counts the questions in the fullest second of the period, which may go over its end, and says how far into the period it begins: with the
// grain of a question.
func crowdest(all map[int64]int, period time.Duration) (crowd int, first time.Duration) {
	grains := int64((period + spreadGrain - 1) / spreadGrain)
	for _, g := range slices.Sorted(maps.Keys(all)) {
		n := 0
		for i := range int64(spreadBucket / spreadGrain) {
			n += all[(g+i)%grains]
		}
		if n > crowd {
			crowd, first = n, time.Duration(g)*spreadGrain
		}
	}
	return crowd, first
}
