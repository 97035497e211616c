// Package personas holds broken drivers: the reference driver with one known mistake each. The suite is tested with them: a persona that no
// invariant catches is a hole in the suite.
//
// Contract: one persona is one file, which registers it in init. Root is the invariant that must be violated wherever the mistake is put to
// the test; MayAlso are those that can break as a consequence. Anything else that breaks is a finding about the suite.
//
// A persona declares the same figures as the reference driver, since a driver with a mistake does not declare it.
package personas

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"headroom/drivers/steady"
)

// Persona is one mistake.
type Persona struct {
	// Name is what --driver takes.
	Name string
	// Doc says what it does wrong, in one sentence.
	Doc string
	// Root is the invariant that must be violated.
	Root string
	// Try are the ids of the specs that put Root to the test.
	Try []string
	// MayAlso are invariants and specs that may fail as well.
	MayAlso []string
	// Dynamic says that it takes a driver whose volumes external-provisioner makes.
	Dynamic bool
	// Chaos says how plans of faults put the mistake to the test.
	Chaos Chaos
	// Mistakes makes the hooks of one instance of the driver; see steady.Mistakes.
	Mistakes func() steady.Mistakes
}

// Chaos says what the plans of faults are made of in which a persona is to be caught. Its zero value is a plan as for any persona.
type Chaos struct {
	// Faults are faults and groups of them, by the names that `headroom chaos --faults` takes; none means the same ones as for the others.
	Faults []string
	// Nodes is how many nodes the mistake takes to be seen, and Quiet how long nothing is done to them at the end; 0 means no more than any plan has.
	Nodes int
	Quiet time.Duration
	// Never says why no plan can show the mistake; "" where one can.
	Never string
}

var all = map[string]*Persona{}

// register adds p. It panics on a second persona of the same name, and on one without a root or a spec to try, which nothing could judge.
func register(p Persona) {
	if p.Name == "" || p.Doc == "" || p.Root == "" || len(p.Try) == 0 || p.Mistakes == nil {
		panic(fmt.Sprintf("personas: %q needs a name, a doc, a root, specs to try and mistakes", p.Name))
	}
	if c := p.Chaos; c.Never != "" && (len(c.Faults) > 0 || c.Nodes > 0 || c.Quiet > 0) {
		panic(fmt.Sprintf("personas: %q: no plan can show it, and one is described", p.Name))
	}
	if all[p.Name] != nil {
		panic(fmt.Sprintf("personas: %q registered twice", p.Name))
	}
	all[p.Name] = &p
}

// Names lists all personas, sorted.
func Names() []string { return slices.Sorted(maps.Keys(all)) }

// Find returns a persona; the error lists those there are.
func Find(name string) (*Persona, error) {
	if p := all[name]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("no persona %q; there are: %s", name, strings.Join(Names(), ", "))
}
