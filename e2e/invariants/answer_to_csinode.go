package invariants

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"headroom/e2e/framework/history"
	"headroom/e2e/invariants/model"
)

var answerToCSINode = Invariant{
	Name: "answer-to-csinode",
	Claim: "CSINode equals the NodeGetInfo answer of a registered driver within 1 s (p99.9, which needs at least " +
		"1000 samples), absent for an answer of 0 or less",
	Source:   "KEP-4876: 99.9 % of CSINode updates within 1 s of their trigger",
	Boundary: history.Kubelet,
	Needs:    []string{history.PrefixCSI, history.PrefixAPI + "csinodes"},
	New:      func(p Params) Checker { return newChecker(p, &mirrored{t: tally{}, of: map[model.ID]*mirror{}}) },
}

const (
	// mirrorBound is the objective for one write.
	mirrorBound = time.Second
	// enoughSamples is how many writes a statement about 99.9 % of them takes.
	enoughSamples = 1000
)

type mirrored struct {
	t  tally
	of map[model.ID]*mirror
}

// mirror is what one driver on one node answered of late.
type mirror struct {
	writeTimes
	// calls are the OK answers, by completion; the first of them were judged and only explain writes.
	calls  []*model.Call
	judged int
	// registering are registrations that were under way.
	registering []model.Span
}

// writeTimes are the measured writes of one driver on one node.
type writeTimes struct {
	n, over int
	worst   time.Duration
	first   finding // of those over the objective
}

func (r *mirrored) get(id model.ID) *mirror {
	x := r.of[id]
	if x == nil {
		x = &mirror{}
		r.of[id] = x
	}
	return x
}

func (r *mirrored) observe(_ *model.Model, s *model.Step) {
	if o := s.Outcome; o != nil {
		x := r.get(o.ID)
		x.registering = append(x.registering, model.Span{From: o.From, To: o.At})
	}
	if c := s.Call; c != nil && c.Method == model.NodeGetInfo && c.Side == history.ClientSide && s.Phase != history.Invoke && c.OK() {
		x := r.get(c.ID)
		x.calls = append(x.calls, c)
	}
}

func (r *mirrored) settle(m *model.Model, to time.Duration) time.Duration {
	needs := model.Forever
	for id, x := range r.of {
		needs = min(needs, x.settle(m, r.t, id, to))
	}
	return needs
}

// settle judges the answers whose writes must have been seen, in order. One in the course of a registration waits for its outcome.
func (x *mirror) settle(m *model.Model, t tally, id model.ID, to time.Duration) (needs time.Duration) {
	asked, attempting := m.Attempting(id, m.End())
	for ; x.judged < len(x.calls); x.judged++ {
		c := x.calls[x.judged]
		if model.Plus(c.Done, model.Plus(mirrorBound, m.Slack())) > to || to < model.Forever && attempting && asked <= c.Done {
			break
		}
		registering := slices.ContainsFunc(x.registering, func(s model.Span) bool { return s.From <= c.Done && c.Done <= s.To })
		if p, _ := m.Registered(id).At(c.Done); p.Value && m.Mutable(c.Done) && !registering {
			answer{m: m, t: t, w: &x.writeTimes, calls: x.calls, i: x.judged, call: c}.judge()
		}
	}
	needs = model.Forever
	since := to
	if x.judged < len(x.calls) {
		needs = x.calls[x.judged].Done
		since = min(since, needs)
	}
	old := 0
	for old < x.judged && x.calls[old].Done < model.Minus(since, model.Plus(mirrorBound, m.Slack())) {
		old++
	}
	x.calls, x.judged = slices.Delete(x.calls, 0, old), x.judged-old
	x.registering = slices.DeleteFunc(x.registering, func(s model.Span) bool { return s.To < since })
	return needs
}

func (r *mirrored) finish(m *model.Model) []Verdict {
	for id, x := range r.of {
		x.conclude(r.t, id.String())
	}
	return r.t.verdicts(m, history.Kubelet)
}

// conclude judges the writes that took longer than the objective and no longer than slack allows.
func (w *writeTimes) conclude(t tally, name string) {
	figures := fmt.Sprintf("%d samples, worst %s, %d over %s", w.n, w.worst.Round(time.Millisecond), w.over, mirrorBound)
	t.measured(name, w.n, w.worst)
	if w.over == 0 {
		return
	}
	f := w.first
	switch {
	case w.n < enoughSamples:
		t.doubt(name, f)
	case w.over > w.n/enoughSamples:
		f.detail = fmt.Sprintf("want 99.9 %% of writes within %s, got %s; first: %s", mirrorBound, figures, f.detail)
		t.violated(name, f)
	}
}

// answer is one answer under judgement.
type answer struct {
	m     *model.Model
	t     tally
	w     *writeTimes
	calls []*model.Call // OK answers of this driver on this node, by completion
	i     int
	call  *model.Call
}

