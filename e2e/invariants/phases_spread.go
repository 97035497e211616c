package invariants

import (
	"fmt"
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
	New:      func(p Params) Checker { return newChecker(p, spread{}) },
}

const (
	spreadNodes   = 16
	spreadPeriods = 20
	spreadBucket  = time.Second
)

type spread struct{ atEnd }

func (spread) finish(m *model.Model) []Verdict {
	t := tally{}
	nodes := map[string][]string{} // of each driver
	for node, ids := range m.Owners() {
		if len(ids) == 1 { // two drivers ask about one node alike
			nodes[ids[0].Driver] = append(nodes[ids[0].Driver], node)
		}
	}
	for driver, names := range nodes {
		points := m.Period(driver).Points()
		for i, p := range points {
			to := m.End()
			if i+1 < len(points) {
				to = points[i+1].At
			}
			if p.Value != nil && len(names) >= spreadNodes {
				judgeSpread(m, t, driver, names, model.Span{From: p.At, To: to}, model.Seconds(*p.Value))
			}
		}
	}
	return t.verdicts(history.Driver)
}

func judgeSpread(m *model.Model, t tally, driver string, names []string, span model.Span, period time.Duration) {
	if (span.To-span.From)/spreadPeriods < period || period <= spreadBucket {
		return
	}
	var asked [][]model.Query
	from, to := span.From, span.To
	for _, node := range names {
		during := slices.DeleteFunc(slices.Clone(m.Queries(node)), func(q model.Query) bool { return q.Invoked < span.From || q.Invoked > span.To })
		if len(during) == 0 || (during[len(during)-1].Invoked-during[0].Invoked)/spreadPeriods < period {
			continue
		}
		asked = append(asked, during)
		from, to = max(from, during[0].Invoked), min(to, during[len(during)-1].Invoked)
	}
	if len(asked) < spreadNodes || (to-from)/spreadPeriods < period {
		return
	}
	var phases []phase
	for _, q := range slices.Concat(asked...) {
		if q.Invoked >= from && q.Invoked <= to {
			phases = append(phases, phase{(q.Invoked - from) % period, q.Ref})
		}
	}
	crowd, first := crowdest(phases, period)
	if 2*crowd <= len(phases) {
		t.held(driver, "")
		return
	}
	t.violated(driver, finding{
		at: to, evidence: []history.Ref{first.ref},
		detail: fmt.Sprintf("want at most half of the %d queries about %d nodes in one second of the period of %s, got %d in the second that begins %s into it, from %s to %s",
			len(phases), len(asked), period, crowd, first.in.Round(time.Millisecond), m.Since(from), m.Since(to)),
	})
}

// phase is how far into a period a question came.
type phase struct {
	in  time.Duration
	ref history.Ref
}

// crowdest counts the questions in the fullest second of the period, which may go over its end, and returns the first of them.
func crowdest(phases []phase, period time.Duration) (crowd int, first phase) {
	slices.SortFunc(phases, func(a, b phase) int { return int(a.in - b.in) })
	n := len(phases)
	end := 0
	for i, p := range phases {
		for end < i+n {
			in := phases[end%n].in
			if end >= n {
				in += period
			}
			if in-p.in >= spreadBucket {
				break
			}
			end++
		}
		if end-i > crowd {
			crowd, first = end-i, p
		}
	}
	return crowd, first
}
