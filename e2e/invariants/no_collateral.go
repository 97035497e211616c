package invariants

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"headroom/e2e/framework/history"
	"headroom/e2e/invariants/model"
)

var noCollateral = Invariant{
	Name: "no-collateral",
	Claim: "a pod that runs is neither failed by the kubelet of an undisturbed node nor preempted without one of higher priority; " +
		"what a driver reports for a node does not change because of a quota change or fault that names other nodes",
	Source:   "KEP-4876: admission and refresh concern pods that wait; CSI spec NodeGetInfo is about one node",
	Boundary: history.Kubelet,
	Others:   []history.Boundary{history.Scheduler, history.Driver},
	Needs:    []string{history.PrefixAPI + "pods", history.PrefixCSI, history.SourceBackend},
	New:      func(p Params) Checker { return newChecker(p, &bystanders{running: map[string]*bystander{}}) },
}

// preempted is the reason of DisruptionTarget of a pod that made way for another.
const preempted = "PreemptionByScheduler"

// bystander is a pod that runs.
type bystander struct {
	name, node, scope string
	priority          int32
	from, to          model.Stamp
	// failed is the reason that the kubelet gave; disruption the reason of whoever ended the pod. The reading of an end is left to finish.
	failed, disruption string
}

// bystanders follows pods from their running on.
type bystanders struct {
	running map[string]*bystander // by UID
	ended   []*bystander
	highest int32
}

func (r *bystanders) observe(_ *model.Model, s model.Step) {
	b, ok := s.Body.(*history.Pod)
	if !ok || b.UID == "" || len(b.Claims) == 0 {
		return
	}
	r.highest = max(r.highest, b.Priority)
	p := r.running[b.UID]
	now := model.Stamp{At: s.At, Rev: s.Rev, Ref: s.Ref()}
	switch {
	case p == nil && b.PodPhase == "Running" && b.Deleted == nil && b.Type != "DELETED":
		r.running[b.UID] = &bystander{name: s.Key, node: b.NodeName, scope: s.Scope, priority: b.Priority, from: now, to: model.Stamp{At: model.Forever}}
	case p == nil:
	case b.Disruption != "" && p.disruption == "":
		p.disruption, p.to = b.Disruption, now
		r.end(b.UID, p)
	case b.PodPhase == "Failed" && b.Reason != "" && b.Deleted == nil:
		p.failed, p.to = b.Reason, now
		r.end(b.UID, p)
	case b.PodPhase != "Running" || b.Deleted != nil || b.Type == "DELETED":
		p.to = now
		r.end(b.UID, p)
	}
}

func (r *bystanders) end(uid string, p *bystander) {
	delete(r.running, uid)
	r.ended = append(r.ended, p)
}

func (r *bystanders) finish(m *model.Model) []Verdict {
	t := shared{}
	all := slices.Clone(r.ended)
	for _, p := range r.running {
		all = append(all, p)
	}
	named := namings(m)
	for _, p := range all {
		switch {
		case p.failed != "":
			if !m.Disturbed(p.node, model.Minus(p.to.At, settle), p.to.At) {
				t.of(history.Kubelet).late(m, p.name, p.from.At, p.to.At, finding{
					at: p.to.At, scope: p.scope, evidence: []history.Ref{p.from.Ref, p.to.Ref},
					detail: fmt.Sprintf("want the pod, which ran since %s, to go on, got it failed (%s) at %s", m.Since(p.from.At), p.failed, m.Since(p.to.At)),
				}, history.PrefixAPI+"pods")
			}
		case p.disruption == preempted && p.priority >= r.highest:
			t.of(history.Scheduler).violated(p.name, finding{
				at: p.to.At, scope: p.scope, evidence: []history.Ref{p.from.Ref, p.to.Ref},
				detail: fmt.Sprintf("want the pod, which ran since %s, to go on, for none has a higher priority than its %d, got %s at %s",
					m.Since(p.from.At), p.priority, preempted, m.Since(p.to.At)),
			})
		case p.disruption == "" && len(between(named, p.from.At, p.to.At)) > 0:
			t.of(history.Kubelet).held(p.name, p.scope)
		}
	}
	for _, id := range m.Asked() {
		judgeUnnamed(m, t.of(history.Driver), id, named)
	}
	return t.verdicts(history.Kubelet, history.Scheduler, history.Driver)
}

// naming is a moment at which the run or the cloud did something to a node; "" is all nodes.
type naming struct {
	at   time.Duration
	node string
	ref  history.Ref
}

// namings lists what was done to nodes: changes of their quota other than their coming and going, backend faults, faults of the run, and their ends.
func namings(m *model.Model) []naming {
	var out []naming
	for _, node := range m.BackendNodes() {
		points := m.Quota(node).Points()
		for i, p := range points {
			if i > 0 && p.Value != nil && points[i-1].Value != nil {
				out = append(out, naming{p.At, node, p.Ref})
			}
		}
	}
	for _, node := range append(m.BackendNodes(), "") {
		for _, p := range m.BackendFaults(node).Points() {
			out = append(out, naming{p.At, node, p.Ref})
		}
	}
	for _, f := range m.RunFaults() {
		nodes := f.Nodes
		if len(nodes) == 0 {
			nodes = []string{""}
		}
		for _, node := range nodes {
			out = append(out, naming{f.From, node, f.Ref}, naming{f.To, node, f.Ref})
		}
	}
	slices.SortFunc(out, func(a, b naming) int { return cmp.Compare(a.at, b.at) })
	return out
}

// between returns the part of named from from to to.
func between(named []naming, from, to time.Duration) []naming {
	i, _ := slices.BinarySearchFunc(named, from, func(n naming, t time.Duration) int { return cmp.Compare(n.at, t) })
	n, _ := slices.BinarySearchFunc(named[i:], model.Plus(to, 1), func(n naming, t time.Duration) int { return cmp.Compare(n.at, t) })
	return named[i : i+n]
}
