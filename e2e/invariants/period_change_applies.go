package invariants

import (
	"fmt"
	"time"

	"headroom/e2e/framework/history"
	"headroom/e2e/invariants/model"
)

var periodChangeApplies = Invariant{
	Name: "period-change-applies",
	Claim: "a changed, unset or set-again period takes effect within one new period + slack, and then exactly one ticker runs: " +
		"none of the old one's ticks comes later than slack after the change",
	Source:   "pkg/volume/csi/csi_node_updater.go syncDriverUpdater; KEP-4876",
	Boundary: history.Kubelet,
	Needs:    []string{history.PrefixCSI, history.PrefixAPI + "csidrivers"},
	KnownUpstream: []Known{{
		Versions: ">=1.33 <=1.37", Scenario: "period-delete-missed", Signed: true,
		Source: "pkg/volume/csi/csi_node_updater.go onDriverDelete: a delete that the watch missed comes as DeletedFinalStateUnknown, which it drops",
	}},
	New: func(p Params) Checker {
		return newChecker(p, &periods{t: tally{}, now: map[string]periodState{}, of: map[model.ID]*tickWatch{}})
	},
}

// ticksWatched is how many ticks after a change are looked at.
const ticksWatched = 3

// periodState is a driver's period, and the event that set it.
type periodState struct {
	seconds *int64
	deleted bool
	at      time.Duration
	ref     history.Ref
}

// tickWatch follows one driver on one node after a change of its period.
type tickWatch struct {
	periodState
	// old is the period before, 0 where there was none.
	old time.Duration
	// start is when the ticker began: at the change, or at a registration since.
	start time.Duration
	last  *model.Answer
	ticks int
	due   bool // a tick that proves the change is still expected
}

type periods struct {
	t   tally
	now map[string]periodState
	of  map[model.ID]*tickWatch // those still followed
	swept
	deferred
}

// swept is when all that is followed was last looked at: doing so at every event would cost too much.
type swept struct{ at time.Duration }

// due says whether it is time to look again.
func (s *swept) due(now time.Duration) bool {
	if now < s.at+time.Second {
		return false
	}
	s.at = now
	return true
}

func (r *periods) observe(m *model.Model, s *model.Step) {
	if r.swept.due(s.At) {
		for id, w := range r.of {
			r.look(m, id, w, s.At)
		}
	}
	if b, ok := s.Body.(*history.CSIDriver); ok {
		r.changed(m, s, b)
	}
	if s.Call == nil {
		return
	}
	if w := r.of[s.Call.ID]; w != nil {
		r.look(m, s.Call.ID, w, s.At)
	}
	w := r.of[s.Call.ID]
	switch a := m.AnswerOf(s); {
	case w == nil:
	case s.Call.Method == model.NotifyRegistered && s.Phase == history.Invoke:
		// A registration starts the ticker anew.
		w.start, w.last = s.At, nil
	case a == nil || s.Phase != history.Invoke || a.Registering:
	case m.Exhausted(a.ID, s.At):
		// A failed attach may have asked as well as the ticker: the call shows no tick, nor that one is missing.
		w.due = w.due && s.At <= w.start+m.Slack()
	default:
		r.tick(m, w, a)
	}
}

// changed begins to follow every node where the driver is registered.
func (r *periods) changed(m *model.Model, s *model.Step, b *history.CSIDriver) {
	next := periodState{seconds: b.PeriodSeconds, deleted: b.Type == "DELETED", at: s.At, ref: s.Ref()}
	if next.deleted {
		next.seconds = nil
	}
	was, known := r.now[s.Key]
	r.now[s.Key] = next
	if !known || was.seconds == nil && next.seconds == nil || was.seconds != nil && next.seconds != nil && *was.seconds == *next.seconds {
		return
	}
	for _, id := range m.RegisteredIDs() {
		p, _ := m.Registered(id).Back(0)
		if id.Driver != s.Key || !p.Value || m.Asks(id) == 0 || !m.Refreshes(id.Node, s.At) {
			continue
		}
		w := &tickWatch{periodState: next, start: s.At, due: next.seconds != nil}
		if was.seconds != nil {
			w.old = model.Seconds(*was.seconds)
		}
		r.of[id] = w
	}
}

