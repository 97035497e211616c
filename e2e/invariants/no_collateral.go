package invariants

import (
	"cmp"
	"fmt"
	"maps"
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
	New: func(p Params) Checker {
		return newChecker(p, &bystanders{
			running: map[string]*bystander{}, preempted: map[int32]tally{}, t: shared{}, unnamed: unnamed{last: map[model.ID]*model.Call{}},
		})
	},
}

// preempted is the reason of DisruptionTarget of a pod that made way for another.
const preempted = "PreemptionByScheduler"

// bystander is a pod that runs.
type bystander struct {
	name, node, scope string
	priority          int32
	from, to          model.Stamp
	// reason is why it failed, or was preempted.
	reason string
}

// bystanders follows pods from their running on. Those that end without a reason are only counted, by node.
type bystanders struct {
	running map[string]*bystander // by UID
	failed  backlog[*bystander]
	// preempted are pods that made way, by their priority, as long as no higher one was seen.
	preempted map[int32]tally
	highest   int32
	named     time.Duration // when something was last done to a node
	t         shared
	unnamed
}

func (r *bystanders) observe(m *model.Model, s *model.Step) {
	r.unnamed.observe(s)
	b, ok := s.Body.(*history.Pod)
	if !ok {
		if at, ok := named(m, s); ok {
			r.named = at
		}
		return
	}
	if b.UID == "" || len(b.Claims) == 0 {
		return
	}
	if b.Priority > r.highest {
		r.highest = b.Priority
		maps.DeleteFunc(r.preempted, func(priority int32, _ tally) bool { return priority < r.highest })
	}
	p := r.running[b.UID]
	now := model.Stamp{At: s.At, Rev: s.Rev, Ref: s.Ref()}
	switch {
	case p == nil && b.PodPhase == "Running" && b.Deleted == nil && b.Type != "DELETED":
		r.running[b.UID] = &bystander{name: s.Key, node: b.NodeName, scope: s.Scope, priority: b.Priority, from: now}
		return
	case p == nil:
		return
	case b.Disruption == preempted:
		p.reason, p.to = b.Disruption, now
		r.preempt(m, p)
	case b.PodPhase == "Failed" && b.Reason != "" && b.Deleted == nil:
		p.reason, p.to = b.Reason, now
		r.failed.push(p)
	case b.PodPhase != "Running" || b.Deleted != nil || b.Type == "DELETED":
		if b.Disruption == "" {
			r.went(p)
		}
	default:
		return
	}
	delete(r.running, b.UID)
}

// went counts a pod that ran on, where something was done to a node meanwhile.
func (r *bystanders) went(p *bystander) {
	if r.named >= p.from.At {
		r.t.of(history.Kubelet).held(p.node, p.scope)
	}
}

// preempt notes a pod that made way, unless there was one of higher priority.
func (r *bystanders) preempt(m *model.Model, p *bystander) {
	if p.priority < r.highest {
		return
	}
	if r.preempted[p.priority] == nil {
		r.preempted[p.priority] = tally{}
	}
	r.preempted[p.priority].violated(p.node, finding{
		at: p.to.At, scope: p.scope, evidence: []history.Ref{p.from.Ref, p.to.Ref},
		detail: fmt.Sprintf("want pod %q, which ran since %s, to go on, for none has a higher priority than its %d, got %s at %s",
			p.name, m.Since(p.from.At), p.priority, p.reason, m.Since(p.to.At)),
	})
}

func (r *bystanders) settle(m *model.Model, to time.Duration) time.Duration {
	for _, p := range r.failed.due(func(p *bystander) bool { return p.to.At <= to }) {
		if !m.Disturbed(p.node, model.Minus(p.to.At, settle), p.to.At) {
			r.t.of(history.Kubelet).late(m, p.node, p.from.At, p.to.At, finding{
				at: p.to.At, scope: p.scope, evidence: []history.Ref{p.from.Ref, p.to.Ref},
				detail: fmt.Sprintf("want pod %q, which ran since %s, to go on, got it failed (%s) at %s", p.name, m.Since(p.from.At), p.reason, m.Since(p.to.At)),
			}, history.PrefixAPI+"pods")
		}
	}
	return r.unnamed.settle(m, r.t.of(history.Driver), to)
}

func (r *bystanders) finish(m *model.Model) []Verdict {
	for _, p := range r.running {
		r.went(p)
	}
	for _, t := range r.preempted {
		for node, s := range t {
			r.t.of(history.Scheduler).join(node, s)
		}
	}
	return r.t.verdicts(m, history.Kubelet, history.Scheduler, history.Driver)
}

// named says whether an event did something to a node, as namings has it, and when.
func named(m *model.Model, s *model.Step) (time.Duration, bool) {
	switch b := s.Body.(type) {
	case *history.Backend:
		before, was := m.Quota(s.Node).Back(1)
		return s.At, s.Key == "fault" || s.Key == "quota" && b.Quota != nil && was && before.Value != nil
	case *history.Fault:
		return s.At, true
	}
	return 0, false
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
