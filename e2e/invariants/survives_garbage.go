package invariants

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"headroom/e2e/framework/history"
	"headroom/e2e/invariants/model"
)

var survivesGarbage = Invariant{
	Name: "survives-garbage",
	Claim: "no answer of a driver (a negative or huge count, no node id or another one) and no period of a CSIDriver (above a year) stops a kubelet; " +
		"an end of a kubelet without such a cause is inconclusive",
	Source:   "pkg/volume/csi; KEP-4876",
	Boundary: history.Kubelet,
	Needs:    []string{history.PrefixComponent, history.PrefixCSI, history.PrefixAPI + "csidrivers"},
	KnownUpstream: []Known{{
		Versions: ">=1.33 <=1.37", Scenario: "period-overflow", Signed: true,
		Source: "pkg/volume/csi/csi_node_updater.go: a period above 9223372036 s overflows, and time.NewTicker panics",
	}},
	New: func(p Params) Checker {
		return newChecker(p, &garbage{t: tally{}, of: map[string]*fed{}, ids: map[model.ID]string{}, periods: map[string]*int64{}})
	},
}

const (
	// absurdPeriod is a period that nobody means: a year.
	absurdPeriod = 365 * 24 * 60 * 60
	// overflowsAbove is the longest period, in seconds, that fits a time.Duration.
	overflowsAbove = int64(math.MaxInt64 / time.Second)
	// digestWithin is how soon after garbage a kubelet's end is laid to it.
	digestWithin = 30 * time.Second
)

// morsel is one piece of garbage that a kubelet was given.
type morsel struct {
	at     time.Duration
	what   string
	ref    history.Ref
	scope  string
	defect string
}

// fed is what one node's kubelet was given of late, and its end, which may be seen before its cause.
type fed struct {
	eaten []morsel
	end   *morsel
}

type garbage struct {
	t       tally
	of      map[string]*fed
	ids     map[model.ID]string // the node id that the driver gave last
	periods map[string]*int64   // by driver
	swept
	atOnce
}

func (g *garbage) observe(m *model.Model, s *model.Step) {
	if g.swept.due(s.At) {
		for node, f := range g.of {
			g.digest(m, node, f, s.At)
		}
	}
	switch b := s.Body.(type) {
	case *history.CSICall:
		g.call(m, s, b)
	case *history.CSIDriver:
		g.periods[s.Key] = b.PeriodSeconds
		if b.PeriodSeconds == nil || b.Type == "DELETED" {
			delete(g.periods, s.Key)
		}
		for _, id := range m.RegisteredIDs() {
			// The kubelet's end may have been seen first.
			before, _ := m.Registered(id).At(s.At - m.Slack())
			if now, _ := m.Registered(id).Back(0); id.Driver == s.Key && (now.Value || before.Value) {
				g.period(m, s, id)
			}
		}
	case *history.Component:
		node, ok := strings.CutPrefix(s.Key, "kubelet@")
		switch {
		case !ok:
		case b.State == "exited":
			g.digest(m, node, g.fed(node), s.At)
			g.fed(node).end = &morsel{at: s.At, what: b.Exit, ref: s.Ref(), scope: s.Scope}
		case b.State == "stopping" || b.State == "stopped":
			g.fed(node).eaten = nil // it is not known how it would have ended
		}
	}
}

func (g *garbage) fed(node string) *fed {
	f := g.of[node]
	if f == nil {
		f = &fed{}
		g.of[node] = f
	}
	return f
}

func (g *garbage) feed(node string, x morsel) {
	f := g.fed(node)
	f.eaten = append(f.eaten, x)
}

func (g *garbage) call(m *model.Model, s *model.Step, b *history.CSICall) {
	c := s.Call
	switch {
	case c.Method == model.NotifyRegistered && b.Registered != nil && *b.Registered && s.Phase == history.Invoke:
		g.period(m, s, c.ID)
	case c.Method != model.NodeGetInfo || c.Side != history.ClientSide || s.Phase != history.OK || b.MaxVolumes == nil:
	default:
		was, known := g.ids[c.ID]
		g.ids[c.ID] = b.NodeID
		var what string
		switch {
		case c.Max < 0 || c.Max > math.MaxInt32:
			what = fmt.Sprintf("answer %d of %q", c.Max, c.Driver)
		case b.NodeID == "" || known && was != b.NodeID:
			what = fmt.Sprintf("node id %q after %q of %q", b.NodeID, was, c.Driver)
		default:
			return
		}
		g.feed(c.Node, morsel{at: s.At, what: what, ref: s.Ref(), scope: s.Scope})
	}
}

// period feeds a registered driver's period, where it is absurd.
func (g *garbage) period(m *model.Model, s *model.Step, id model.ID) {
	p := g.periods[id.Driver]
	if p == nil || *p <= absurdPeriod || !m.Refreshes(id.Node, s.At) {
		return
	}
	x := morsel{at: s.At, what: fmt.Sprintf("period %d s of %q", *p, id.Driver), ref: s.Ref(), scope: s.Scope}
	if *p > overflowsAbove {
		x.defect = "period-overflow"
	}
	g.feed(id.Node, x)
}

// digest judges an end once its cause must have been seen, and garbage that nothing came of.
func (g *garbage) digest(m *model.Model, node string, f *fed, now time.Duration) {
	if f.end != nil && f.end.at+m.Slack() < now {
		g.ended(m, node, f)
		f.end, f.eaten = nil, nil
	}
	for f.end == nil && len(f.eaten) > 0 && f.eaten[0].at+digestWithin < now {
		g.t.held(node, f.eaten[0].scope)
		f.eaten = f.eaten[1:]
	}
	if f.end == nil && len(f.eaten) == 0 {
		delete(g.of, node)
	}
}

func (g *garbage) ended(m *model.Model, node string, f *fed) {
	x := finding{at: f.end.at, scope: f.end.scope, evidence: []history.Ref{f.end.ref}}
	x.detail = fmt.Sprintf("want the kubelet of node %q to go on, got its end at %s (%s)", node, m.Since(f.end.at), f.end.what)
	if len(f.eaten) == 0 {
		x.detail += ", for a reason that the history does not tell"
		g.t.doubt(node, x)
		return
	}
	cause := f.eaten[len(f.eaten)-1]
	if i := slices.IndexFunc(f.eaten, func(e morsel) bool { return e.defect != "" }); i >= 0 {
		cause = f.eaten[i]
	}
	x.detail += fmt.Sprintf(", after %s at %s", cause.what, m.Since(cause.at))
	x.evidence, x.defect = append(x.evidence, cause.ref), cause.defect
	if strings.HasPrefix(f.end.what, "signal:") {
		x.detail += "; but somebody killed it"
		g.t.doubt(node, x)
		return
	}
	g.t.violated(node, x)
}

func (g *garbage) finish(m *model.Model) []Verdict {
	for node, f := range g.of {
		g.digest(m, node, f, model.Plus(m.End(), 1))
		if f.end != nil {
			g.ended(m, node, f)
		}
	}
	return g.t.verdicts(m, history.Kubelet)
}
