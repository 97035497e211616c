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

// rule is a checker's logic over the shared fold. Observe sees the model after it folded the step.
type rule interface {
	observe(*model.Model, model.Step)
	finish(*model.Model) []Verdict
}

// checker makes a rule a Checker. On its own it folds the history itself; Judge gives all checkers of a run one model to share.
type checker struct {
	rule  rule
	model *model.Model
}

func newChecker(p Params, r rule) Checker { return &checker{rule: r, model: model.New(p)} }

func (c *checker) Observe(e history.Event) { c.rule.observe(c.model, c.model.Observe(e)) }

func (c *checker) Finish() []Verdict { return c.rule.finish(c.model) }

// atEnd is the observe of rules that look at nothing before the end.
type atEnd struct{}

func (atEnd) observe(*model.Model, model.Step) {}

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

// subject collects what was found about one subject.
type subject struct {
	held       int
	scopes     map[string]bool
	violations []finding
	doubts     []finding
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
		s = &subject{scopes: map[string]bool{}}
		t[name] = s
	}
	return s
}

// held counts one time that the claim was put to the test and held.
func (t tally) held(name, scope string) {
	s := t.of(name)
	s.held++
	s.scopes[scope] = true
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

func (t tally) violated(name string, f finding) {
	s := t.of(name)
	s.violations = append(s.violations, f)
}

func (t tally) doubt(name string, f finding) {
	s := t.of(name)
	s.doubts = append(s.doubts, f)
}

// missing records a violation that consists in something not being in the history: it is none where the sources it would be in may have lost it.
func (t tally) missing(m *model.Model, name string, f finding, sources ...string) {
	if gaps := m.Gaps(sources...); len(gaps) > 0 {
		f.detail += fmt.Sprintf("; but %q may have lost events: %s", gaps[0].Source, gaps[0].Reason)
		f.evidence = append(slices.Clone(f.evidence), gaps[0].Ref)
		t.doubt(name, f)
		return
	}
	t.violated(name, f)
}

// late is missing for a bound over from..to: it is none where the harness was slow meanwhile.
func (t tally) late(m *model.Model, name string, from, to time.Duration, f finding, sources ...string) {
	if m.Slow(from, to) {
		f.detail += "; but the harness itself was slow meanwhile"
		t.doubt(name, f)
		return
	}
	t.missing(m, name, f, sources...)
}

// verdicts renders the tally, sorted by subject. The scope is the one that all its events share.
func (t tally) verdicts(boundary history.Boundary) []Verdict {
	var out []Verdict
	for name, s := range t {
		v := Verdict{Boundary: boundary, Subject: name, Judged: s.held, Samples: s.samples, Worst: history.Duration(s.worst)}
		switch {
		case len(s.violations) > 0:
			v.Status = Violated
			v.fill(s.violations)
			v.Defect = s.violations[0].defect
			if slices.ContainsFunc(s.violations, func(f finding) bool { return f.defect != v.Defect }) {
				v.Defect = ""
			}
		case len(s.doubts) > 0:
			v.Status = Inconclusive
			v.fill(s.doubts)
		case s.held > 0:
			v.Status = Held
			v.Scope = only(s.scopes)
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
func (v *Verdict) fill(found []finding) {
	first := slices.MinFunc(found, func(a, b finding) int { return cmp.Compare(a.at, b.at) })
	v.Detail = first.detail
	if n := len(found) - 1; n > 0 {
		v.Detail += fmt.Sprintf(" (and %d more)", n)
	}
	for _, r := range first.evidence {
		if r != (history.Ref{}) && !slices.Contains(v.Evidence, r) && len(v.Evidence) < maxEvidence {
			v.Evidence = append(v.Evidence, r)
		}
	}
	scopes := map[string]bool{}
	for _, f := range found {
		scopes[f.scope] = true
	}
	v.Scope = only(scopes)
}

func only(scopes map[string]bool) string {
	if len(scopes) != 1 {
		return ""
	}
	for s := range scopes {
		return s
	}
	return ""
}

// count renders a count of a CSINode entry.
func count(n *int32) string {
	if n == nil {
		return "absent (unlimited)"
	}
	return fmt.Sprint(*n)
}
