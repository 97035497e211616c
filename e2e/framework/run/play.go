package run

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"time"

	"headroom/chaos"
	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/history"
	"headroom/e2e/framework/scenario"
	"headroom/e2e/invariants"
)

// Catalog is what a scenario may name, with any driver and any figures: the caller says more of those where it can.
func Catalog() scenario.Catalog {
	c := scenario.Catalog{
		Faults: chaos.Types(), Invariants: map[string]history.Boundary{},
		Driver: func(string) error { return nil }, Figures: func(string, scenario.Figures) error { return nil },
	}
	for _, i := range invariants.All() {
		c.Invariants[i.Name] = i.Boundary
	}
	return c
}

// SpecOf is the id under which a scenario's beginning and end are recorded.
func SpecOf(name string) string { return "scenario/" + name }

// player plays one scenario.
type player struct {
	*Bench
	scenario *scenario.Scenario
	random   *rand.Rand
	began    time.Time
	pods     map[string][]Pod
	active   []*injected
	// injections counts them, those that are over included.
	injections int
}

// Play runs a scenario on a bench of its own, heals what it broke, and records how it went. What it expects of invariants is judged from the history,
// with all else. Only the process that made the run can play, and of shared scenarios one at a time. The error says what could not be put away
// afterwards, which may be the product's doing, since a scenario breaks things on purpose, and is judged by the invariants.
func (s *Session) Play(ctx context.Context, file string, sc *scenario.Scenario) error {
	r := Requirement{ID: SpecOf(sc.Metadata.Name), Claim: sc.Metadata.Doc, Boundary: boundaryOf(sc)}
	if err := s.openScenarios(); err != nil {
		s.Problem("open the history", err)
		return nil
	}
	s.expect(file, r.ID, sc)
	s.Begin(r)
	limited, cancel := context.WithTimeout(ctx, time.Duration(sc.Limit))
	defer cancel()
	setup := setupOf(sc)
	if why := setup.inapplicable(s.Header.Params.Driver); why != "" {
		s.EndSpec(r, Outcome{Skipped: why})
		return nil
	}
	kept, err := s.reserve(limited, sc.Metadata.Name, setup)
	var b *Bench
	if err == nil {
		b, err = s.newBench(limited, kept, setup)
	}
	if err != nil {
		s.EndSpec(r, Outcome{Failure: BenchFailure(err)})
		return nil
	}
	p := &player{Bench: b, scenario: sc, pods: map[string][]Pod{}, began: time.Now(), random: s.generator(sc.Metadata.Name)}
	err = Try("play "+r.ID, func() { b.Check(p.play(limited)) })
	err = errors.Join(err, p.healAll(ctx))
	if err == nil {
		err = b.Reclaim(ctx)
	}
	s.EndSpec(r, Outcome{Scope: b.Scope, Failure: unlessInterrupted(ctx, r.ID, err)})
	if ctx.Err() != nil {
		return nil // the cluster goes at once, and the bench with it
	}
	return b.Remove(ctx)
}

// Try calls f and returns how it failed: through Check, or by a panic, which is the harness's own mistake.
func Try(what string, f func()) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case Failure:
			err = p.Err
		default:
			err = &cluster.EnvironmentError{Op: what, Err: fmt.Errorf("it panicked: %v\n%s", p, debug.Stack())}
		}
	}()
	f()
	return nil
}

// unlessInterrupted makes a failure one of the environment when the run was interrupted: whatever fails then proves nothing.
func unlessInterrupted(ctx context.Context, what string, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return &cluster.EnvironmentError{Op: "play " + what, Err: errors.Join(errors.New("interrupted"), err)}
}

// generator is the scenario's own source of random choices: the same for a seed and a name, whatever plays beside it.
func (s *Session) generator(name string) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // it never fails
	return rand.New(rand.NewPCG(uint64(s.Header.Seed), h.Sum64()))
}

