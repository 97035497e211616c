package invariants

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"headroom/e2e/framework/history"
	"headroom/e2e/invariants/model"
)

// rule is a checker's logic over the shared fold.
type rule interface {
	// observe sees the model after it folded the step. It must not keep the step.
	observe(*model.Model, *model.Step)
	// settle judges what is settled at to: nothing that happened by then will become known any more. It returns from when on the rule still needs
	// calls, attaches and revisions, Forever where it waits for none. The end of the history settles all.
	settle(m *model.Model, to time.Duration) (needs time.Duration)
	// finish renders the verdicts. All was settled before.
	finish(*model.Model) []Verdict
}

// checker makes a rule a Checker. On its own it folds the history itself; Judge gives all checkers of a run one model to share.
type checker struct {
	rule  rule
	model *model.Model
}

func newChecker(p Params, r rule) Checker { return &checker{rule: r, model: model.New(p)} }

func (c *checker) Observe(e history.Event) {
	s := c.model.Observe(e)
	c.rule.observe(c.model, &s)
}

func (c *checker) Finish() []Verdict {
	c.rule.settle(c.model, model.Forever)
	return c.rule.finish(c.model)
}

// atOnce is the settle of rules that judge what they observe at once.
type atOnce struct{}

func (atOnce) settle(*model.Model, time.Duration) time.Duration { return model.Forever }

// backlog are items that wait for being settled, in the order in which they came.
type backlog[T any] struct{ items []T }

func (b *backlog[T]) push(item T) { b.items = append(b.items, item) }

// due takes out the items that are ready.
func (b *backlog[T]) due(ready func(T) bool) []T {
	var out []T
	b.items = slices.DeleteFunc(b.items, func(item T) bool {
		if !ready(item) {
			return false
		}
		out = append(out, item)
		return true
	})
	return out
}

// oldest is the earliest time of the items that wait, Forever without any.
func (b *backlog[T]) oldest(at func(T) time.Duration) time.Duration {
	first := model.Forever
	for _, item := range b.items {
		first = min(first, at(item))
	}
	return first
}

// doneCalls are calls that were answered, by their ends.
type doneCalls struct{ backlog[*model.Call] }

// observe takes a call that the step ends.
func (d *doneCalls) observe(s *model.Step, method string, side history.Side) {
	if c := s.Call; c != nil && c.Method == method && c.Side == side && s.Phase != history.Invoke {
		d.push(c)
	}
}

// due takes out the calls that ended by to.
func (d *doneCalls) due(to time.Duration) []*model.Call {
	return d.backlog.due(func(c *model.Call) bool { return c.Done <= to })
}

// needs is when the first of those that wait was sent.
func (d *doneCalls) needs() time.Duration {
	return d.oldest(func(c *model.Call) time.Duration { return c.Invoked })
}

// maxEvidence bounds the events cited by one verdict.
const maxEvidence = 8

// finding is one violation or one doubt.
type finding struct {
	at       time.Duration
	detail   string
	evidence []history.Ref
	scope    string
	// defect is the Scenario of the known defect that a violation bears the marks of.
	defect string
}

// earlier says whether f is the one of two findings to show.
func (f finding) earlier(o finding) bool {
	return cmp.Or(cmp.Compare(f.at, o.at), cmp.Compare(f.detail, o.detail)) < 0
}

// scopes are the specs that something belongs to; only whether they are all the same counts.
type scopes struct {
	one   string
	n     int
	mixed bool
}

func (s *scopes) add(scope string) {
	s.mixed = s.mixed || s.n > 0 && scope != s.one
	s.one, s.n = scope, s.n+1
}

func (s *scopes) join(o scopes) {
	s.mixed = s.mixed || o.mixed || s.n > 0 && o.n > 0 && s.one != o.one
	if s.n == 0 {
		s.one = o.one
	}
	s.n += o.n
}

// only is the scope that all share, "" when they do not.
func (s *scopes) only() string {
	if s.mixed {
		return ""
	}
	return s.one
}

// findings are those of a subject that stand or fall together: how many there are, and the earliest.
type findings struct {
	n      int
	first  finding
	scopes scopes
	// odd says that they do not all bear the marks of the same known defect.
	odd bool
	// absent says that they consist in something not being in sources: where those may have lost events, they are doubts.
	absent  bool
	sources []string
}

func (f *findings) add(x finding) {
	f.odd = f.odd || f.n > 0 && x.defect != f.first.defect
	if f.n == 0 || x.earlier(f.first) {
		f.first = x
	}
	f.scopes.add(x.scope)
	f.n++
}

func (f *findings) join(o findings) {
	if o.n == 0 {
		return
	}
	f.odd = f.odd || o.odd || f.n > 0 && o.first.defect != f.first.defect
	if f.n == 0 || o.first.earlier(f.first) {
		f.first = o.first
	}
	f.scopes.join(o.scopes)
	f.n += o.n
}

// subject collects what was found about one subject.
type subject struct {
	held       int
	scopes     scopes
	violations []findings // by what they depend on
	doubts     findings
	note       string
	notes      int
	samples    int
	worst      time.Duration
}

// tally turns findings into one verdict per subject: a violation outranks a doubt, a doubt outranks what held.
type tally map[string]*subject

func (t tally) of(name string) *subject {
	s := t[name]
	if s == nil {
		s = &subject{}
		t[name] = s
	}
	return s
}

