package scenario

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"headroom/e2e/framework/strict"
)

func (c *checker) steps() {
	if n := len(c.s.Steps); n < 1 || n > maxSteps {
		c.Fail("steps", "say what shall happen", "want 1 to %d steps, got %d", maxSteps, n)
	}
	for i, s := range c.s.Steps {
		if s.Fault != nil {
			if _, again := c.ids[s.Fault.Key()]; !again {
				c.ids[s.Fault.Key()] = i
			}
		}
	}
	for i := range c.s.Steps {
		c.step(i, strict.At("steps", i), &c.s.Steps[i])
	}
}

// given lists the optional fields of a struct that are set, but for those left out.
func given(v any, but string) (set, all []string) {
	s := reflect.ValueOf(v).Elem()
	for _, f := range strict.Fields(s.Type()) {
		if f.Name == but {
			continue
		}
		all = append(all, f.Name)
		if !s.Field(f.Index).IsZero() {
			set = append(set, f.Name)
		}
	}
	return set, all
}

// one checks that exactly one of several fields is given.
func (c *checker) one(field string, v any, but string) {
	if set, all := given(v, but); len(set) != 1 {
		c.Fail(field, "give one; several things are several steps", "want exactly one of %s, got %s", strings.Join(all, ", "), quoted(set))
	}
}

func (c *checker) step(i int, at string, s *Step) {
	c.one(at, s, "at")
	if s.At != nil {
		if *s.At < c.at {
			c.Fail(at+".at", "put the steps in order", "%s is before the %s of an earlier step", *s.At, c.at)
		}
		c.at = max(c.at, *s.At)
	}
	switch {
	case s.Pods != nil:
		c.makePods(at+".pods", s.Pods)
	case s.Delete != "":
		c.known(at+".delete", s.Delete)
		delete(c.pods, s.Delete)
	case s.Quota != nil:
		c.quota(at+".quota", s.Quota)
	case s.Fault != nil:
		c.fault(i, at+".fault", s.Fault)
	case s.Heal != "":
		c.heal(i, at+".heal", s.Heal)
	case s.Component != nil:
		c.component(at+".component", s.Component)
	case s.Patch != nil:
		c.target(at+".patch.object", s.Patch.Object, CSIDriver, CSINode, OnNode)
		if len(s.Patch.Merge.Content) == 0 {
			c.Fail(at+".patch.merge", "write the fields to change as a mapping", "the patch changes nothing")
		}
	case s.Replace != nil:
		c.target(at+".replace", *s.Replace, OnNode, CSIDriver)
	case s.Remove != nil:
		c.target(at+".remove", *s.Remove, OnNode, CSINode, CSIDriver)
	case s.Wait != nil:
		c.wait(at+".wait", s.Wait)
	case s.Sleep != nil:
		c.positive(at+".sleep", *s.Sleep)
	}
}

func (c *checker) makePods(at string, p *Pods) {
	if !name.MatchString(p.Name) {
		c.Fail(at+".name", "use only these", "want lower-case letters, digits and dashes, got %q", p.Name)
	}
	if c.pods[p.Name] {
		c.Fail(at+".name", "choose another name, or delete them first", "there are pods %q already", p.Name)
	}
	c.pods[p.Name] = true
	if p.Count < 0 || p.Count > 500 {
		c.Fail(at+".count", "write 1 to 500", "%d pods", p.Count)
	}
	if p.Volumes < 0 || p.Volumes > 500 {
		c.Fail(at+".volumes", "write 1 to 500", "%d volumes", p.Volumes)
	}
	if p.Ephemeral < 0 || p.Ephemeral > 100 {
		c.Fail(at+".ephemeral", "write 1 to 100", "%d ephemeral volumes", p.Ephemeral)
	}
	if p.On != nil {
		c.target(at+".on", *p.On, OnNode)
	}
}

