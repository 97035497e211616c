package report

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"headroom/e2e/framework/history"
)

const (
	// maxShown bounds the verdicts printed per invariant; report.yaml has all of them.
	maxShown = 5
	// maxEvidenceShown bounds the evidence printed per verdict.
	maxEvidenceShown = 10
	// maxEvidenceLine bounds a line of evidence in runes.
	maxEvidenceLine = 150
)

// paragraph prints wrapped text, each line behind prefix.
func (t *table) paragraph(prefix, text string) {
	for _, line := range wrap(text, lineWidth-len(prefix)) {
		t.line("%s%s", prefix, line)
	}
}

// field prints a name and wrapped text beside it.
func (t *table) field(name, text string) {
	const indent = 11
	for i, line := range wrap(text, lineWidth-indent) {
		if i > 0 {
			name = ""
		}
		t.line("  %s%s", pad(name, indent-2), line)
	}
}

// signals prints the figures of the run; report.yaml has them by node and writer.
func (t *table) signals(r Report) {
	if r.Signals.HistorySeconds == 0 {
		return
	}
	const indent = 17
	for _, l := range r.Signals.Lines() {
		name := l.Name
		for _, line := range wrap(l.Text, lineWidth-indent) {
			t.line("%s%s", pad(name, indent), line)
			name = ""
		}
	}
	t.line("")
}

// details prints what is wrong or open, the worst first.
func (t *table) details(r Report) {
	for _, s := range []Status{Violated, Inconclusive, Expected, KnownUpstream} {
		for _, q := range r.Requirements {
			if shownUnder(q.Status) == s {
				t.requirement(q)
			}
		}
		for _, i := range r.Invariants {
			t.invariant(i, s)
		}
	}
	for _, p := range r.Environment {
		t.line("%s  %s", t.paint(Violated, "environment error"), oneLine(p.Op))
		t.field("error", p.Error)
		if p.Remedy != "" {
			t.field("remedy", p.Remedy)
		}
		t.line("")
	}
	for _, d := range r.Doubts {
		t.line("%s  the run as a whole", t.paint(Inconclusive, Inconclusive.word()))
		t.field("because", d)
		t.line("")
	}
	t.reasons(r)
	t.harness(r.Harness)
}

// shownUnder is the heading that a status comes under: what is no status fails, so it comes under violated.
func shownUnder(s Status) Status {
	switch s {
	case Held, Inconclusive, Expected, KnownUpstream, NotJudged, Skipped:
		return s
	}
	return Violated
}

func (t *table) requirement(q Requirement) {
	t.line("%s  %s  (boundary: %s)", t.paint(q.Status, q.Status.word()), t.sgr("1", oneLine(q.ID)), cmp.Or(q.Boundary, "not stated"))
	if q.Title != "" {
		t.field("title", q.Title)
	}
	t.field("result", q.Message)
	t.field("when", fmt.Sprintf("%s to %s", offset(q.Started), offset(q.Started+q.Elapsed)))
	t.events("last events of its scope:", q.LastEvents, 0)
	t.line("")
}

// invariant prints the verdicts of i that have status s.
func (t *table) invariant(i InvariantResult, s Status) {
	var verdicts []Verdict
	for _, v := range i.Verdicts {
		if shownUnder(v.Status) == s {
			verdicts = append(verdicts, v)
		}
	}
	broken := shownUnder(i.Status) == s && len(i.Verdicts) == 0 // a row without a status
	if len(verdicts) == 0 && !broken {
		return
	}
	boundary := i.Boundary
	if len(verdicts) > 0 {
		boundary = cmp.Or(verdicts[0].Boundary, boundary)
	}
	t.line("%s  %s  (boundary: %s)", t.paint(s, s.word()), t.sgr("1", oneLine(i.Name)), cmp.Or(boundary, "not stated"))
	t.field("claim", i.Claim)
	if i.Source != "" {
		t.field("source", i.Source)
	}
	for _, k := range i.Known {
		if s == KnownUpstream {
			t.field("known", strings.Join(strings.Fields(k.Versions+" "+k.Source+" "+k.Scenario), " "))
		}
	}
	for n, v := range verdicts {
		if n == maxShown {
			t.line("  and %s: see %s", Plural(len(verdicts)-maxShown, "more verdict"), FileReport)
			break
		}
		t.verdict(v, boundary)
	}
	t.line("")
}

func (t *table) verdict(v Verdict, shown history.Boundary) {
	subject := cmp.Or(v.Subject, "-")
	if spec := cmp.Or(v.Spec, v.Scope); spec != "" {
		subject += "   spec " + spec
	}
	if v.Boundary != shown {
		subject += fmt.Sprintf("   boundary %s", v.Boundary)
	}
	t.field("subject", subject)
	t.field("result", cmp.Or(v.Detail, "no detail given"))
	t.events("evidence:", v.Evidence, v.More)
}

func (t *table) events(title string, events []Event, more int) {
	if len(events) == 0 {
		return
	}
	t.line("  %s", title)
	for n, e := range events {
		if n == maxEvidenceShown {
			more += len(events) - n
			break
		}
		t.line("    %s", clip(oneEvent(e), maxEvidenceLine-4))
	}
	if more > 0 {
		t.line("    and %d more", more)
	}
}

func oneEvent(e Event) string { return strings.ReplaceAll(printable(e.line()), "\n", " ") }

// reasons prints why rows were not judged or skipped, one paragraph for each reason.
func (t *table) reasons(r Report) {
	type group struct {
		status Status
		reason string
	}
	var order []group
	names := map[group][]string{}
	add := func(s Status, reason, name string) {
		if s != NotJudged && s != Skipped {
			return
		}
		g := group{s, reason}
		if names[g] == nil {
			order = append(order, g)
		}
		names[g] = append(names[g], name)
	}
	for _, q := range r.Requirements {
		add(q.Status, q.Message, q.ID)
	}
	for _, i := range r.Invariants {
		add(i.Status, i.Detail, i.Name)
	}
	for _, g := range order {
		t.line("%s  %s", t.paint(g.status, g.status.word()), oneLine(g.reason))
		t.paragraph("  ", strings.Join(names[g], ", "))
		t.line("")
	}
}

// harness prints what may have blurred the run, in two lines at most: report.yaml has every interval.
func (t *table) harness(h Harness) {
	if len(h.Gaps) > 0 {
		first := h.Gaps[0]
		t.paragraph("", fmt.Sprintf("history: %s, the first at %s in %s: %s", Plural(len(h.Gaps), "gap"), offset(first.At), first.Source, first.Reason))
	}
	if len(h.Slow) > 0 {
		worst := h.Slow[0]
		for _, s := range h.Slow {
			if s.Worst > worst.Worst {
				worst = s
			}
		}
		t.paragraph("", fmt.Sprintf("harness: slow in %s, the worst %s at %s (%s)", Plural(len(h.Slow), "interval"),
			time.Duration(worst.Worst).Round(time.Millisecond), offset(worst.From), worst.Source))
	}
	if len(h.Gaps)+len(h.Slow) > 0 {
		t.line("")
	}
}
