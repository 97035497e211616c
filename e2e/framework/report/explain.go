package report

import (
	"fmt"
	"io"

	"headroom/e2e/framework/history"
)

// Explanation is what there is to say of a row, whatever a run showed.
type Explanation struct {
	// Kind is "invariant" or "requirement".
	Name, Kind    string
	Claim, Source string
	Boundary      history.Boundary
	more          []field
}

type field struct{ name, text string }

// Add appends a paragraph under a name of at most 8 letters.
func (e *Explanation) Add(name, text string) { e.more = append(e.more, field{name, text}) }

// Explain prints an explanation for people.
func Explain(w io.Writer, e Explanation) error {
	var t table
	t.line("%s  (%s)", e.Name, e.Kind)
	t.field("claim", e.Claim)
	t.field("boundary", string(e.Boundary)+": to blame when it is violated")
	t.field("source", e.Source)
	for _, f := range e.more {
		t.field(f.name, f.text)
	}
	if _, err := w.Write(t.out.Bytes()); err != nil {
		return fmt.Errorf("print explanation: %w", err)
	}
	return nil
}