// tick judges one tick.
func (r *periods) tick(m *model.Model, w *tickWatch, a *model.Answer) {
	name, slack := a.ID.String(), m.Slack()
	f := finding{at: a.Invoked, scope: a.Scope, evidence: []history.Ref{a.Start, w.ref}}
	if w.deleted {
		f.defect = "period-delete-missed"
	}
	if a.Invoked <= w.start+slack {
		return // of the old ticker, or of both
	}
	last := w.last
	w.last = a
	if w.seconds == nil {
		f.detail = fmt.Sprintf("want no tick after the period was unset at %s, got NodeGetInfo at %s", m.Since(w.at), m.Since(a.Invoked))
		r.bad(a, f)
		return
	}
	period := model.Seconds(*w.seconds)
	switch {
	case last == nil && a.Invoked < model.Minus(model.Plus(w.start, period), slack):
		f.detail = fmt.Sprintf("want the first tick %s after the ticker's start at %s, got NodeGetInfo at %s", period, m.Since(w.start), m.Since(a.Invoked))
		r.bad(a, f)
	case last != nil && a.Invoked < model.Minus(model.Plus(last.Invoked, period), slack) && last.Done <= last.Invoked+slack:
		f.evidence = append(f.evidence, last.Start)
		f.detail = fmt.Sprintf("want ticks of one ticker, %s apart, got NodeGetInfo at %s and %s", period, m.Since(last.Invoked), m.Since(a.Invoked))
		r.bad(a, f)
	default:
		w.due = false
		r.t.held(name, a.Scope)
		if w.ticks++; w.ticks == ticksWatched {
			delete(r.of, a.ID)
		}
	}
}

// bad records a tick that should not have been, unless the kubelet was kept from knowing better.
func (r *periods) bad(a *model.Answer, f finding) {
	r.unless(a.Node, model.Minus(a.Invoked, settle), a.Invoked, f, a.ID.String(), history.PrefixAPI+"csidrivers", calls(a.Node))
}

// look ends what has been followed for long enough, and notes ticks that did not come.
func (r *periods) look(m *model.Model, id model.ID, w *tickWatch, now time.Duration) {
	if p, _ := m.Registered(id).Back(0); !p.Value {
		delete(r.of, id)
		return
	}
	if w.seconds == nil {
		// Two old periods without a tick: the old ticker is gone.
		if quiet := model.Plus(w.start, model.Plus(2*min(w.old, model.Forever/4), m.Slack())); now > quiet {
			if w.last == nil {
				r.t.held(id.String(), "")
			}
			delete(r.of, id)
		}
		return
	}
	deadline := model.Plus(model.Plus(w.start, model.Seconds(*w.seconds)), m.Slack())
	if !w.due || now <= deadline {
		return
	}
	delete(r.of, id)
	r.deferred.late(id.Node, model.Minus(w.at, settle), w.at, deadline, finding{
		at: deadline, evidence: []history.Ref{w.ref},
		detail: fmt.Sprintf("want NodeGetInfo within %s + %s after the ticker's start at %s with a new period, got none by %s",
			model.Seconds(*w.seconds), m.Slack(), m.Since(w.start), m.Since(deadline)),
	}, id.String(), calls(id.Node))
}

func (r *periods) settle(m *model.Model, to time.Duration) time.Duration {
	if to == model.Forever {
		for id, w := range r.of {
			r.look(m, id, w, m.End())
		}
	}
	r.conclude(m, r.t, to)
	return model.Forever
}

func (r *periods) finish(m *model.Model) []Verdict { return r.t.verdicts(m, history.Kubelet) }
