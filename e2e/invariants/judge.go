package invariants

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"headroom/e2e/framework/history"
	"headroom/e2e/invariants/model"
)

// Report is what Judge says of a history.
type Report struct {
	Header history.Header `json:"header"`
	// Events is how many events were judged.
	Events int `json:"events"`
	// Results are in the order of the invariants.
	Results []Result `json:"results"`
	// Gaps are the places where events may be missing.
	Gaps []model.Gap `json:"gaps,omitempty"`
	// Err says why the history could not be read to its end; nothing is Held then.
	Err error `json:"-"`
}

// Result is one invariant's part of a report. No verdicts means that the history never put the claim to the test.
type Result struct {
	Name      string    `json:"name"`
	Invariant Invariant `json:"-"`
	Verdicts  []Verdict `json:"verdicts,omitempty"`
	// Note says why nothing was judged, where that is known.
	Note string `json:"note,omitempty"`
}

// Status is the result's answer: Violated if any verdict is, else Inconclusive if any is, else Held; "" without verdicts. A status that is none
// of the three is Inconclusive.
func (r Result) Status() Status { return worst(r.Verdicts) }

// Status is the answer of the whole report, as Result.Status; an unreadable history is never Held.
func (r Report) Status() Status {
	var all []Verdict
	for _, res := range r.Results {
		all = append(all, res.Verdicts...)
	}
	if s := worst(all); r.Err == nil || s == Violated {
		return s
	}
	return Inconclusive
}

func worst(verdicts []Verdict) Status {
	var s Status
	for _, v := range verdicts {
		switch {
		case v.Status == Violated:
			return Violated
		case v.Status != Held:
			s = Inconclusive
		case s == "":
			s = Held
		}
	}
	return s
}

// running is one checker at work.
type running struct {
	Invariant
	checker Checker
	// rule is the checker's, where it shares the fold.
	rule rule
	// broken says how the checker panicked.
	broken string
	// unfit says why the claim is not judged of the run's driver.
	unfit string
}

// guard runs f and remembers a panic: a checker that breaks must not take the others with it, nor pass.
func (r *running) guard(where string, f func()) {
	if r.broken != "" {
		return
	}
	defer func() {
		if p := recover(); p != nil {
			r.broken = fmt.Sprintf("checker panicked at %s: %v", where, p)
		}
	}()
	f()
}

// observe shows an event to all checkers.
func observe(all []*running, m *model.Model, step *model.Step, e history.Event) {
	for i := 0; i < len(all); {
		i = observeFrom(all, i, m, step, e)
	}
}

// observeFrom is guard for one event, from the i-th checker on, and says which one is next. It is called for each event, so it guards as many as it can at
// once, and names the event only when it has to.
func observeFrom(all []*running, i int, m *model.Model, step *model.Step, e history.Event) (next int) {
	next = i
	defer func() {
		if p := recover(); p != nil {
			all[next].broken = fmt.Sprintf("checker panicked at %s: %v", e.Ref(), p)
			next++
		}
	}()
	for ; next < len(all); next++ {
		switch r := all[next]; {
		case r.broken != "":
		case r.rule != nil:
			r.rule.observe(m, step)
		default:
			r.checker.Observe(e)
		}
	}
	return next
}

// settle lets the rule judge what is settled at to and returns from when on it needs the history.
func (r *running) settle(m *model.Model, to time.Duration) time.Duration {
	needs := model.Forever
	if r.rule != nil {
		r.guard("settling", func() { needs = r.rule.settle(m, to) })
	}
	return needs
}

// pace is how a history is settled on the way.
type pace struct {
	// every is how much of the history's time goes by from one settling to the next; Forever settles at the end only, and forgets nothing.
	every time.Duration
	// hasty is by how much too early all is held to be settled: a test of what is lost then.
	hasty time.Duration
}

// steady bounds what is kept of a history of any length, at little cost.
var steady = pace{every: 10 * time.Second}

// settleAll judges what is settled and forgets what nobody needs any more.
func settleAll(m *model.Model, all []*running, hasty time.Duration) {
	to := model.Plus(m.Settled(), hasty)
	needs := to
	for _, r := range all {
		needs = min(needs, r.settle(m, to))
	}
	defer func() {
		if p := recover(); p != nil {
			m.Lose("", fmt.Sprintf("the fold panicked when it was to forget: %v", p), history.Ref{})
		}
	}()
	m.Forget(needs)
}

