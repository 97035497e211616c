package invariants

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"headroom/e2e/framework/history"
	"headroom/e2e/invariants/model"
)

var recoversAfterHeal = Invariant{
	Name: "recovers-after-heal",
	Claim: "after the last fault on a node is healed, its count equals what the backend lets Kubernetes use (at least 1) within 2 periods + " +
		"ceil(gap / step) x interval + 60 s + slack, counted from the last quota change where one follows, and a pod that waits there for a volume that the " +
		"backend does not refuse runs within 2 periods + 60 s + slack + the fault's length, by which the attacher may have backed off, 5 min at most",
	Source:   "KEP-4876, periodic updates; external-attacher --retry-interval-max 5m",
	Boundary: history.Driver,
	Others:   []history.Boundary{history.Kubelet, history.Attacher},
	Needs: []string{
		history.PrefixCSI, history.SourceBackend, history.PrefixAPI + "csinodes", history.PrefixAPI + "csidrivers", history.PrefixAPI + "pods",
		history.PrefixAPI + "volumeattachments",
	},
	New: func(p Params) Checker { return newChecker(p, &recovery{t: shared{}, bound: map[string]*stranded{}}) },
}

const (
	// recoverBound is what recovery may take beyond the driver's and the kubelet's own figures.
	recoverBound = time.Minute
	// attacherBackoff is the longest time between two tries of the external-attacher.
	attacherBackoff = 5 * time.Minute
)

// recovery follows the counts after heals, and the pods that were bound and not yet running when a fault was healed.
type recovery struct {
	t      shared
	counts []*recovering
	until  time.Duration // heals up to here were taken
	begun  bool
	bound  map[string]*stranded // by UID
	ended  []*stranded
}

func (r *recovery) observe(m *model.Model, s *model.Step) {
	b, ok := s.Body.(*history.Pod)
	if !ok || b.UID == "" || len(b.Claims) == 0 || b.NodeName == "" {
		return
	}
	p, now := r.bound[b.UID], model.Stamp{At: s.At, Rev: s.Rev, Ref: s.Ref()}
	waits := (b.PodPhase == "" || b.PodPhase == "Pending") && b.Deleted == nil && b.Type != "DELETED"
	switch {
	case waits && p == nil:
		p = &stranded{pod: m.PodSeen(s.Key, b), scope: s.Scope, from: now, to: model.Stamp{At: model.Forever}, until: -model.Forever}
		p.resolve(m)
		r.bound[b.UID] = p
	case !waits && p != nil:
		p.to, p.ran = now, b.PodPhase == "Running" || b.PodPhase == "Succeeded"
		p.resolve(m)
		r.ended = append(r.ended, p)
		delete(r.bound, b.UID)
	}
}

func (r *recovery) settle(m *model.Model, to time.Duration) time.Duration {
	since := r.until
	if !r.begun {
		r.begun, since = true, -model.Forever
	}
	for _, id := range m.RegisteredIDs() {
		for _, h := range lastHeals(m, id.Node, "get", since, to) {
			if _, ok := m.Registered(id).At(h.to.At); ok {
				r.counts = append(r.counts, &recovering{id: id, h: h, start: h.to})
			}
		}
	}
	r.until = to
	r.counts = slices.DeleteFunc(r.counts, func(x *recovering) bool { return x.settle(m, r.t, to) })
	r.ended = slices.DeleteFunc(r.ended, func(p *stranded) bool { return p.settle(m, r.t, to) })
	for _, p := range r.bound {
		p.settle(m, r.t, to)
	}
	return model.Forever
}

func (r *recovery) finish(m *model.Model) []Verdict {
	return r.t.verdicts(m, history.Driver, history.Kubelet, history.Attacher)
}

// healing is one fault that was healed.
type healing struct {
	from time.Duration
	to   model.Stamp
}

// faults lists the faults on a node, and on all nodes, that stood in the way of an operation of the backend or lay elsewhere; by their ends, Forever
// where they last.
func faults(m *model.Model, node, operation string) []healing {
	var out []healing
	for _, name := range []string{node, ""} {
		var since *model.Point[*history.Backend]
		for i, p := range m.BackendFaults(name).Points() {
			bites := p.Value.Fault != "" && (len(p.Value.Operations) == 0 || slices.Contains(p.Value.Operations, operation))
			switch {
			case bites && since == nil:
				since = &m.BackendFaults(name).Points()[i]
			case !bites && since != nil:
				out = append(out, healing{since.At, model.Stamp{At: p.At, Ref: p.Ref}})
				since = nil
			}
		}
		if since != nil {
			out = append(out, healing{since.At, model.Stamp{At: model.Forever}})
		}
	}
	for _, f := range m.RunFaults() {
		if f.On(node) {
			out = append(out, healing{f.From, model.Stamp{At: f.To, Ref: f.Ref}})
		}
	}
	slices.SortStableFunc(out, func(a, b healing) int { return cmp.Compare(a.to.At, b.to.At) })
	return out
}

// lastHeals are the heals after from and up to to that left no fault on the node.
func lastHeals(m *model.Model, node, operation string, from, to time.Duration) []healing {
	var out []healing
	all := faults(m, node, operation)
	for i, h := range all {
		if h.to.At > from && h.to.At <= to && h.to.At < model.Forever &&
			!slices.ContainsFunc(all[i+1:], func(o healing) bool { return o.from <= h.to.At }) {
			out = append(out, h)
		}
	}
	return out
}

