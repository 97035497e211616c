package invariants

import (
	"fmt"
	"time"

	"headroom/e2e/framework/history"
	"headroom/e2e/invariants/model"
)

var upgradeSparesPods = Invariant{
	Name: "upgrade-spares-pods",
	Claim: "during a walk over versions no pod with volumes that runs is started again, fails, or is deleted, and no volume that it uses is detached, " +
		"unless the run evicted or deleted that pod; no node stops being Ready but the one whose kubelet is changed",
	Source:   "Kubernetes documentation, upgrading a cluster: a node is drained before its kubelet changes its minor version, and nothing else moves pods",
	Boundary: history.Kubelet,
	Others:   []history.Boundary{history.ControllerManager},
	Needs:    []string{history.SourceUpgrade, history.PrefixAPI + "pods", history.PrefixAPI + "nodes", history.SourceBackend, history.PrefixWorkload},
	New: func(p Params) Checker {
		return newChecker(p, &spared{t: shared{}, pods: map[string]*sparedPod{}, asked: map[string]time.Duration{}, changing: map[string]bool{}, ready: map[string]bool{}})
	},
}

// sparedPod is a pod that an upgrade should leave alone.
type sparedPod struct {
	name, namespace, node, scope string
	claims                       []string
	seen                         time.Duration
	running                      history.Ref
	since                        time.Duration // 0 as long as it does not run
	restarts                     int32
}

// spared follows pods, detaches and nodes while a walk is under way.
type spared struct {
	t    shared
	walk bool
	pods map[string]*sparedPod // by UID: those that have not ended
	// asked is when the run last asked for the eviction or deletion of a pod, by "namespace/name".
	asked map[string]time.Duration
	// changing are nodes between the drain and the return of their kubelet, ready those that were Ready last.
	changing, ready map[string]bool
	atOnce
}

func (r *spared) observe(m *model.Model, s *model.Step) {
	if s.Source == history.SourceUpgrade {
		r.step(m, s)
		return
	}
	switch b := s.Body.(type) {
	case *history.Workload:
		if s.Phase == history.Invoke && b.Resource == "pod" && (b.Verb == "evict" || b.Verb == "delete") {
			r.asked[b.Name] = s.At
		}
	case *history.Pod:
		r.pod(m, s, b)
	case *history.Backend:
		if s.Key == "detach" && s.Phase == history.OK && b.Decision == history.Accepted && r.walk {
			r.detached(m, s, b.Volume)
		}
	case *history.Node:
		r.nodeState(m, s, b)
	}
}

// step follows the walk: what is judged lies between its beginning and its end.
func (r *spared) step(m *model.Model, s *model.Step) {
	switch s.Key {
	case history.KeyWalk:
		r.walk = s.Phase == history.Invoke
		if !r.walk {
			for _, p := range r.pods {
				r.held(p)
			}
		}
	case history.KeyStep:
		var b history.WalkStep
		if err := s.Decode(&b); err != nil {
			m.Lose(s.Source, err.Error(), s.Ref())
			return
		}
		if s.Node == "" {
			return
		}
		switch begins := s.Phase == history.Invoke; {
		case begins && (b.Do == history.DoDrain || b.Do == history.DoSwap):
			r.changing[s.Node] = true
		case !begins && b.Do == history.DoSwap:
			delete(r.changing, s.Node)
		}
	}
}

// held counts a pod that ran undisturbed.
func (r *spared) held(p *sparedPod) {
	if p.since > 0 {
		r.t.of(history.Kubelet).held(p.node, p.scope)
	}
}

// excused says whether the run asked for the pod's end. The watch may have shown the pod a little after it was asked for.
func (r *spared) excused(m *model.Model, p *sparedPod) bool {
	at, ok := r.asked[p.name]
	return ok && model.Plus(at, m.Slack()) >= p.seen
}

func (r *spared) pod(m *model.Model, s *model.Step, b *history.Pod) {
	if b.UID == "" || len(b.Claims) == 0 {
		return
	}
	p := r.pods[b.UID]
	over := b.Deleted != nil || b.Type == "DELETED" || b.PodPhase == "Failed" || b.PodPhase == "Succeeded"
	switch {
	case p == nil && over:
		return
	case p == nil:
		p = &sparedPod{name: s.Key, namespace: m.PodSeen(s.Key, b).Namespace, claims: b.Claims, seen: s.At, scope: s.Scope}
		r.pods[b.UID] = p
	}
	if p.since == 0 && b.PodPhase == "Running" && !over {
		p.since, p.node, p.running, p.restarts = s.At, b.NodeName, s.Ref(), b.Restarts
	}
	if p.since > 0 && b.Restarts > p.restarts && r.walk {
		r.violated(m, s, p, history.Kubelet, fmt.Sprintf("a container started again (%d times before, %d now)", p.restarts, b.Restarts))
	}
	p.restarts = max(p.restarts, b.Restarts)
	if !over {
		return
	}
	delete(r.pods, b.UID)
	switch {
	case p.since == 0 || !r.walk:
	case r.excused(m, p):
		r.held(p)
	case b.Deleted == nil && b.Type != "DELETED":
		r.violated(m, s, p, history.Kubelet, fmt.Sprintf("phase %s (%s)", b.PodPhase, b.Reason))
	default:
		r.violated(m, s, p, history.ControllerManager, "it deleted, which the run did not ask for")
	}
}

func (r *spared) violated(m *model.Model, s *model.Step, p *sparedPod, by history.Boundary, got string) {
	r.t.of(by).violated(p.node, finding{
		at: s.At, scope: p.scope, evidence: []history.Ref{p.running, s.Ref()},
		detail: fmt.Sprintf("want pod %q, which ran since %s, left alone by the upgrade, got %s at %s", p.name, m.Since(p.since), got, m.Since(s.At)),
	})
}

// detached looks for a pod that runs on the volume that the backend took from its node.
func (r *spared) detached(m *model.Model, s *model.Step, handle string) {
	for _, p := range r.pods {
		if p.since == 0 || p.node != s.Node || r.excused(m, p) {
			continue
		}
		for _, claim := range p.claims {
			if v, ok := m.Volume(&model.Use{Claim: p.namespace + "/" + claim}); ok && v.Handle == handle {
				r.violated(m, s, p, history.ControllerManager, fmt.Sprintf("its volume %q detached", handle))
			}
		}
	}
}

// nodeState wants nodes to stay Ready while their kubelet is not changed.
func (r *spared) nodeState(m *model.Model, s *model.Step, b *history.Node) {
	was := r.ready[s.Key]
	r.ready[s.Key] = b.Ready && b.Type != "DELETED"
	if !r.walk || !was || b.Ready || b.Type == "DELETED" || r.changing[s.Key] {
		return
	}
	r.t.of(history.Kubelet).violated(s.Key, finding{
		at: s.At, scope: s.Scope, evidence: []history.Ref{s.Ref()},
		detail: fmt.Sprintf("want node %q to stay Ready while its kubelet is not changed, got it not Ready at %s", s.Key, m.Since(s.At)),
	})
}

func (r *spared) finish(m *model.Model) []Verdict {
	return r.t.verdicts(m, history.Kubelet, history.ControllerManager)
}
