package report

import (
	"cmp"
	"strings"
	"time"

	"headroom/e2e/framework/history"
)

// maxLast is how many events of its scope a requirement that did not hold shows.
const maxLast = 5

func isSpec(source string) bool { return strings.HasPrefix(source, history.PrefixSpec) }

// specs turns spec events into requirements, in the order in which they started. A spec that runs twice has two rows: a second try that holds
// does not take back what the first one showed.
type specs struct {
	rows []*spec
	open map[string]*spec // by opOf
	// last holds the last events of each scope. Which spec a scope belongs to is known at the spec's end only.
	last map[string][]history.Event
}

type spec struct {
	Requirement
	begin time.Duration
	ended bool
}

func newSpecs() *specs { return &specs{open: map[string]*spec{}, last: map[string][]history.Event{}} }

// observe takes the next event, which belongs to a scope.
func (s *specs) observe(e history.Event, scope string, clock *clock) {
	if !isSpec(e.Source) {
		if scope != "" {
			last := append(s.last[scope], e)
			s.last[scope] = last[max(0, len(last)-maxLast):]
		}
		return
	}
	if e.Phase == history.Gap || e.Key == history.KeyOpen || e.Key == history.KeyClose {
		return
	}
	var body history.Spec
	err := e.Decode(&body)
	switch {
	case e.Phase == history.Invoke:
		o := &spec{Requirement: Requirement{ID: e.Key, Title: body.Title, Boundary: body.Boundary, Started: clock.since(e.At)}, begin: e.At}
		s.rows = append(s.rows, o)
		s.open[opOf(e)] = o
	case e.Phase == history.Observed && !body.Skipped: // says nothing of the outcome
	default:
		o := s.end(e, clock)
		o.ended, o.Scope = true, e.Scope
		o.Title, o.Boundary = cmp.Or(body.Title, o.Title), cmp.Or(body.Boundary, o.Boundary)
		o.Elapsed = round(e.At - o.begin)
		o.Status, o.Message = outcome(e.Phase, body)
		if err != nil {
			o.Status, o.Message = Inconclusive, err.Error()
		}
		s.keep(o, clock)
	}
}

// opOf joins a spec's end to its start: by Op, or by id where the writer gave none.
func opOf(e history.Event) string { return e.Source + "\x00" + cmp.Or(e.Op, e.Key) }

// end takes the open spec that e ends; the start of one that has none was lost in a gap.
func (s *specs) end(e history.Event, clock *clock) *spec {
	o, ok := s.open[opOf(e)]
	if !ok {
		o = &spec{Requirement: Requirement{ID: e.Key, Started: clock.since(e.At)}, begin: e.At}
		s.rows = append(s.rows, o)
		return o
	}
	delete(s.open, opOf(e))
	return o
}

// keep shows the last events of a spec that did not hold. Without a scope of its own its id may be one.
func (s *specs) keep(o *spec, clock *clock) {
	if o.Status == Held || o.Status == Skipped {
		return
	}
	for _, e := range s.last[cmp.Or(o.Scope, o.ID)] {
		if e.At >= o.begin {
			o.LastEvents = append(o.LastEvents, cut(e, clock))
		}
	}
}

// outcome reads a spec's end. Phase and Outcome say the same thing; where they differ the worse one counts.
func outcome(phase history.Phase, body history.Spec) (Status, string) {
	if body.Skipped {
		if body.Message == "" {
			return Inconclusive, "skipped without a reason"
		}
		return Skipped, body.Message
	}
	said := Status(body.Outcome)
	switch {
	case phase == history.Fail || said == Violated:
		return Violated, cmp.Or(body.Message, "the spec failed without a message")
	case phase == history.OK && (said == Held || said == ""):
		return Held, body.Message
	case phase == history.Unknown || said == Inconclusive:
		return Inconclusive, cmp.Or(body.Message, "the spec ended without a verdict")
	}
	return Inconclusive, joinDetail(body.Message, "the spec ended with outcome "+string(said)+", which is none")
}

// of is the id of the spec that had a scope, "" when none that ended said so.
func (s *specs) of(scope string) string {
	for _, o := range s.rows {
		if scope != "" && o.Scope == scope {
			return o.ID
		}
	}
	return ""
}

// finish gives what never ended its status.
func (s *specs) finish(end time.Duration, clock *clock) []Requirement {
	out := make([]Requirement, 0, len(s.rows))
	for _, o := range s.rows {
		if !o.ended {
			o.Status, o.Elapsed = Inconclusive, round(end-o.begin)
			o.Message = "the spec started and never ended: it was interrupted, or its process died"
			s.keep(o, clock)
		}
		out = append(out, o.Requirement)
	}
	return out
}
