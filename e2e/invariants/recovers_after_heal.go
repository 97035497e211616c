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
	New: func(p Params) Checker { return newChecker(p, &recovery{bound: map[string]*stranded{}}) },
}

const (
	// recoverBound is what recovery may take beyond the driver's and the kubelet's own figures.
	recoverBound = time.Minute
	// attacherBackoff is the longest time between two tries of the external-attacher.
	attacherBackoff = 5 * time.Minute
)

// recovery keeps the pods that were bound and not yet running when a fault was healed.
type recovery struct {
	bound    map[string]*stranded // by UID
	stranded []*stranded
}

func (r *recovery) observe(m *model.Model, s model.Step) {
	b, ok := s.Body.(*history.Pod)
	if !ok || b.UID == "" || len(b.Claims) == 0 || b.NodeName == "" {
		return
	}
	p, now := r.bound[b.UID], model.Stamp{At: s.At, Rev: s.Rev, Ref: s.Ref()}
	waits := (b.PodPhase == "" || b.PodPhase == "Pending") && b.Deleted == nil && b.Type != "DELETED"
	switch {
	case waits && p == nil:
		r.bound[b.UID] = &stranded{pod: m.PodSeen(s.Key, b), scope: s.Scope, from: now, to: model.Stamp{At: model.Forever}}
	case !waits && p != nil:
		p.to, p.ran = now, b.PodPhase == "Running" || b.PodPhase == "Succeeded"
		delete(r.bound, b.UID)
		if slices.ContainsFunc(heals(m, p.pod.NodeName, "attach"), func(h healing) bool { return h.to.At >= p.from.At && h.to.At <= s.At }) {
			p.resolve(m)
			r.stranded = append(r.stranded, p)
		}
	}
}

func (r *recovery) finish(m *model.Model) []Verdict {
	t := shared{}
	for _, id := range m.RegisteredIDs() {
		list := heals(m, id.Node, "get")
		for i, h := range list {
			if i+1 == len(list) || list[i+1].from > h.to.At {
				judgeCount(m, t, id, h)
			}
		}
	}
	for _, p := range r.bound {
		p.resolve(m)
		r.stranded = append(r.stranded, p)
	}
	for _, p := range r.stranded {
		list := heals(m, p.pod.NodeName, "attach")
		for i, h := range list {
			if i+1 == len(list) || list[i+1].from > h.to.At {
				p.judge(m, t, h)
			}
		}
	}
	return t.verdicts(history.Driver, history.Kubelet, history.Attacher)
}

// healing is one fault that was healed.
type healing struct {
	from time.Duration
	to   model.Stamp
}

// heals lists the faults on a node, and on all nodes, that stood in the way of an operation of the backend or lay elsewhere, and were healed; by their
// ends.
func heals(m *model.Model, node, operation string) []healing {
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
	}
	for _, f := range m.RunFaults() {
		if f.On(node) && f.To < model.Forever {
			out = append(out, healing{f.From, model.Stamp{At: f.To, Ref: f.Ref}})
		}
	}
	slices.SortFunc(out, func(a, b healing) int { return cmp.Compare(a.to.At, b.to.At) })
	return out
}

// judgeCount follows the count of a driver on a node after a heal.
func judgeCount(m *model.Model, t shared, id model.ID, h healing) {
	node, ok := m.BackendNode(id.Node, nodeID(m, id))
	if !ok {
		return
	}
	start := h.to
	period, ok := m.Period(id.Driver).At(start.At)
	if !ok || period.Value == nil {
		return
	}
	name, usable, deadline := id.String(), int64(0), time.Duration(0)
	for {
		p, ok := m.Quota(node).At(start.At)
		if !ok || p.Value == nil {
			return
		}
		usable = max(1, p.Value.Usable())
		deadline = model.Plus(start.At, model.Plus(recoveryTime(m, id, usable, start.At, model.Seconds(*period.Value)), m.Slack()))
		until, changes := min(deadline, m.End()), m.Quota(node).Over(start.At, deadline)
		if len(changes) > 1 {
			until = min(until, changes[1].At)
		}
		if at, ok := reached(m, id, usable, start.At, until); ok {
			t.of(history.Driver).held(name, "")
			t.of(history.Driver).measured(name, 1, at-h.to.At)
			return
		}
		if len(changes) < 2 {
			break
		}
		start = model.Stamp{At: changes[1].At, Ref: changes[1].Ref}
	}
	hindered := m.Outage(node, "get", start.At+1, deadline) || fullBetween(m, node, start.At-time.Duration(m.Header().Params.Driver.StepInterval), deadline) ||
		m.Changed(start.At, deadline, "driver@"+id.Node, "driver@"+id.Node+"/"+id.Driver)
	if deadline > m.End() || hindered || !undisturbed(m, id, start.At, deadline) || !m.PeriodThroughout(id.Driver, start.At, deadline) {
		return
	}
	blamed, got := history.Kubelet, "no NodeGetInfo"
	f := finding{at: deadline, evidence: []history.Ref{h.to.Ref, start.Ref}}
	if c := lastAnswer(m, id, start.At, deadline); c != nil {
		f.evidence, f.scope, got = append(f.evidence, c.End), c.Scope, fmt.Sprintf("the answer %d at %s", c.Max, m.Since(c.Done))
		if !c.OK() || c.Max != usable {
			blamed = history.Driver
		}
	}
	f.detail = fmt.Sprintf("want count %d on %q by %s, after the heal at %s, got count %s and, last, %s",
		usable, id, m.Since(deadline), m.Since(h.to.At), countAt(m, id, deadline), got)
	t.of(blamed).late(m, name, start.At, deadline, f, history.PrefixCSI+id.Node, history.PrefixAPI+"csinodes")
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

// lastAnswer is the last NodeGetInfo of a kubelet that was answered from from to to, nil without one.
func lastAnswer(m *model.Model, id model.ID, from, to time.Duration) (last *model.Call) {
	for _, c := range m.Infos(id) {
		if c.Invoked >= from && c.Done <= to {
			last = c
		}
	}
	return last
}

// fullBetween says whether the backend refused an attach to a node for lack of room from from to to: a careful driver then does not rise.
func fullBetween(m *model.Model, node string, from, to time.Duration) bool {
	for place, attaches := range m.AllAttaches() {
		if place.Node == node && slices.ContainsFunc(attaches, func(a *model.Attach) bool {
			return a.Answer != nil && a.Answer.Reason == history.ReasonFull && a.Done >= from && a.Invoked <= to
		}) {
			return true
		}
	}
	return false
}
