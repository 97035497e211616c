package shrink

import (
	"context"
	"fmt"
	"slices"
	"time"

	"headroom/e2e/framework/history"
	"headroom/e2e/framework/scenario"
)

// finest is how short a time is made by halves, and of how many whole ones each half is made.
const finest = time.Second

// pause is a time that a scenario lets pass: before the step i, or in it where it sleeps.
type pause struct {
	step  int
	sleep bool
}

// pauses lists them, the longest first.
func pauses(s *scenario.Scenario) []pause {
	var all []pause
	for i, step := range s.Steps {
		if step.At != nil {
			all = append(all, pause{step: i})
		}
		if step.Sleep != nil {
			all = append(all, pause{i, true})
		}
	}
	slices.SortStableFunc(all, func(a, b pause) int { return int(length(s, b) - length(s, a)) })
	return all
}

// before is the time of the last step before one that has a time.
func before(s *scenario.Scenario, step int) history.Duration {
	for i := step - 1; i >= 0; i-- {
		if s.Steps[i].At != nil {
			return *s.Steps[i].At
		}
	}
	return 0
}

func length(s *scenario.Scenario, p pause) history.Duration {
	if p.sleep {
		return *s.Steps[p.step].Sleep
	}
	return *s.Steps[p.step].At - before(s, p.step)
}

// shorter returns the scenario with a pause of another length; what comes later keeps its distance. A sleep of nothing goes.
func shorter(s *scenario.Scenario, p pause, to history.Duration) *scenario.Scenario {
	c := clone(s)
	by := length(s, p) - to
	if p.sleep {
		if to == 0 {
			return keep(s, func(i int) bool { return i != p.step })
		}
		*c.Steps[p.step].Sleep = to
		return c
	}
	for i := p.step; i < len(c.Steps); i++ {
		if at := c.Steps[i].At; at != nil {
			*at -= by
		}
	}
	return c
}

// durations makes pauses shorter, all at once if that will do, then each, to nothing or by halves.
func (m *search) durations(ctx context.Context) {
	whole := m.best
	m.first(ctx, []candidate{{"without any pause", func() *scenario.Scenario {
		c := keep(whole, func(i int) bool { return whole.Steps[i].Sleep == nil || len(whole.Steps) == 1 })
		for i := range c.Steps {
			c.Steps[i].At = nil
		}
		return c
	}}})
	for done := map[string]bool{}; !m.cut; {
		now := m.best
		all := slices.DeleteFunc(pauses(now), func(p pause) bool { return done[name(now, p)] || length(now, p) <= 0 })
		if len(all) == 0 {
			return
		}
		p := all[0]
		half := history.Duration((time.Duration(length(now, p)) / 2).Truncate(finest))
		tries := []candidate{{fmt.Sprintf("without the %s of step %d", length(now, p), p.step+1), func() *scenario.Scenario { return shorter(now, p, 0) }}}
		if time.Duration(half) >= finest {
			tries = append(tries, candidate{fmt.Sprintf("with %s in place of the %s of step %d", half, length(now, p), p.step+1),
				func() *scenario.Scenario { return shorter(now, p, half) }})
		}
		if m.first(ctx, tries) < 0 {
			done[name(now, p)] = true
		}
	}
}

// name tells pauses apart, whatever step they are in by now.
func name(s *scenario.Scenario, p pause) string {
	return fmt.Sprintf("%d %t %s", len(s.Steps)-p.step, p.sleep, length(s, p))
}

// surroundings leaves out nodes that no step speaks of, and makes the workload smaller.
func (m *search) surroundings(ctx context.Context) {
	for i := len(m.best.Topology.Nodes); i >= 1; i-- {
		if now := m.best; len(now.Topology.Nodes) > 1 && !mentions(now, i) {
			m.first(ctx, []candidate{{fmt.Sprintf("without node %d", i), func() *scenario.Scenario { return withoutNode(now, i) }}})
		}
	}
	for i := range m.best.Steps {
		for m.best.Steps[i].Pods != nil {
			if m.first(ctx, fewer(m.best, i)) < 0 {
				break
			}
		}
	}
}

// fewer are the scenarios in which a step makes fewer pods, or pods with fewer volumes: one, half of them, or one less.
func fewer(s *scenario.Scenario, step int) (all []candidate) {
	for _, count := range []struct {
		what string
		of   func(*scenario.Pods) *int
	}{
		{"pods", func(p *scenario.Pods) *int { return &p.Count }},
		{"volumes", func(p *scenario.Pods) *int { return &p.Volumes }},
		{"ephemeral volumes", func(p *scenario.Pods) *int { return &p.Ephemeral }},
	} {
		n := *count.of(s.Steps[step].Pods)
		for _, to := range []int{1, n / 2, n - 1} {
			if to < 1 || to >= n {
				continue
			}
			all = append(all, candidate{fmt.Sprintf("with %d %s in step %d", to, count.what, step+1), func() *scenario.Scenario {
				c := clone(s)
				*count.of(c.Steps[step].Pods) = to
				return c
			}})
		}
	}
	return all
}

// mentions says whether a step or an expectation is about a node.
func mentions(s *scenario.Scenario, node int) (found bool) {
	retarget(s, func(t scenario.Target) scenario.Target {
		found = found || t.Node == node
		return t
	})
	return found
}

// withoutNode leaves out a node that nothing mentions; those behind it move up.
func withoutNode(s *scenario.Scenario, node int) *scenario.Scenario {
	c := retarget(s, func(t scenario.Target) scenario.Target {
		if t.Node > node {
			t.Node--
		}
		return t
	})
	c.Topology.Nodes = slices.Delete(c.Topology.Nodes, node-1, node)
	return c
}

// retarget returns the scenario with other targets.
func retarget(s *scenario.Scenario, to func(scenario.Target) scenario.Target) *scenario.Scenario {
	c := clone(s)
	for i := range c.Steps {
		step := &c.Steps[i]
		switch {
		case step.Pods != nil && step.Pods.On != nil:
			on := to(*step.Pods.On)
			step.Pods.On = &on
		case step.Quota != nil:
			q := *step.Quota
			q.Node = to(q.Node)
			step.Quota = &q
		case step.Fault != nil:
			f := *step.Fault
			f.Target = to(f.Target)
			step.Fault = &f
		case step.Component != nil:
			p := *step.Component
			p.Target = to(p.Target)
			step.Component = &p
		case step.Patch != nil:
			p := *step.Patch
			p.Object = to(p.Object)
			step.Patch = &p
		case step.Replace != nil:
			t := to(*step.Replace)
			step.Replace = &t
		case step.Remove != nil:
			t := to(*step.Remove)
			step.Remove = &t
		case step.Wait != nil:
			step.Wait = waitFor(*step.Wait, to)
		}
	}
	return c
}

// waitFor is a wait with another target.
func waitFor(w scenario.Wait, to func(scenario.Target) scenario.Target) *scenario.Wait {
	switch {
	case w.Count != nil:
		c := *w.Count
		c.Node = to(c.Node)
		w.Count = &c
	case w.Calls != nil:
		c := *w.Calls
		c.Target = to(c.Target)
		w.Calls = &c
	case w.Process != nil:
		p := *w.Process
		p.Target = to(p.Target)
		w.Process = &p
	}
	return &w
}