// podsKept bounds the pods that a tally has verdicts for by name: of a long run there are many.
const podsKept = 1000

// pod is the subject of what is found about the pod "namespace/name": itself, or the other pods of its namespace once there are too many.
func (t tally) pod(name string) string {
	if t[name] != nil || len(t) < podsKept {
		return name
	}
	namespace, _, _ := strings.Cut(name, "/")
	return namespace + "/ (other pods)"
}

// held counts one time that the claim was put to the test and held.
func (t tally) held(name, scope string) {
	s := t.of(name)
	s.held++
	s.scopes.add(scope)
}

// measured adds durations that the claim is about.
func (t tally) measured(name string, samples int, worst time.Duration) {
	s := t.of(name)
	s.samples, s.worst = s.samples+samples, max(s.worst, worst)
}

// note adds advice to a subject; the first is shown, the others are counted.
func (t tally) note(name, text string) {
	s := t.of(name)
	s.notes++
	s.note = cmp.Or(s.note, text)
}

func (t tally) violated(name string, f finding) { t.of(name).violation(f, false, nil) }

func (t tally) doubt(name string, f finding) { t.of(name).doubts.add(f) }

// missing records a violation that consists in something not being in the history: it is none where the sources it would be in may have lost it, which
// the end of the history tells.
func (t tally) missing(name string, f finding, sources ...string) {
	t.of(name).violation(f, true, sources)
}

func (s *subject) violation(f finding, absent bool, sources []string) {
	i := slices.IndexFunc(s.violations, func(v findings) bool { return v.absent == absent && slices.Equal(v.sources, sources) })
	if i < 0 {
		i = len(s.violations)
		s.violations = append(s.violations, findings{absent: absent, sources: sources})
	}
	s.violations[i].add(f)
}

// late is missing for a bound over from..to: it is none where the harness was slow meanwhile. Ask once to is settled.
func (t tally) late(m *model.Model, name string, from, to time.Duration, f finding, sources ...string) {
	if m.Slow(from, to) {
		f.detail += "; but the harness itself was slow meanwhile"
		t.doubt(name, f)
		return
	}
	t.missing(name, f, sources...)
}

// join adds what was found about another subject under the name.
func (t tally) join(name string, o *subject) {
	s := t.of(name)
	s.held += o.held
	s.scopes.join(o.scopes)
	for _, v := range o.violations {
		i := slices.IndexFunc(s.violations, func(w findings) bool { return w.absent == v.absent && slices.Equal(w.sources, v.sources) })
		if i < 0 {
			s.violations = append(s.violations, v)
			continue
		}
		s.violations[i].join(v)
	}
	s.doubts.join(o.doubts)
	s.note, s.notes = cmp.Or(s.note, o.note), s.notes+o.notes
	s.samples, s.worst = s.samples+o.samples, max(s.worst, o.worst)
}

// settled returns the violations and the doubts, now that all gaps are known.
func (s *subject) settled(m *model.Model) (violations, doubts findings) {
	doubts = s.doubts
	for _, v := range s.violations {
		gaps := m.Gaps(v.sources...)
		if !v.absent || len(gaps) == 0 {
			violations.join(v)
			continue
		}
		v.first.detail += fmt.Sprintf("; but %q may have lost events: %s", gaps[0].Source, gaps[0].Reason)
		v.first.evidence = append(slices.Clone(v.first.evidence), gaps[0].Ref)
		doubts.join(v)
	}
	return violations, doubts
}

// verdicts renders the tally, sorted by subject. The scope is the one that all its events share.
func (t tally) verdicts(m *model.Model, boundary history.Boundary) []Verdict {
	var out []Verdict
	for name, s := range t {
		v := Verdict{Boundary: boundary, Subject: name, Judged: s.held, Samples: s.samples, Worst: history.Duration(s.worst)}
		violations, doubts := s.settled(m)
		switch {
		case violations.n > 0:
			v.Status = Violated
			v.fill(violations)
			if !violations.odd {
				v.Defect = violations.first.defect
			}
		case doubts.n > 0:
			v.Status = Inconclusive
			v.fill(doubts)
		case s.held > 0:
			v.Status = Held
			v.Scope = s.scopes.only()
		default:
			continue
		}
		if s.note != "" {
			if v.Detail != "" {
				v.Detail += "; "
			}
			v.Detail += s.note
			if s.notes > 1 {
				v.Detail += fmt.Sprintf(" (and %d like it)", s.notes-1)
			}
		}
		out = append(out, v)
	}
	slices.SortFunc(out, func(a, b Verdict) int { return strings.Compare(a.Subject, b.Subject) })
	return out
}

// fill takes the earliest finding as the verdict's and counts the rest.
func (v *Verdict) fill(found findings) {
	v.Detail = found.first.detail
	if found.n > 1 {
		v.Detail += fmt.Sprintf(" (and %d more)", found.n-1)
	}
	for _, r := range found.first.evidence {
		if r != (history.Ref{}) && !slices.Contains(v.Evidence, r) && len(v.Evidence) < maxEvidence {
			v.Evidence = append(v.Evidence, r)
		}
	}
	v.Scope = found.scopes.only()
}

// count renders a count of a CSINode entry.
func count(n *int32) string {
	if n == nil {
		return "absent (unlimited)"
	}
	return fmt.Sprint(*n)
}