// known checks that pods of a name have been made, and not deleted.
func (c *checker) known(field, pods string) {
	if !c.pods[pods] {
		c.Fail(field, "make them in an earlier step, or correct the name", "no pods %q here; there are: %s", pods, quoted(slices.Sorted(maps.Keys(c.pods))))
	}
}

func (c *checker) quota(at string, q *Quota) {
	c.target(at+".node", q.Node, OnNode)
	if q.Limit == nil && q.Foreign == nil {
		c.Fail(at, "give limit, foreign, or both", "it changes nothing")
	}
	if q.Foreign != nil && *q.Foreign < 0 {
		c.Fail(at+".foreign", "write 0 or more", "%d foreign attachments", *q.Foreign)
	}
}

func (c *checker) fault(i int, at string, f *Fault) {
	if first := c.ids[f.Key()]; c.active[f.Key()] && first != i {
		c.Fail(at, "give it an id of its own, or heal the other first", "fault %q of step %d is still active", f.Key(), first+1)
	}
	c.active[f.Key()] = true
	kind, known := c.catalog.Faults[f.Name]
	if !known {
		c.Fail(at+".name", "correct the name", "unknown fault %q; known: %s", f.Name, strings.Join(slices.Sorted(maps.Keys(c.catalog.Faults)), ", "))
		return
	}
	c.target(at+".target", f.Target, kind.Targets...)
	params := kind.New()
	if !f.Params.IsZero() && !c.Decode(at+".params", &f.Params, params) {
		return
	}
	if p, ok := params.(Checked); ok {
		if field, remedy, err := p.Check(); err != nil {
			c.Fail(strict.Join(at+".params", field), remedy, "%v", err)
		}
	}
	f.params = params
}

func (c *checker) heal(i int, field, id string) {
	at, known := c.ids[id]
	switch {
	case c.active[id]:
		delete(c.active, id)
	case !known:
		c.Fail(field, "heal a fault by its id", "no fault has the id %q; there are: %s", id, quoted(slices.Sorted(maps.Keys(c.ids))))
	case at > i:
		c.Fail(field, "move it behind the injection", "fault %q is injected only by step %d", id, at+1)
	default:
		c.Fail(field, "remove it", "fault %q is healed already", id)
	}
}

func (c *checker) component(at string, p *Component) {
	c.target(at+".target", p.Target, Processes...)
	if !slices.Contains(Actions, p.Do) {
		c.Fail(at+".do", "write one of these", "want one of %v, got %q", Actions, p.Do)
	}
	c.version(at+".version", "", p.Version)
	if p.Version != "" && (p.Do != Start && p.Do != Restart || !slices.Contains(kinds, string(p.Target.Class))) {
		c.Fail(at+".version", "remove it", "only start and restart of %s take a version", strings.Join(kinds, ", "))
	}
}

func (c *checker) wait(at string, w *Wait) {
	c.positive(at+".within", w.Within)
	c.one(at, w, "within")
	switch {
	case w.Count != nil:
		c.target(at+".count.node", w.Count.Node, OnNode)
	case w.Pods != nil:
		c.podsAre(at+".pods", w.Pods)
	case w.Calls != nil:
		c.target(at+".calls.target", w.Calls.Target, NodeDriver)
		if w.Calls.More < 1 {
			c.Fail(at+".calls.more", "write 1 or more", "%d calls", w.Calls.More)
		}
	case w.Process != nil:
		c.target(at+".process.target", w.Process.Target, Processes...)
		if s := w.Process.Is; s != Up && s != Exited {
			c.Fail(at+".process.is", "write one of these", "want %s or %s, got %q", Up, Exited, s)
		}
		versioned := append(slices.Clone(kinds), string(Attacher))
		if class := string(w.Process.Target.Class); w.Process.Version == "" || w.Process.Is == Up && slices.Contains(versioned, class) {
			c.version(at+".process.version", class, w.Process.Version)
		} else {
			c.Fail(at+".process.version", "remove it", "only processes of %s that are up have a version", strings.Join(versioned, ", "))
		}
	}
}
