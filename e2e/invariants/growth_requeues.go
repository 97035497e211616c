package invariants

import (
	"fmt"
	"time"

	"headroom/e2e/framework/history"
	"headroom/e2e/invariants/model"
)

var growthRequeues = Invariant{
	Name: "growth-requeues",
	Claim: "a pod that waits for volume limits is bound within 15 s + slack after a higher count, or one that is absent, made room for it, " +
		"unless the room is taken again meanwhile or something else keeps the pod",
	Source:   "pkg/scheduler/framework/plugins/nodevolumelimits/csi.go isSchedulableAfterCSINodeUpdated; pods back off for 10 s at most",
	Boundary: history.Scheduler,
	Needs:    placementNeeds,
	KnownUpstream: []Known{{
		Versions: ">=1.33 <1.38",
		Source:   "nodevolumelimits/csi.go isSchedulableAfterCSINodeUpdated reads a missing count as 0, so finite to unlimited does not requeue: the flush after 5 min does",
		Scenario: unlimitedScenario, Signed: true,
	}},
	New: func(p Params) Checker { return newChecker(p, &requeues{by: model.ByCount, t: tally{}}) },
}

// Scenarios that show the known defects.
const (
	unlimitedScenario = "growth-from-finite-to-unlimited"
	ephemeralScenario = "detach-ephemeral"
)

// requeueBound is what a requeued pod may take to be bound: it backs off for at most 10 s.
const requeueBound = 15 * time.Second

// placementNeeds are the sources that chances are computed from.
var placementNeeds = []string{
	history.PrefixAPI + "pods", history.PrefixAPI + "nodes", history.PrefixAPI + "csinodes", history.PrefixAPI + "volumeattachments",
	history.PrefixAPI + "persistentvolumeclaims", history.PrefixAPI + "persistentvolumes",
}

// requeues judges waits that end with room: those that an event of one kind gave.
type requeues struct {
	by model.Kind
	t  tally
	waits
}

func (r *requeues) settle(m *model.Model, to time.Duration) time.Duration {
	for _, w := range r.due(m, to) {
		if w.Room && w.Said && w.By == r.by {
			r.judge(m, r.t, w)
		}
	}
	return model.Forever
}

func (r *requeues) finish(m *model.Model) []Verdict { return r.t.verdicts(m, history.Scheduler) }

func (r *requeues) judge(m *model.Model, t tally, w *model.Wait) {
	name := t.pod(w.Pod)
	deadline := model.Plus(w.From.At, model.Plus(requeueBound, m.Slack()))
	switch {
	case w.Bound && w.To.At <= deadline:
		t.held(name, w.Scope)
		t.measured(name, 1, w.To.At-w.From.At)
		return
	case w.To.At <= deadline || deadline > m.End() || w.Otherwise || undecided(m, w.From.At, deadline):
		return
	}
	f := finding{at: deadline, scope: w.Scope, evidence: []history.Ref{w.From.Ref}, defect: knownRequeue(r.by, w)}
	got := "it still waits at " + m.Since(m.End())
	if w.To.At < model.Forever {
		f.evidence = append(f.evidence, w.To.Ref)
		got = "it waited until " + m.Since(w.To.At)
	}
	f.detail = fmt.Sprintf("want the pod bound within %s + %s after node %q had room (%s) at %s, got %s",
		requeueBound, m.Slack(), w.Node, w.Sum, m.Since(w.From.At), got)
	t.late(m, name, w.From.At, deadline, f, placementNeeds...)
}

// knownRequeue names the known defect by which the pod was not requeued, "" if it is none.
func knownRequeue(by model.Kind, w *model.Wait) string {
	switch {
	case by == model.ByCount && w.Unlimited:
		return unlimitedScenario
	case by == model.ByAttachment && w.OnlyEphemeral:
		return ephemeralScenario
	}
	return ""
}

// undecided says whether the scheduler may have been unable to decide: it, or what it sees through, was away, or has been back for less than a minute.
func undecided(m *model.Model, from, to time.Duration) bool {
	return m.Interrupted(model.Minus(from, settle), to, "kube-scheduler", "kube-apiserver", "etcd")
}