// judge follows one answer to the CSINode.
func (a answer) judge() {
	c, m, name := a.call, a.m, a.call.ID.String()
	hard := model.Plus(c.Done, model.Plus(mirrorBound, m.Slack()))
	superseded := model.Forever
	if a.i+1 < len(a.calls) {
		superseded = a.calls[a.i+1].Done
	}
	if superseded <= model.Plus(c.Done, mirrorBound) {
		return
	}
	s := a.follow(hard)
	if s.elsewhere || s.seen == nil && (hard > m.End() && s.wrong == nil || !registeredThroughout(m, c.ID, c.Done, hard) || m.Disturbed(c.Node, c.Done, hard)) {
		return
	}
	f := finding{at: c.Done, scope: c.Scope, evidence: []history.Ref{c.End}}
	want := fmt.Sprintf("want count %s within %s of the answer at %s", count(model.CountOf(c.Max)), mirrorBound, m.Since(c.Done))
	switch {
	case s.equal:
		a.t.held(name, c.Scope)
	case s.wrong != nil && (s.seen == nil || s.wrong.At < s.seen.At):
		e, _ := s.wrong.Entry(c.Driver)
		f.evidence = append(f.evidence, s.wrong.Ref)
		f.detail = fmt.Sprintf("%s, got %s written at %s", want, count(e.Count), m.Since(s.wrong.At))
		a.t.missing(name, f, history.PrefixCSI+c.Node) // a lost answer may have had that value
	case s.seen != nil:
		a.measure(s.seen, want, f)
	case superseded <= hard:
		f.detail = fmt.Sprintf("%s, got none before the next answer at %s", want, m.Since(superseded))
		a.over(superseded-c.Done, f)
	default:
		f.detail = fmt.Sprintf("%s, got no such write by %s", want, m.Since(hard))
		if s.ambiguous != nil {
			f.evidence = append(f.evidence, s.ambiguous.Ref)
			f.detail += "; a write of another answer's value came between"
		}
		a.t.late(m, name, c.Done, hard, f, history.PrefixAPI+"csinodes", history.PrefixCSI+c.Node)
	}
}

// measure takes the time of a write that came.
func (a answer) measure(r *model.Revision, want string, f finding) {
	took := r.At - a.call.Done
	if took <= mirrorBound {
		a.w.n++
		a.w.worst = max(a.w.worst, took)
		a.t.held(a.call.ID.String(), a.call.Scope)
		return
	}
	if a.m.Disturbed(a.call.Node, a.call.Done, r.At) {
		return
	}
	f.evidence = append(f.evidence, r.Ref)
	f.detail = fmt.Sprintf("%s, got it after %s", want, took.Round(time.Millisecond))
	if a.m.Slow(a.call.Done, r.At) {
		f.detail += "; but the harness itself was slow meanwhile"
		a.t.doubt(a.call.ID.String(), f)
		return
	}
	a.over(took, f)
}

// over counts a write beyond the objective but within slack of it: one is not yet a percentile.
func (a answer) over(took time.Duration, f finding) {
	a.w.n++
	a.w.over++
	a.w.worst = max(a.w.worst, took)
	if a.w.over == 1 {
		a.w.first = f
	}
	a.t.held(a.call.ID.String(), a.call.Scope)
}

// sight is what became of one answer.
type sight struct {
	// equal says that no write was needed.
	equal bool
	// seen is the first state that shows the answer.
	seen *model.Revision
	// wrong is the first state that shows a value of no answer; ambiguous one that shows another answer's.
	wrong, ambiguous *model.Revision
	// elsewhere says that somebody else wrote, the entry went, or the API server cannot take the answer: nothing to judge.
	elsewhere bool
}

// follow reads the states after the answer up to hard.
func (a answer) follow(hard time.Duration) sight {
	c, want := a.call, model.CountOf(a.call.Max)
	revs := a.m.Revisions(c.Node)
	i := a.m.After(c.Node, c.Done)
	if i == 0 {
		return sight{elsewhere: true} // the CSINode is not known yet
	}
	before, had := revs[i-1].Entry(c.Driver)
	if had && before.NodeID != "" && c.NodeID != "" && before.NodeID != c.NodeID {
		return sight{elsewhere: true} // only the count may change: the API server refuses the write
	}
	if had && model.SameCount(before.Count, want) {
		return sight{equal: true}
	}
	var s sight
	for _, r := range revs[i:] {
		if r.At > hard {
			break
		}
		entry, has := r.Entry(c.Driver)
		changed := has != had || !model.SameCount(entry.Count, before.Count)
		before, had = entry, has
		switch {
		case !changed: // a write for another driver
		case !has || !byNode(r, c.Node):
			s.elsewhere = true
			return s
		case model.SameCount(entry.Count, want):
			s.seen = r
			return s
		case a.anothers(entry.Count, r.At):
			s.ambiguous = cmp.Or(s.ambiguous, r)
		default:
			s.wrong = cmp.Or(s.wrong, r)
		}
	}
	return s
}

// byNode says whether the node may have written r; without an audit log nobody else is known.
func byNode(r *model.Revision, node string) bool {
	return len(r.Claims) == 0 || slices.ContainsFunc(r.Claims, func(c model.Claim) bool { return c.User == "system:node:"+node })
}

// anothers says whether a value written at t may come from another answer: a later one, or an earlier one whose write was still under way.
func (a answer) anothers(value *int32, t time.Duration) bool {
	since := model.Minus(a.call.Done, model.Plus(mirrorBound, a.m.Slack()))
	same := func(c *model.Call) bool { return model.SameCount(model.CountOf(c.Max), value) }
	for j := a.i - 1; j >= 0 && a.calls[j].Done >= since; j-- {
		if same(a.calls[j]) {
			return true
		}
	}
	for j := a.i + 1; j < len(a.calls) && a.calls[j].Done <= t; j++ {
		if same(a.calls[j]) {
			return true
		}
	}
	return false
}
