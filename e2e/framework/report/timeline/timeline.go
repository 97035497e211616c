// Package timeline draws a judged run as one HTML page: per node and driver what the backend allows, what the driver answered, what the CSINode says and
// what is attached, over time, with the verdicts beside it and the events that prove them.
//
// Contract: a page is made from a history and its report, in one pass and in bounded memory, and is one file of bounded size that loads nothing. What
// was too much is left out, and the page says so. All text in it is data: names from the history are never markup or script.
//
// What it does not do: judge, or add anything that the history and the report do not say.
package timeline

import (
	"cmp"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"headroom/e2e/framework/history"
	"headroom/e2e/framework/report"
)

// Page is the data of a page. Times are in milliseconds since the history's first event.
type Page struct {
	Run      string    `json:"run"`
	Facts    []string  `json:"facts"`
	Summary  string    `json:"summary"`
	Duration int64     `json:"duration"`
	Rows     []Row     `json:"rows"`
	Shades   []Shade   `json:"shades"`
	Specs    []Spec    `json:"specs"`
	Verdicts []Verdict `json:"verdicts"`
	Signals  []Fact    `json:"signals"`
	// LeftOut says what was too much for a page.
	LeftOut []string `json:"leftOut"`
}

// Fact is a name and a text.
type Fact struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// Row is one driver on one node.
type Row struct {
	Node   string `json:"node"`
	Driver string `json:"driver"`
	// Scope is the bench that the node belongs to.
	Scope    string `json:"scope"`
	Usable   []Step `json:"usable"`
	Answer   []Step `json:"answer"`
	Count    []Step `json:"count"`
	Attached []Step `json:"attached"`
	Marks    []Mark `json:"marks"`
}

// Step is a value from At on.
type Step struct {
	At    int64
	Value int64
}

// Values of a Step that are no numbers.
const (
	// Unlimited is what Kubernetes takes an absent count for.
	Unlimited = -1
	// Nothing ends a line: the node, or the driver's entry, is gone.
	Nothing = -2
)

// MarshalJSON writes [at, value].
func (s Step) MarshalJSON() ([]byte, error) { return json.Marshal([2]int64{s.At, s.Value}) }

// Mark is something that happened to a row at one time.
type Mark struct {
	At   int64  `json:"at"`
	Kind string `json:"kind"`
	Text string `json:"text"`
}

// Kinds of marks.
const (
	MarkWrite     = "write"     // a write of the CSINode through the API
	MarkBind      = "bind"      // a pod was bound to the node
	MarkRejection = "rejection" // the kubelet rejected a pod
	MarkAttach    = "attach"    // an attach failed
	MarkAnswer    = "answer"    // NodeGetInfo failed
	MarkComponent = "component" // a component of the node changed its state
)

// Shade is a stretch of time in which something was done to the nodes, or the harness was slow.
type Shade struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
	// Kind is "fault" or "slow".
	Kind string `json:"kind"`
	Text string `json:"text"`
	// Nodes that it acts on; empty means all.
	Nodes []string `json:"nodes"`
}

// Spec is a requirement's stretch of time.
type Spec struct {
	ID     string `json:"id"`
	Scope  string `json:"scope"`
	Status string `json:"status"`
	From   int64  `json:"from"`
	To     int64  `json:"to"`
}

// Verdict is one row of the list: a requirement, a verdict that is not held, or all held ones of an invariant.
type Verdict struct {
	Name     string  `json:"name"`
	Status   string  `json:"status"`
	Boundary string  `json:"boundary"`
	Subject  string  `json:"subject"`
	Scope    string  `json:"scope"`
	Claim    string  `json:"claim"`
	Detail   string  `json:"detail"`
	At       int64   `json:"at"` // of the last piece of evidence, which shows what came; -1 where there is none
	Evidence []Event `json:"evidence"`
}

// Event is a piece of evidence.
type Event struct {
	At   int64  `json:"at"` // -1 where the history has no such event
	Ref  string `json:"ref"`
	Node string `json:"node"`
	Text string `json:"text"`
}

