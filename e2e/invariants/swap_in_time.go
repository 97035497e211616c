package invariants

import (
	"fmt"
	"strings"
	"time"

	"headroom/e2e/framework/history"
	"headroom/e2e/invariants/model"
)

// swapBound is what a component's way to another version may take.
const swapBound = 10 * time.Second

var swapInTime = Invariant{
	Name: "swap-in-time",
	Claim: "in a walk over versions, from the signal to a component until it is ready at its new version and every kubelet has renewed its lease, " +
		"at most 10 s pass",
	Source:   "KEP-4876, upgrade strategy: workloads go on; kubernetes pkg/kubelet/nodelease: a node is given up when its lease is not renewed",
	Boundary: history.APIServer,
	Others:   []history.Boundary{history.Kubelet, history.Scheduler, history.ControllerManager, history.Attacher},
	Needs:    []string{history.SourceUpgrade, history.PrefixComponent},
	New:      func(p Params) Checker { return newChecker(p, &swaps{t: shared{}}) },
}

type swaps struct {
	t      shared
	folded model.Swaps
	done   backlog[*model.Swap]
}

func (r *swaps) observe(m *model.Model, s *model.Step) {
	if b, ok := s.Body.(*history.Component); ok {
		r.folded.Component(s.Event, b)
		return
	}
	if s.Source != history.SourceUpgrade {
		return
	}
	done, err := r.folded.Walk(s.Event)
	switch {
	case err != nil:
		m.Lose(s.Source, err.Error(), s.Ref())
	case done != nil:
		r.done.push(done)
	}
}

func (r *swaps) settle(m *model.Model, to time.Duration) time.Duration {
	for _, o := range r.done.due(func(o *model.Swap) bool { return o.End <= to }) {
		r.judge(m, o)
	}
	return r.done.oldest(func(o *model.Swap) time.Duration { return o.End })
}

func (r *swaps) judge(m *model.Model, o *model.Swap) {
	took, up := o.Took()
	if !up {
		return // it did not come up: that is for whoever starts components to explain
	}
	t := r.t.of(componentBoundary(o.Component))
	if o.Whole && took <= swapBound {
		t.held(o.Component, o.Scope)
		t.measured(o.Component, 1, took)
		return
	}
	got := fmt.Sprintf("ready at %s and the last lease at %s", m.Since(o.Ready), m.Since(o.Leases))
	if !o.Whole {
		got = fmt.Sprintf("ready at %s and leases still missing at %s", m.Since(o.Ready), m.Since(o.End))
	}
	t.late(m, o.Component, o.Signal, o.End, finding{
		at: o.Signal, scope: o.Scope, evidence: []history.Ref{o.Signalled, o.Last, o.Begun},
		detail: fmt.Sprintf("want %s ready at %s with all leases renewed within %s of the signal at %s, got %s", o.Component, o.To, swapBound, m.Since(o.Signal), got),
	}, history.PrefixComponent)
}

// componentBoundary is the boundary that a component's id is about.
func componentBoundary(id string) history.Boundary {
	switch kind, _, _ := strings.Cut(id, "@"); kind {
	case "kubelet":
		return history.Kubelet
	case "kube-scheduler":
		return history.Scheduler
	case "kube-controller-manager":
		return history.ControllerManager
	case "csi-attacher":
		return history.Attacher
	}
	return history.APIServer
}

func (r *swaps) finish(m *model.Model) []Verdict {
	return r.t.verdicts(m, history.APIServer, history.Kubelet, history.Scheduler, history.ControllerManager, history.Attacher)
}
