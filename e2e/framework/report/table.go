package report

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"

	"headroom/e2e/framework/history"
)

// lineWidth is what the table keeps to, but for rows where there is more room. Only lines of evidence, which are not to be broken, and words longer than
// a line exceed it.
const lineWidth = 100

// Whole is the width of rows that are not cut.
const Whole = -1

// Options are about how a table looks, not about what it says.
type Options struct {
	Colour bool
	// Width is what rows are cut at, in columns; below 100 it is 100, and Whole cuts nothing.
	Width int
	// Dir is the run directory, named at the end; "" leaves the end out.
	Dir string
	// Evidence is the directory of the bundles, named at the end; "" for none.
	Evidence string
}

// Colour reports whether w is a terminal that shows colours and whose user has not set NO_COLOR.
func Colour(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// Width is the width of w in columns where it is a terminal, and 0 where not.
func Width(w io.Writer) int {
	f, ok := w.(*os.File)
	if !ok {
		return 0
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0 // no terminal
	}
	return width
}

// Table prints the report for people: a row for each requirement and invariant, then what went wrong with its evidence, then the counts.
func Table(w io.Writer, r Report, o Options) error {
	t := table{colour: o.Colour, width: max(lineWidth, o.Width)}
	if o.Width == Whole {
		t.width = math.MaxInt
	}
	t.head(r)
	t.rules(r)
	t.rows(r)
	t.signals(r)
	t.details(r)
	t.profiles(r)
	t.end(r, o)
	if _, err := w.Write(t.out.Bytes()); err != nil {
		return fmt.Errorf("print report: %w", err)
	}
	return nil
}

type table struct {
	out    bytes.Buffer
	colour bool
	width  int // of rows
}

func (t *table) line(format string, args ...any) {
	t.out.WriteString(strings.TrimRight(fmt.Sprintf(format, args...), " ") + "\n")
}

// word is a status as people read it; what is no status is shouted.
func (s Status) word() string {
	switch s {
	case Held, Violated, Inconclusive, Skipped:
		return strings.ToLower(string(s))
	case KnownUpstream:
		return "known upstream"
	case Expected:
		return "as expected"
	case NotJudged:
		return "not judged"
	case Status(ResultSuccess), Status(ResultPartial), Status(ResultFailure):
		return string(s)
	}
	return "NO VERDICT"
}

func (t *table) paint(s Status, text string) string {
	code := "31" // red: violated, and what is no status
	switch s {
	case Held:
		code = "32"
	case Inconclusive:
		code = "33"
	case KnownUpstream, Expected:
		code = "36"
	case NotJudged, Skipped:
		code = "2"
	}
	return t.sgr(code, text)
}

func (t *table) sgr(code, text string) string {
	if !t.colour {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (t *table) head(r Report) {
	t.line("headroom run %s   seed %d   provider %s   driver %s",
		oneLine(r.Run), r.Seed, oneLine(cmp.Or(r.Provider, "-")), oneLine(cmp.Or(r.Driver, "-")))
	var versions []string
	for _, kind := range slices.Sorted(maps.Keys(r.Versions)) {
		versions = append(versions, kind+" "+r.Versions[kind])
	}
	if len(versions) > 0 {
		t.paragraph("", strings.Join(versions, ", "))
	}
	started := "at an unknown time"
	if !r.Started.IsZero() {
		started = r.Started.Format("2006-01-02 15:04:05 MST")
	}
	t.line("started %s, took %s", started, seconds(r.Elapsed))
	t.line("")
}

// cells is one row before it is laid out.
type cells struct {
	name, boundary, subjects, detail string
	status                           Status
}

func (t *table) rows(r Report) {
	var groups [3][]cells // requirements, invariants, known upstream
	for _, q := range r.Requirements {
		groups[0] = append(groups[0], cells{q.ID, string(q.Boundary), "-", q.detail(), q.Status})
	}
	for _, i := range r.Invariants {
		g := 1
		if i.Status == KnownUpstream {
			g = 2
		}
		groups[g] = append(groups[g], cells{i.Name, string(i.Boundary), subjects(i), i.Detail, i.Status})
	}
	const title = "REQUIREMENT OR INVARIANT"
	name, boundary, verdict, count := utf8.RuneCountInString(title), len("BOUNDARY"), len("VERDICT"), len("SUBJECTS")
	for _, c := range slices.Concat(groups[:]...) {
		name = max(name, min(38, utf8.RuneCountInString(c.name)))
		boundary = max(boundary, min(len(history.ControllerManager), utf8.RuneCountInString(c.boundary)))
		verdict = max(verdict, len(c.status.word()))
	}
	rest := max(0, t.width-name-boundary-verdict-count-4*2)
	row := func(c cells) {
		word := c.status.word()
		t.line("%s  %s  %s%s  %*s  %s", pad(clip(oneLine(c.name), name), name), pad(clip(oneLine(cmp.Or(c.boundary, "-")), boundary), boundary),
			t.paint(c.status, word), strings.Repeat(" ", verdict-len(word)), count, c.subjects, clip(oneLine(c.detail), rest))
	}
	t.line("%s  %s  %s  %s  %s", pad(title, name), pad("BOUNDARY", boundary), pad("VERDICT", verdict), pad("SUBJECTS", count), "DETAIL")
	for i, group := range groups {
		if i == 2 && len(group) > 0 {
			t.line("")
			t.line("known upstream: released Kubernetes does not meet these; they fail no run")
		}
		for _, c := range group {
			row(c)
		}
	}
	t.line("")
}

// detail is the time a requirement took, and its message where there is one.
func (q Requirement) detail() string {
	if q.Message == "" || q.Status == Skipped {
		return cmp.Or(q.Message, seconds(q.Elapsed))
	}
	return seconds(q.Elapsed) + ", " + q.Message
}

// subjects counts what was judged; where the row is not held throughout, as "worst/all".
func subjects(i InvariantResult) string {
	if len(i.Verdicts) == 0 {
		return "-"
	}
	n := 0
	for _, v := range i.Verdicts {
		if v.Status == i.Status {
			n++
		}
	}
	if n == len(i.Verdicts) {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%d/%d", n, len(i.Verdicts))
}

// end prints the counts, and how to get here again.
func (t *table) end(r Report, o Options) {
	s := r.Summarise()
	line := fmt.Sprintf("%s, %s: %d held, %d violated, %d inconclusive", Plural(s.Requirements, "requirement"), Plural(s.Invariants, "invariant"),
		s.Held, s.Violated, s.Inconclusive)
	for _, extra := range []struct {
		n    int
		what string
	}{
		{s.Expected, "as expected"}, {s.KnownUpstream, "known upstream"}, {s.NotJudged, "not judged"}, {s.Skipped, "skipped"}, {s.Environment, "environment"},
	} {
		switch {
		case extra.n == 0:
		case extra.what == "environment":
			line += ", " + Plural(extra.n, "environment problem")
		default:
			line += fmt.Sprintf(", %d %s", extra.n, extra.what)
		}
	}
	status := map[int]Status{ExitHeld: Held, ExitViolated: Violated, ExitEnvironment: Inconclusive, ExitInconclusive: Inconclusive}[s.ExitCode]
	t.line("%s", t.paint(status, line))
	if o.Dir != "" {
		t.line("run directory: %s", o.Dir)
		if o.Evidence != "" {
			t.line("evidence of each violation: %s", o.Evidence)
		}
		t.line("judge it again: headroom check %s", quote(o.Dir))
	}
}

// Plural counts something, such as "1 query" and "2 queries".
func Plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	if stem, ok := strings.CutSuffix(what, "y"); ok {
		return fmt.Sprintf("%d %sies", n, stem)
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// quote makes one shell word of s.
func quote(s string) string {
	plain := func(r rune) bool {
		return r == '/' || r == '.' || r == '-' || r == '_' || r == '+' || r == ':' || r == '@' ||
			r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
