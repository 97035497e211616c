package invariants

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"headroom/e2e/framework/history"
	"headroom/e2e/invariants/model"
)

var asksEveryPeriod = Invariant{
	Name:     "asks-every-period",
	Claim:    "the kubelet's NodeGetInfo calls of a registered driver are at most period + slack apart, the first at most that long after registration",
	Source:   "pkg/volume/csi/csi_node_updater.go; KEP-4876",
	Boundary: history.Kubelet,
	Needs:    []string{history.PrefixCSI, history.PrefixAPI + "csidrivers"},
	New:      func(p Params) Checker { return newChecker(p, asks{}) },
}

// settle is how long a kubelet may hang on a request that a disturbance broke: http2 ping and dial time-outs of client-go.
const settle = time.Minute

type asks struct{ atEnd }

func (asks) finish(m *model.Model) []Verdict {
	t := tally{}
	for _, id := range m.RegisteredIDs() {
		starts := clockStarts(m, id)
		for i, s := range starts {
			var next *clockStart
			if i+1 < len(starts) {
				next = &starts[i+1]
			}
			judgeTick(m, t, id, s, next)
		}
	}
	return t.verdicts(history.Kubelet)
}

// clockStart is a moment from which the next call is due within one period.
type clockStart struct {
	at   time.Duration
	what string
	// call is set where the moment is a call.
	call *model.Call
	ref  history.Ref
}

// clockStarts lists them by time: calls of any kind (the ticks go on beneath, so the next one is never further away), registrations, changes of
// the period, and the ends of disturbances.
func clockStarts(m *model.Model, id model.ID) []clockStart {
	var out []clockStart
	for _, c := range m.Infos(id) {
		if !c.Orphan {
			out = append(out, clockStart{at: c.Invoked, what: "the call", call: c, ref: c.Start})
		}
	}
	for _, p := range m.Registered(id).Points() {
		if p.Value {
			out = append(out, clockStart{at: p.At, what: "the registration", ref: p.Ref})
		}
	}
	for _, p := range m.Period(id.Driver).Points() {
		out = append(out, clockStart{at: p.At, what: "the change of the period", ref: p.Ref})
	}
	for _, s := range m.Disturbances(id.Node) {
		if s.To < model.Forever {
			out = append(out, clockStart{at: model.Plus(s.To, settle), what: "the recovery"})
		}
	}
	slices.SortStableFunc(out, func(a, b clockStart) int { return cmp.Compare(a.at, b.at) })
	return out
}

// judgeTick judges the stretch from s to its deadline, which next may cut short.
func judgeTick(m *model.Model, t tally, id model.ID, s clockStart, next *clockStart) {
	period, ok := m.Period(id.Driver).At(s.at)
	registered, _ := m.Registered(id).At(s.at)
	if !ok || period.Value == nil || !registered.Value || !m.Refreshes(id.Node, s.at) {
		return
	}
	due := model.Plus(s.at, model.Seconds(*period.Value))
	if s.call != nil {
		// The kubelet asks again only once it has its answer.
		due = max(due, s.call.Done)
	}
	deadline := model.Plus(due, m.Slack())
	name := id.String()
	if next != nil && next.at <= deadline {
		if next.call != nil && undisturbed(m, id, s.at, next.at) {
			t.held(name, next.call.Scope)
		}
		return
	}
	if deadline > m.End() || deadline == model.Forever || !undisturbed(m, id, s.at, deadline) || !m.PeriodThroughout(id.Driver, s.at, deadline) {
		return
	}
	f := finding{at: deadline, evidence: []history.Ref{s.ref, period.Ref}}
	got := "none by the end of the history"
	for _, c := range m.Infos(id) {
		if c.Invoked > deadline {
			f.evidence, f.scope = append(f.evidence, c.Start), c.Scope
			got = "the next at " + m.Since(c.Invoked)
			break
		}
	}
	f.detail = fmt.Sprintf("want NodeGetInfo within %s + %s after %s at %s, got %s", model.Seconds(*period.Value), m.Slack(), s.what, m.Since(s.at), got)
	t.late(m, name, s.at, deadline, f, history.PrefixCSI+id.Node, history.PrefixAPI+"csidrivers")
}

// undisturbed says whether the driver stayed registered and nothing kept the kubelet from its work.
func undisturbed(m *model.Model, id model.ID, from, to time.Duration) bool {
	return !m.Disturbed(id.Node, model.Minus(from, settle), to) && registeredThroughout(m, id, from, to)
}

func registeredThroughout(m *model.Model, id model.ID, from, to time.Duration) bool {
	return !slices.ContainsFunc(m.Registered(id).Over(from, to), func(p model.Point[bool]) bool { return !p.Value })
}
