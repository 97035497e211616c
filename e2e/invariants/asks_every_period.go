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
	New:      func(p Params) Checker { return newChecker(p, &asks{t: tally{}, of: map[model.ID]*clock{}}) },
}

// settle is how long a kubelet may hang on a request that a disturbance broke: http2 ping and dial time-outs of client-go.
const settle = time.Minute

type asks struct {
	t  tally
	of map[model.ID]*clock
}

// clock is when the next call of one driver on one node is due.
type clock struct {
	calls []*model.Call // not looked at yet, by when they were sent
	// last is the moment that the next one is awaited from; until is when moments were last looked for.
	last  *clockStart
	until time.Duration
	begun bool
	// missed are calls that did not come: what is said of them waits for the next one.
	missed []missedCall
}

// clockStart is a moment from which the next call is due within one period.
type clockStart struct {
	at   time.Duration
	what string
	// call is set where the moment is a call.
	call *model.Call
	ref  history.Ref
}

type missedCall struct {
	f        finding
	from, to time.Duration
}

func (r *asks) observe(_ *model.Model, s *model.Step) {
	if c := s.Call; c != nil && c.Method == model.NodeGetInfo && c.Side == history.ClientSide && s.Phase == history.Invoke {
		r.get(c.ID).calls = append(r.get(c.ID).calls, c)
	}
}

func (r *asks) get(id model.ID) *clock {
	x := r.of[id]
	if x == nil {
		x = &clock{}
		r.of[id] = x
	}
	return x
}

func (r *asks) settle(m *model.Model, to time.Duration) time.Duration {
	for _, id := range m.RegisteredIDs() {
		x := r.get(id)
		for _, s := range x.starts(m, id, to) {
			if s.call != nil {
				x.said(m, r.t, id, s.call)
			}
			if x.last != nil {
				judgeTick(m, r.t, id, x, &s, to)
			}
			x.last = &s
		}
		if x.last != nil && judgeTick(m, r.t, id, x, nil, to) {
			x.last = nil
		}
	}
	return model.Forever
}

func (r *asks) finish(m *model.Model) []Verdict {
	for id, x := range r.of {
		x.said(m, r.t, id, nil)
	}
	return r.t.verdicts(m, history.Kubelet)
}

// starts takes the moments since those it took last up to the time to, in order: calls of any kind (the ticks go on beneath, so the next one is never
// further away), registrations, changes of the period, and the ends of disturbances.
func (x *clock) starts(m *model.Model, id model.ID, to time.Duration) []clockStart {
	var out []clockStart
	now := func(at time.Duration) bool { return at <= to && (!x.begun || at > x.until) }
	n := 0
	for n < len(x.calls) && x.calls[n].Invoked <= to {
		c := x.calls[n]
		out = append(out, clockStart{at: c.Invoked, what: "the call", call: c, ref: c.Start})
		n++
	}
	x.calls = slices.Delete(x.calls, 0, n)
	for _, p := range m.Registered(id).Points() {
		if p.Value && now(p.At) {
			out = append(out, clockStart{at: p.At, what: "the registration", ref: p.Ref})
		}
	}
	for _, p := range m.Period(id.Driver).Points() {
		if now(p.At) {
			out = append(out, clockStart{at: p.At, what: "the change of the period", ref: p.Ref})
		}
	}
	for _, s := range m.Disturbances(id.Node) {
		if at := model.Plus(s.To, settle); s.To < model.Forever && now(at) {
			out = append(out, clockStart{at: at, what: "the recovery"})
		}
	}
	x.begun, x.until = true, to
	slices.SortStableFunc(out, func(a, b clockStart) int { return cmp.Compare(a.at, b.at) })
	return out
}

// judgeTick judges the stretch from the last moment to its deadline, which next may cut short. It says whether there is nothing more to be judged.
func judgeTick(m *model.Model, t tally, id model.ID, x *clock, next *clockStart, to time.Duration) (over bool) {
	s := x.last
	period, ok := m.Period(id.Driver).At(s.at)
	registered, _ := m.Registered(id).At(s.at)
	if !ok || period.Value == nil || !registered.Value || !m.Refreshes(id.Node, s.at) {
		return true
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
		return true
	}
	if deadline > to {
		return false
	}
	if deadline > m.End() || deadline == model.Forever || !undisturbed(m, id, s.at, deadline) || !m.PeriodThroughout(id.Driver, s.at, deadline) {
		return true
	}
	x.missed = append(x.missed, missedCall{from: s.at, to: deadline, f: finding{
		at: deadline, evidence: []history.Ref{s.ref, period.Ref},
		detail: fmt.Sprintf("want NodeGetInfo within %s + %s after %s at %s, got ", model.Seconds(*period.Value), m.Slack(), s.what, m.Since(s.at)),
	}})
	if next != nil && next.call != nil {
		x.said(m, t, id, next.call)
	}
	return true
}

// said completes what is said of calls that did not come with the next one, nil where there is none.
func (x *clock) said(m *model.Model, t tally, id model.ID, next *model.Call) {
	for _, c := range x.missed {
		if next == nil {
			c.f.detail += "none by the end of the history"
		} else {
			c.f.evidence, c.f.scope = append(c.f.evidence, next.Start), next.Scope
			c.f.detail += "the next at " + m.Since(next.Invoked)
		}
		t.late(m, id.String(), c.from, c.to, c.f, history.PrefixCSI+id.Node, history.PrefixAPI+"csidrivers")
	}
	x.missed = nil
}

// undisturbed says whether the driver stayed registered and nothing kept the kubelet from its work.
func undisturbed(m *model.Model, id model.ID, from, to time.Duration) bool {
	return !m.Disturbed(id.Node, model.Minus(from, settle), to) && !m.SocketHidden(id.Node, from, to) && registeredThroughout(m, id, from, to)
}

func registeredThroughout(m *model.Model, id model.ID, from, to time.Duration) bool {
	return !slices.ContainsFunc(m.Registered(id).Over(from, to), func(p model.Point[bool]) bool { return !p.Value })
}