// Build makes the page of a run from its report and one pass over its events. An error of the history ends the pass; the report tells of it.
func Build(h history.Header, events iter.Seq2[history.Event, error], r report.Report) Page {
	f := newFold(h)
	for e, err := range events {
		if err != nil {
			break
		}
		f.observe(e)
	}
	p := Page{
		Run: r.Run, Facts: facts(r), Summary: summary(r), Duration: max(1, f.ms(f.last)), Verdicts: []Verdict{}, Specs: []Spec{}, LeftOut: []string{},
		Signals: []Fact{},
	}
	for _, l := range r.Signals.Lines() {
		p.Signals = append(p.Signals, Fact(l))
	}
	p.verdicts(r)
	p.Rows, p.Shades = f.rows(&p), f.shades(r)
	return p
}

func facts(r report.Report) []string {
	out := []string{"driver " + cmp.Or(r.Driver, "-"), fmt.Sprintf("seed %d", r.Seed), "provider " + cmp.Or(r.Provider, "-")}
	if !r.Started.IsZero() {
		out = append(out, "started "+r.Started.Format("2006-01-02 15:04:05 MST"))
	}
	for _, kind := range slices.Sorted(maps.Keys(r.Versions)) {
		out = append(out, kind+" "+r.Versions[kind])
	}
	return out
}

func summary(r report.Report) string {
	s := r.Summarise()
	text := fmt.Sprintf("requirements %d, invariants %d: %d held, %d violated, %d inconclusive; exit code %d",
		s.Requirements, s.Invariants, s.Held, s.Violated, s.Inconclusive, s.ExitCode)
	return strings.Join(append([]string{text}, r.Doubts...), "; ")
}

// millis turns a time of a report into milliseconds.
func millis(d report.Duration) int64 { return time.Duration(d).Milliseconds() }

// verdicts lists what the report says, the worst first.
func (p *Page) verdicts(r report.Report) {
	for _, q := range r.Requirements {
		p.Specs = append(p.Specs, Spec{ID: q.ID, Scope: q.Scope, Status: string(q.Status), From: millis(q.Started), To: millis(q.Started + q.Elapsed)})
		v := Verdict{Name: q.ID, Status: string(q.Status), Boundary: string(q.Boundary), Scope: q.Scope, Claim: q.Title, Detail: q.Message, At: millis(q.Started)}
		v.Evidence = eventsOf(q.LastEvents)
		p.Verdicts = append(p.Verdicts, v)
	}
	for _, i := range r.Invariants {
		row := Verdict{Name: i.Name, Boundary: string(i.Boundary), Claim: i.Claim, At: -1, Evidence: []Event{}}
		held := 0
		for _, v := range i.Verdicts {
			if v.Status == report.Held {
				held++
				continue
			}
			one := row
			one.Status, one.Boundary, one.Subject, one.Scope, one.Detail = string(v.Status), string(v.Boundary), v.Subject, v.Scope, v.Detail
			one.Evidence = eventsOf(v.Evidence)
			for _, e := range one.Evidence {
				one.At = max(one.At, e.At)
			}
			p.Verdicts = append(p.Verdicts, one)
		}
		if held > 0 || len(i.Verdicts) == 0 {
			row.Status, row.Detail = string(report.Held), report.Plural(held, "subject")
			if held == 0 {
				row.Status, row.Detail = string(i.Status), i.Detail
			}
			p.Verdicts = append(p.Verdicts, row)
		}
	}
	slices.SortStableFunc(p.Verdicts, func(a, b Verdict) int { return rank(a.Status) - rank(b.Status) })
	if n := len(p.Verdicts); n > maxVerdicts {
		p.Verdicts = p.Verdicts[:maxVerdicts]
		p.LeftOut = append(p.LeftOut, fmt.Sprintf("%d of %d verdicts: see %s", n-maxVerdicts, n, report.FileReport))
	}
}

// rank puts what fails a run first; what is no status does.
func rank(status string) int {
	return max(0, slices.Index([]report.Status{
		report.Violated, report.Inconclusive, report.Expected, report.KnownUpstream, report.Held, report.NotJudged, report.Skipped,
	}, report.Status(status)))
}

func eventsOf(events []report.Event) []Event {
	out := []Event{}
	for _, e := range events {
		one := Event{At: millis(e.At), Ref: e.Ref, Node: e.Node}
		if e.Missing {
			one.At, one.Text = -1, "is not in this history"
		} else {
			one.Text = strings.Join(strings.Fields(fmt.Sprintf("%s %s %s %s", e.Phase, e.Key, e.Node, e.Body)), " ")
		}
		out = append(out, one)
	}
	return out
}
