package invariants

import (
	"fmt"
	"time"

	"headroom/e2e/framework/history"
	"headroom/e2e/invariants/model"
)

var pendingIsExplained = Invariant{
	Name: "pending-is-explained",
	Claim: "a pod that has to wait because every node that it may go to is full says so, `exceed max volume count`, within 15 s + slack; " +
		"one that gives another reason meanwhile is not judged",
	Source:   "pkg/scheduler/framework/plugins/nodevolumelimits ErrReasonMaxVolumeCountExceeded",
	Boundary: history.Scheduler,
	Needs:    placementNeeds,
	New:      func(p Params) Checker { return newChecker(p, &explained{t: tally{}}) },
}

type explained struct {
	t tally
	waits
}

func (r *explained) finish(m *model.Model) []Verdict { return r.t.verdicts(m, history.Scheduler) }

func (r *explained) settle(m *model.Model, to time.Duration) time.Duration {
	t := r.t
	for _, w := range r.due(m, to) {
		name := t.pod(w.Pod)
		deadline := model.Plus(w.From.At, model.Plus(requeueBound, m.Slack()))
		switch {
		case w.Room:
		case w.Explained <= deadline:
			t.held(name, w.Scope)
			t.measured(name, 1, w.Explained-w.From.At)
		case w.To.At <= deadline || deadline > m.End() || w.Otherwise || undecided(m, w.From.At, deadline):
		default:
			t.late(m, name, w.From.At, deadline, finding{
				at: deadline, scope: w.Scope, evidence: []history.Ref{w.From.Ref},
				detail: fmt.Sprintf("want the pod to say %q within %s + %s after every node was full (%q: %s) at %s, got no reason",
					model.VolumeLimits, requeueBound, m.Slack(), w.Node, w.Sum, m.Since(w.From.At)),
			}, placementNeeds...)
		}
	}
	return model.Forever
}
