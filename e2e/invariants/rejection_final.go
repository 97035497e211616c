package invariants

import (
	"cmp"
	"fmt"
	"time"

	"headroom/e2e/framework/history"
	"headroom/e2e/invariants/model"
)

var rejectionFinal = Invariant{
	Name:     "rejection-final",
	Claim:    "a pod that was rejected for lack of attach capacity stays Failed until it is deleted, restarts of the kubelet included",
	Source:   "pkg/kubelet/kubelet.go rejectPod; KEP-4876",
	Boundary: history.Kubelet,
	Needs:    []string{history.PrefixAPI + "pods"},
	New:      func(p Params) Checker { return newChecker(p, &final{t: tally{}, failed: map[string]*rejected{}}) },
}

// rejected is a pod that the kubelet failed.
type rejected struct {
	name, node, scope string
	at                time.Duration
	rev               int64
	ref               history.Ref
}

// isRejected says whether a pod's state is that of a rejection.
func isRejected(b *history.Pod) bool { return b.PodPhase == "Failed" && b.Reason == limitExceeded }

func newRejected(s *model.Step, b *history.Pod) *rejected {
	return &rejected{name: s.Key, node: b.NodeName, scope: s.Scope, at: s.At, rev: s.Rev, ref: s.Ref()}
}

type final struct {
	t      tally
	failed map[string]*rejected // by UID, until the pod is gone
	atOnce
}

func (r *final) observe(m *model.Model, s *model.Step) {
	b, ok := s.Body.(*history.Pod)
	if !ok {
		return
	}
	uid := cmp.Or(b.UID, s.Key)
	was := r.failed[uid]
	switch {
	case was == nil && isRejected(b):
		was = newRejected(s, b)
		r.failed[uid] = was
	case was != nil && b.PodPhase != "Failed" && s.Rev > was.rev:
		r.t.violated(r.t.pod(was.name), finding{
			at: s.At, scope: was.scope, evidence: []history.Ref{s.Ref(), was.ref},
			detail: fmt.Sprintf("want pod %q to stay Failed after its rejection at %s, got phase %q at %s", was.name, m.Since(was.at), b.PodPhase, m.Since(s.At)),
		})
	}
	if was != nil && b.Type == "DELETED" {
		delete(r.failed, uid)
		r.t.held(r.t.pod(was.name), was.scope)
	}
}

func (r *final) finish(m *model.Model) []Verdict {
	for _, was := range r.failed {
		if model.Plus(was.at, m.Slack()) <= m.End() {
			r.t.held(r.t.pod(was.name), was.scope)
		}
	}
	return r.t.verdicts(m, history.Kubelet)
}
