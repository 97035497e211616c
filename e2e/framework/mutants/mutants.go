// Package mutants says which plans of faults broken drivers play, in which of them each was caught, and what is still to be played.
//
// Contract: a persona plays plans of rising seeds until the invariant that it declares as its root is violated in one; no later one is played. The
// reference driver is the control: it plays every plan in which a persona was caught, and must violate nothing in it. A result belongs to a plan as it was
// when it was played; a plan that has changed since has none.
//
// It plays nothing and judges nothing: what a play showed is its report's to say.
package mutants

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"headroom/drivers/personas"
	"headroom/e2e/framework/plan"
	"headroom/e2e/framework/reproduce"
)

// Control is the driver without a mistake.
const Control = "steady"

// Faults are those of plans for personas that ask for none of their own.
var Faults = []string{"quota"}

// Options say which plans personas play.
type Options struct {
	// Seed is the first of Seeds seeds; both are 1 or more.
	Seed  int64
	Seeds int
	// Duration is how long a plan plays, as in plan.Options; a persona that takes a longer quiet end has so much more.
	Duration time.Duration
}

// Plan is a plan with the driver that plays it.
type Plan struct {
	plan.Options
	// Digest stands for the plan, see reproduce.Digest; the driver is part of it.
	Digest               string
	Kubernetes, Attacher string
	// Text is the plan's file.
	Text []byte
}

// Line is a driver with the plans that it plays, in order.
type Line struct {
	// Persona is nil for the control.
	Persona *personas.Persona
	Plans   []Plan
}

// Lines are the lines of personas, by name. One that no plan can show has no plans.
func Lines(names []string, o Options) ([]Line, error) {
	var lines []Line
	for _, name := range names {
		p, err := personas.Find(name)
		if err != nil {
			return nil, err
		}
		line := Line{Persona: p}
		for i := range o.Seeds {
			if p.Chaos.Never != "" {
				break
			}
			of := plan.Options{Seed: o.Seed + int64(i), Duration: o.Duration, Driver: p.Name, Faults: p.Chaos.Faults, Nodes: p.Chaos.Nodes, Quiet: p.Chaos.Quiet}
			if len(of.Faults) == 0 {
				of.Faults = Faults
			}
			of.Duration += of.Shortest() - plan.Shortest
			made, err := newPlan(of)
			if err != nil {
				return nil, fmt.Errorf("persona %s: %w", name, err)
			}
			line.Plans = append(line.Plans, made)
		}
		lines = append(lines, line)
	}
	return lines, nil
}

func newPlan(o plan.Options) (Plan, error) {
	s, err := plan.New(o)
	if err != nil {
		return Plan{}, err
	}
	p := Plan{Options: o, Kubernetes: string(s.Topology.Release()), Attacher: string(s.Topology.Version("csi-attacher"))}
	if p.Digest, err = reproduce.Digest(s); err != nil {
		return Plan{}, err
	}
	p.Text, err = s.Encode()
	return p, err
}

// Name is the driver's.
func (l Line) Name() string {
	if l.Persona == nil {
		return Control
	}
	return l.Persona.Name
}

// Root is the invariant that must be violated; "" for the control.
func (l Line) Root() string {
	if l.Persona == nil {
		return ""
	}
	return l.Persona.Root
}

// Crowded says that the line's plans have so many nodes that nothing should play beside them.
func (l Line) Crowded() bool { return len(l.Plans) > 0 && l.Plans[0].Nodes > 2 }

// Next is the plan to play next; false where the line is over: its driver was caught, or all plans were played. Those of skip, by seed, told nothing just
// now, and are left for another time.
func (l Line) Next(r Results, skip map[int64]bool) (Plan, bool) {
	for _, p := range l.Plans {
		row, played := r.Of(p)
		switch {
		case played && row.Caught():
			return Plan{}, false
		case !played && !skip[p.Seed]:
			return p, true
		}
	}
	return Plan{}, false
}

// Caught is the first play in which the persona was caught.
func (l Line) Caught(r Results) (Plan, Row, bool) {
	for _, p := range l.Plans {
		if row, played := r.Of(p); played && row.Caught() {
			return p, row, true
		}
	}
	return Plan{}, Row{}, false
}

// Controls are the lines of the control: one for each plan in which a persona was caught.
func Controls(lines []Line, r Results) ([]Line, error) {
	var out []Line
	for _, l := range lines {
		p, _, caught := l.Caught(r)
		if !caught {
			continue
		}
		c, err := ControlOf(p)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(out, func(o Line) bool { return o.Plans[0].Digest == c.Digest }) {
			out = append(out, Line{Plans: []Plan{c}})
		}
	}
	return out, nil
}

// ControlOf is a plan as the control plays it.
func ControlOf(p Plan) (Plan, error) {
	o := p.Options
	o.Driver = Control
	return newPlan(o)
}

// Strays are what a play violated that is neither its driver's root nor what may break with it: a false alarm, or a consequence that nobody had thought of.
func (l Line) Strays(row Row) []string {
	return slices.DeleteFunc(slices.Clone(row.Violated), func(name string) bool {
		return l.Persona != nil && (name == l.Persona.Root || slices.Contains(l.Persona.MayAlso, name))
	})
}

// Finding is one thing that is wrong with the results, or that they do not tell yet.
type Finding struct {
	Text string
	// Open says that it was not told: something was not played, or told nothing.
	Open bool
}

// Findings are what is wrong with the plays of some lines and of their controls; none at all is what the suite has to come to.
func Findings(lines []Line, r Results) ([]Finding, error) {
	controls, err := Controls(lines, r)
	if err != nil {
		return nil, err
	}
	var out []Finding
	note := func(open bool, format string, args ...any) {
		out = append(out, Finding{fmt.Sprintf(format, args...), open})
	}
	for _, l := range slices.Concat(lines, controls) {
		told := 0
		for _, p := range l.Plans {
			row, played := r.Of(p)
			if !played {
				continue
			}
			told++
			if strays := l.Strays(row); len(strays) > 0 {
				what := "neither its root nor what may break with it"
				if l.Persona == nil {
					what = "though the driver has no mistake"
				}
				note(false, "%s, seed %d of %s: violated %s, %s", l.Name(), p.Seed, strings.Join(p.Faults, ","), strings.Join(strays, " "), what)
			}
		}
		_, _, caught := l.Caught(r)
		switch {
		case caught, l.Persona != nil && l.Persona.Chaos.Never != "", l.Persona == nil && told == 1:
		case l.Persona == nil:
			note(true, "%s, seed %d of %s: not played, or it told nothing", l.Name(), l.Plans[0].Seed, strings.Join(l.Plans[0].Faults, ","))
		case told == len(l.Plans):
			note(false, "%s: not caught within %d seeds: %s was never violated", l.Name(), told, l.Root())
		default:
			note(true, "%s: not caught in %d of %d seeds, and the others are not played, or told nothing", l.Name(), told, len(l.Plans))
		}
	}
	return out, nil
}
