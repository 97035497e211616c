package reproduce

import (
	"iter"
	"slices"
	"time"

	"headroom/e2e/framework/history"
	"headroom/e2e/framework/report"
)

// Fault is how long a fault of a scenario was there, and what came of it; the longest of all plays.
type Fault struct {
	Fault  string `yaml:"fault"`
	Target string `yaml:"target"`
	// Bites is from its injection to its healing: the scenario looked at what it did. Where it is over by itself it is from its injection to the next
	// fault's, or to the end. Heals is what the healing took.
	Bites history.Duration `yaml:"bites"`
	Heals history.Duration `yaml:"heals"`
	// Took is from its injection to the next fault's, or to the end: the recovery is part of it.
	Took history.Duration `yaml:"took"`
}

// seen is a fault of a history.
type seen struct {
	Fault
	op                 string
	injected, healing  time.Duration
	healed             bool
	bites, heals, took time.Duration
}

// over notes that the next fault, or the end, has come.
func (s *seen) over(at time.Duration) {
	if s.took > 0 {
		return
	}
	s.took = at - s.injected
	if s.healing == 0 {
		s.bites = s.took
	}
}

// Faults reads from a run's history the faults of one play that were healed, in order. spec is the play's requirement in the run's report.
func Faults(events iter.Seq2[history.Event, error], scope string, spec report.Requirement) ([]Fault, error) {
	var all []*seen
	first, begun := time.Duration(0), false
	for e, err := range events {
		if err != nil {
			return nil, err
		}
		if !begun {
			first, begun = e.At, true
		}
		if e.Source != history.SourceFault || e.Scope != scope || e.Key == history.KeyOpen || e.Key == history.KeyClose {
			continue
		}
		var b history.Fault
		if err := e.Decode(&b); err != nil {
			return nil, err
		}
		i := slices.IndexFunc(all, func(s *seen) bool { return s.op == e.Op })
		switch {
		case b.State == "inject":
			for _, s := range all {
				s.over(e.At)
			}
			all = append(all, &seen{Fault: Fault{Fault: e.Key, Target: b.Target}, op: e.Op, injected: e.At})
		case i >= 0 && all[i].took > 0:
			all[i].healed = true // at the end, when it was over long ago
		case i >= 0 && b.State == "heal":
			all[i].healing, all[i].bites = e.At, e.At-all[i].injected
		case i >= 0 && b.State == "healed":
			all[i].healed, all[i].heals = true, e.At-all[i].healing
		}
	}
	end := first + time.Duration(spec.Started) + time.Duration(spec.Elapsed)
	var out []Fault
	for _, s := range all {
		if !s.healed {
			continue
		}
		s.over(end)
		s.Bites, s.Heals, s.Took = rounded(s.bites), rounded(s.heals), rounded(s.took)
		out = append(out, s.Fault)
	}
	return out, nil
}

func rounded(d time.Duration) history.Duration {
	return history.Duration(d.Round(100 * time.Millisecond))
}

// longest joins the faults of two plays of a scenario.
func longest(a, b []Fault) []Fault {
	if len(a) != len(b) {
		return b // one of them ended early
	}
	out := slices.Clone(a)
	for i := range out {
		out[i].Bites, out[i].Heals, out[i].Took = max(a[i].Bites, b[i].Bites), max(a[i].Heals, b[i].Heals), max(a[i].Took, b[i].Took)
	}
	return out
}
