package report

import (
	"fmt"
	"io"
	"strings"
	"time"

	"headroom/e2e/framework/history"
)

// Printer prints one line when a spec starts and one when it ends. Lines only ever follow one another, so that they read the same in a terminal
// and in a CI log. It is not safe for concurrent use.
type Printer struct {
	w     io.Writer
	clock clock
	open  map[string]time.Duration // by opOf: when it started
	err   error
}

// Progress prints to w.
func Progress(w io.Writer) *Printer { return &Printer{w: w, open: map[string]time.Duration{}} }

// Observe prints what e tells of a spec; all other events only set the clock, which counts from the first event seen.
func (p *Printer) Observe(e history.Event) {
	if e.Phase != history.Gap && !p.clock.started {
		p.clock = clock{start: e.At, started: true}
	}
	if !isSpec(e.Source) || e.Phase == history.Gap || e.Key == history.KeyOpen || e.Key == history.KeyClose {
		return
	}
	var body history.Spec
	if err := e.Decode(&body); err != nil {
		p.Note(e.At, err.Error())
		return
	}
	switch {
	case e.Phase == history.Invoke:
		p.open[opOf(e)] = e.At
		p.print(e.At, "▸", e.Key)
	case e.Phase == history.Observed && !body.Skipped:
	default:
		p.end(e, body)
	}
}

func (p *Printer) end(e history.Event, body history.Spec) {
	took := ""
	if begin, ok := p.open[opOf(e)]; ok {
		took = " " + seconds(round(e.At-begin))
		delete(p.open, opOf(e))
	}
	status, message := outcome(e.Phase, body)
	switch status {
	case Held:
		p.print(e.At, "✓", e.Key+" held"+took)
	case Skipped:
		p.print(e.At, "-", e.Key+" skipped: "+oneLine(message))
	case Inconclusive:
		p.print(e.At, "?", e.Key+" inconclusive"+took, message)
	default:
		p.print(e.At, "✗", e.Key+" violated"+took, message)
	}
}

// Note prints a line that is about no spec.
func (p *Printer) Note(at time.Duration, text string) { p.print(at, "!", text) }

// Err is the first error of writing.
func (p *Printer) Err() error { return p.err }

func (p *Printer) print(at time.Duration, mark, text string, below ...string) {
	var b strings.Builder
	fmt.Fprintf(&b, "%7s  %s %s\n", seconds(p.clock.since(at)), mark, oneLine(text))
	for _, text := range below {
		for _, line := range wrap(text, lineWidth-11) {
			fmt.Fprintf(&b, "%s%s\n", strings.Repeat(" ", 11), line)
		}
	}
	if _, err := io.WriteString(p.w, b.String()); err != nil && p.err == nil {
		p.err = fmt.Errorf("print progress: %w", err)
	}
}