// boundaryOf is the part that the scenario is about: that of the first invariant that it names.
func boundaryOf(sc *scenario.Scenario) history.Boundary {
	for _, v := range sc.Expect.Invariants {
		if inv, ok := invariants.Find(v.Invariant); ok {
			return inv.Boundary
		}
	}
	return history.Kubelet
}

func setupOf(sc *scenario.Scenario) Setup {
	var setup Setup
	for _, n := range sc.Topology.Nodes {
		setup.Nodes = append(setup.Nodes, Node{Limit: n.Limit, Foreign: n.Foreign, Zone: n.Zone})
	}
	if sc.Period != nil {
		setup.Period = time.Duration(*sc.Period)
	}
	setup.Changes = slices.ContainsFunc(sc.Steps, func(s scenario.Step) bool {
		return s.Quota != nil || s.Fault != nil && slices.Contains(quotaFaults, s.Fault.Name)
	})
	return setup
}

// quotaFaults are the faults that act on the quota backend.
var quotaFaults = []string{"quota-drop", "quota-flap", "quota-outage", "quota-raise", "foreign-attachment", "detach-lag"}

// openScenarios opens the histories that only played scenarios write.
func (s *Session) openScenarios() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.owner == nil {
		return errors.New("only the process that made a run plays scenarios")
	}
	if s.owner.faults != nil {
		return nil
	}
	var err error
	if s.owner.scenarios, err = history.Create(s.events(), s.Header.Run, history.SourceScenario); err != nil {
		return err
	}
	s.owner.faults, err = history.Create(s.events(), s.Header.Run, history.SourceFault)
	return err
}

// expect records what the scenario must show, so that it can be judged again anywhere.
func (s *Session) expect(file, spec string, sc *scenario.Scenario) {
	body := history.Scenario{File: file, Spec: spec}
	for _, v := range sc.Expect.Invariants {
		body.Expect = append(body.Expect, history.Expectation{Invariant: v.Invariant, Violated: v.Verdict == scenario.Violated, AtMost: v.AtMost})
	}
	s.owner.scenarios.Write(history.Event{Phase: history.Observed, Key: sc.Metadata.Name, Scope: sc.Metadata.Name, Body: history.Encode(body)})
}

// play does the steps and looks at the pods that are left.
func (p *player) play(ctx context.Context) error {
	for _, step := range p.scenario.Steps {
		if f := step.Fault; f != nil {
			fault, _ := chaos.Find(f.Name) // Load saw it
			if err := fault.Supports(p.Cluster); err != nil {
				return &cluster.UnsupportedError{Provider: p.Header.Provider, Why: fmt.Sprintf("fault %q cannot run: %v", f.Name, err)}
			}
		}
	}
	for i, step := range p.scenario.Steps {
		if step.At != nil {
			if err := p.due(ctx, time.Duration(*step.At)); err != nil {
				return fmt.Errorf("step %d: %w", i+1, err)
			}
		}
		if err := p.step(ctx, step); err != nil {
			return fmt.Errorf("step %d: %w", i+1, err)
		}
	}
	for _, want := range p.scenario.Expect.Pods {
		if err := p.podsAre(ctx, want); err != nil {
			return fmt.Errorf("at the end: %w", err)
		}
	}
	return nil
}

// due waits until a step may begin. One that comes late, on a slow machine or after a wait, moves those after it: the time between them is what the
// scenario says, and a fault stays as long as it was meant to.
func (p *player) due(ctx context.Context, at time.Duration) error {
	when := p.began.Add(at)
	if err := Pause(ctx, time.Until(when)); err != nil {
		return err
	}
	if late := time.Since(when); late > 0 {
		p.began = p.began.Add(late)
	}
	return nil
}

// Pause lets time pass; it ends early, with an error, when ctx does.
func Pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for %s: %w", d.Round(time.Millisecond), ctx.Err())
	}
}
