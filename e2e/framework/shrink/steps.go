package shrink

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"headroom/e2e/framework/scenario"
)

// steps finds steps of which none can be left out: it leaves out halves, then quarters, and so on, the last ones first, since what comes after the
// violation is never needed.
func (m *search) steps(ctx context.Context) {
	for parts := 2; len(m.best.Steps) > 1; {
		before, n := m.best, len(m.best.Steps)
		parts = min(parts, n)
		var all []candidate
		for i := range parts {
			from, to := (parts-1-i)*n/parts, (parts-i)*n/parts
			all = append(all, candidate{without(from, to), func() *scenario.Scenario { return keep(before, func(i int) bool { return i < from || i >= to }) }})
		}
		switch {
		case m.first(ctx, all) >= 0:
			parts = max(parts-1, 2)
		case m.cut || parts == n:
			return
		default:
			parts *= 2
		}
	}
}

// singles tries once more to leave out each step alone: after the other phases it may not be needed any longer.
func (m *search) singles(ctx context.Context) {
	for again := true; again && len(m.best.Steps) > 1; {
		before := m.best
		var all []candidate
		for i := len(before.Steps) - 1; i >= 0; i-- {
			all = append(all, candidate{without(i, i+1), func() *scenario.Scenario { return keep(before, func(n int) bool { return n != i }) }})
		}
		again = m.first(ctx, all) >= 0
	}
}

func without(from, to int) string {
	if to-from == 1 {
		return fmt.Sprintf("without step %d", from+1)
	}
	return fmt.Sprintf("without steps %d to %d", from+1, to)
}

// clone copies a scenario as deep as shrinking changes it.
func clone(s *scenario.Scenario) *scenario.Scenario {
	c := *s
	c.Topology.Nodes = slices.Clone(s.Topology.Nodes)
	c.Steps = slices.Clone(s.Steps)
	c.Expect.Pods = slices.Clone(s.Expect.Pods)
	for i, step := range c.Steps {
		if step.At != nil {
			at := *step.At
			c.Steps[i].At = &at
		}
		if step.Sleep != nil {
			d := *step.Sleep
			c.Steps[i].Sleep = &d
		}
		if step.Pods != nil {
			p := *step.Pods
			c.Steps[i].Pods = &p
		}
	}
	return &c
}

// keep returns the scenario with some of its steps, and without those that speak of what the others would have made: the heal of a fault that is not
// injected, the deletion of pods that are not there, and waits for them.
func keep(s *scenario.Scenario, kept func(i int) bool) *scenario.Scenario {
	c := clone(s)
	c.Steps = nil
	pods, faults := map[string]bool{}, map[string]bool{}
	for i, step := range s.Steps {
		if !kept(i) {
			continue
		}
		switch {
		case step.Pods != nil:
			pods[step.Pods.Name] = true
		case step.Delete != "":
			if !pods[step.Delete] {
				continue
			}
			delete(pods, step.Delete)
		case step.Fault != nil:
			faults[step.Fault.Key()] = true
		case step.Heal != "":
			if !faults[step.Heal] {
				continue
			}
			delete(faults, step.Heal)
		case step.Wait != nil && step.Wait.Pods != nil && !pods[step.Wait.Pods.Name]:
			continue
		}
		c.Steps = append(c.Steps, step)
	}
	c.Expect.Pods = slices.DeleteFunc(c.Expect.Pods, func(p scenario.PodsAre) bool { return !pods[p.Name] })
	return c
}

// Describe says in a line what each step of a scenario does, for progress and reports.
func Describe(s *scenario.Scenario) string {
	var lines []string
	for i, step := range s.Steps {
		var what string
		switch {
		case step.Pods != nil:
			what = "pods " + step.Pods.Name
		case step.Delete != "":
			what = "delete " + step.Delete
		case step.Quota != nil:
			what = "quota of " + step.Quota.Node.String()
		case step.Fault != nil:
			what = step.Fault.Name + " on " + step.Fault.Target.String()
		case step.Heal != "":
			what = "heal " + step.Heal
		case step.Component != nil:
			what = string(step.Component.Do) + " " + step.Component.Target.String()
		case step.Patch != nil:
			what = "patch " + step.Patch.Object.String()
		case step.Replace != nil:
			what = "replace " + step.Replace.String()
		case step.Remove != nil:
			what = "remove " + step.Remove.String()
		case step.Wait != nil:
			what = "wait"
		case step.Sleep != nil:
			what = "sleep " + step.Sleep.String()
		}
		if step.At != nil {
			what = "at " + step.At.String() + " " + what
		}
		lines = append(lines, fmt.Sprintf("%d. %s", i+1, what))
	}
	return strings.Join(lines, "\n")
}