// recovering is the count of a driver on a node after a heal.
type recovering struct {
	id    model.ID
	h     healing
	start model.Stamp // the heal, or the last quota change since
	node  string
	// usable is what the count is to be by deadline, once they are known.
	usable   int64
	deadline time.Duration
	known    bool
	// last is the last answer since the start; full says that the backend refused an attach for lack of room.
	last *model.Call
	full bool
}

// settle follows the count up to the time to and says whether it is judged.
func (x *recovering) settle(m *model.Model, t shared, to time.Duration) (over bool) {
	id, name := x.id, x.id.String()
	period, ok := m.Period(id.Driver).At(x.h.to.At)
	if !ok || period.Value == nil {
		return true
	}
	if x.node == "" {
		if x.node, ok = m.OwnNode(id, x.h.to.At); !ok {
			return true
		}
	}
	for {
		if !x.known {
			p, ok := m.Quota(x.node).At(x.start.At)
			if !ok || p.Value == nil {
				return true
			}
			x.usable, x.known, x.last, x.full = max(1, p.Value.Usable()), true, nil, false
			x.deadline = model.Plus(x.start.At, model.Plus(recoveryTime(m, id, x.usable, x.start.At, model.Seconds(*period.Value)), m.Slack()))
		}
		by := min(x.deadline, to)
		until, changes := min(by, m.End()), m.Quota(x.node).Over(x.start.At, by)
		if len(changes) > 1 {
			until = min(until, changes[1].At)
		}
		if at, ok := reached(m, id, x.usable, x.start.At, until); ok {
			t.of(history.Driver).held(name, "")
			t.of(history.Driver).measured(name, 1, at-x.h.to.At)
			return true
		}
		if len(changes) < 2 {
			x.follow(m, by)
			break
		}
		x.start, x.known = model.Stamp{At: changes[1].At, Ref: changes[1].Ref}, false
	}
	if x.deadline > to {
		return false
	}
	x.judge(m, t)
	return true
}

// follow remembers what bears on a count that does not come, up to the time to.
func (x *recovering) follow(m *model.Model, to time.Duration) {
	careful := x.start.At - time.Duration(m.Header().Params.Driver.StepInterval)
	if _, refused := m.LastRefusal(x.node, careful, to); refused {
		x.full = true // a careful driver does not rise then
	}
	for _, c := range m.Infos(x.id) {
		if c.Invoked >= x.start.At && c.Done <= to {
			x.last = c
		}
	}
}

// judge looks why the count did not come.
func (x *recovering) judge(m *model.Model, t shared) {
	id, start, deadline := x.id, x.start, x.deadline
	hindered := x.full || m.Outage(x.node, "get", start.At+1, deadline) || m.Changed(start.At, deadline, "driver@"+id.Node, "driver@"+id.Node+"/"+id.Driver)
	if deadline > m.End() || hindered || !undisturbed(m, id, start.At, deadline) || !m.PeriodThroughout(id.Driver, start.At, deadline) {
		return
	}
	blamed, got := history.Kubelet, "no NodeGetInfo"
	f := finding{at: deadline, evidence: []history.Ref{x.h.to.Ref, start.Ref}}
	if c := x.last; c != nil {
		f.evidence, f.scope, got = append(f.evidence, c.End), c.Scope, fmt.Sprintf("the answer %d at %s", c.Max, m.Since(c.Done))
		if !c.OK() || c.Max != x.usable {
			blamed = history.Driver
		}
	}
	f.detail = fmt.Sprintf("want count %d on %q by %s, after the heal at %s, got count %s and, last, %s",
		x.usable, id, m.Since(deadline), m.Since(x.h.to.At), countAt(m, id, deadline), got)
	t.of(blamed).late(m, id.String(), start.At, deadline, f, history.PrefixCSI+id.Node, history.PrefixAPI+"csinodes")
}

// recoveryTime is what a count may take from where it is to usable.
func recoveryTime(m *model.Model, id model.ID, usable int64, at, period time.Duration) time.Duration {
	d := m.Header().Params.Driver
	took := model.Plus(model.Plus(period, period), recoverBound)
	entry, ok := entryAt(m, id, at)
	if d.Step <= 0 || !ok || entry.Count == nil {
		return took
	}
	steps := (max(0, usable-int64(*entry.Count)) + d.Step - 1) / d.Step
	return model.Plus(took, time.Duration(steps)*max(period, time.Duration(d.StepInterval)))
}

func entryAt(m *model.Model, id model.ID, at time.Duration) (history.CSINodeDriver, bool) {
	i := m.After(id.Node, at)
	if i == 0 {
		return history.CSINodeDriver{}, false
	}
	return m.Revisions(id.Node)[i-1].Entry(id.Driver)
}

func countAt(m *model.Model, id model.ID, at time.Duration) string {
	entry, ok := entryAt(m, id, at)
	if !ok {
		return "none (no entry)"
	}
	return count(entry.Count)
}

// reached says when, from from to to, the count first was n.
func reached(m *model.Model, id model.ID, n int64, from, to time.Duration) (time.Duration, bool) {
	revs := m.Revisions(id.Node)
	for _, r := range revs[max(0, m.After(id.Node, from)-1):] {
		if e, ok := r.Entry(id.Driver); ok && e.Count != nil && int64(*e.Count) == n && r.At <= to {
			return max(r.At, from), true
		}
	}
	return 0, false
}