// Judge runs the given invariants, All() when there are none, over the events of one history in a single pass. A checker that panics is
// Inconclusive with boundary harness. A gap in a source that an invariant needs, or an error while reading, turns Held into Inconclusive; what is
// proven Violated stays. Judge does not panic, whatever the events. What it keeps does not grow with the number of events, but with the number of nodes,
// drivers, living objects, and faults; and with the longest period of a CSIDriver.
func Judge(events iter.Seq2[history.Event, error], h history.Header, invs ...Invariant) Report {
	return judge(events, h, steady, invs...)
}

func judge(events iter.Seq2[history.Event, error], h history.Header, p pace, invs ...Invariant) Report {
	if len(invs) == 0 {
		invs = All()
	}
	shared := model.New(h)
	var all []*running
	for _, inv := range invs {
		r := &running{Invariant: inv}
		if inv.Attaches && !h.Params.Driver.Changeable() {
			r.unfit = fmt.Sprintf("the driver attaches by itself (quota %s), and the quota backend sees nothing of it", h.Params.Driver.Limit)
		}
		r.guard("New", func() { r.checker = inv.New(h) })
		if c, ok := r.checker.(*checker); ok {
			c.model, r.rule = shared, c.rule
		}
		all = append(all, r)
	}
	rep := Report{Header: h}
	next := p.every
	var step model.Step // one for all events: there are many, and the rules keep none
	for d := range ahead(events, model.Decode) {
		if d.err != nil {
			rep.Err = d.err
			shared.Lose("", "the history could not be read to its end: "+d.err.Error(), history.Ref{})
			break
		}
		rep.Events++
		step = fold(shared, d)
		observe(all, shared, &step, d.Event)
		if p.every < model.Forever && shared.End() >= next {
			settleAll(shared, all, p.hasty)
			next = model.Plus(shared.End(), p.every)
		}
	}
	for _, r := range all {
		rep.Results = append(rep.Results, r.result(shared))
	}
	rep.Gaps = shared.AllGaps()
	return rep
}

// fold is Model.Fold; an event that it panics on is as good as lost.
func fold(m *model.Model, d decoded) (s model.Step) {
	defer func() {
		if p := recover(); p != nil {
			m.Lose(d.Source, fmt.Sprintf("the fold panicked: %v", p), d.Ref())
			s = model.Step{Event: d.Event}
		}
	}()
	return m.Fold(d.Event, d.body, d.bodyErr)
}

// result finishes the checker and lowers what its sources cannot support.
func (r *running) result(m *model.Model) Result {
	res := Result{Name: r.Name, Invariant: r.Invariant}
	if r.unfit != "" {
		res.Note = "not judged: " + r.unfit
		return res
	}
	r.guard("the end", func() { res.Verdicts = r.checker.Finish() })
	if r.broken != "" {
		res.Verdicts = []Verdict{{Status: Inconclusive, Boundary: history.Harness, Subject: r.Name, Detail: r.broken}}
		return res
	}
	why, ref, lost := r.incomplete(m)
	if why == "" {
		return res
	}
	if len(res.Verdicts) == 0 {
		res.Note = "not judged: " + why
		if lost && m.Began() {
			// What was lost may have held what the claim is about.
			res.Verdicts = []Verdict{{Status: Inconclusive, Boundary: history.Harness, Subject: r.Name, Evidence: cite(ref), Detail: why}}
		}
		return res
	}
	for i := range res.Verdicts {
		if v := &res.Verdicts[i]; v.Status == Held {
			v.Status, v.Evidence = Inconclusive, append(v.Evidence, cite(ref)...)
			v.Detail = strings.TrimPrefix(v.Detail+"; held as far as recorded, but "+why, "; ")
		}
	}
	return res
}

// incomplete says what the invariant's sources lack. It is lost where the history shows a gap rather than the run having declared it missing.
func (r *running) incomplete(m *model.Model) (why string, ref history.Ref, lost bool) {
	gaps := m.Gaps(r.Needs...)
	if len(gaps) == 0 {
		return "", history.Ref{}, false
	}
	i := max(0, slices.IndexFunc(gaps, func(g model.Gap) bool { return !g.Declared }))
	if g := gaps[i]; g.Declared {
		return fmt.Sprintf("%q is missing: %s", g.Source, g.Reason), g.Ref, false
	}
	return fmt.Sprintf("%q may have lost events: %s", gaps[i].Source, gaps[i].Reason), gaps[i].Ref, true
}

func cite(r history.Ref) []history.Ref {
	if r == (history.Ref{}) {
		return nil
	}
	return []history.Ref{r}
}
