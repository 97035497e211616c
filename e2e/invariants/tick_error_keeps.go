package invariants

import (
	"fmt"
	"slices"
	"time"

	"headroom/e2e/framework/history"
	"headroom/e2e/invariants/model"
)

var tickErrorKeeps = Invariant{
	Name: "tick-error-keeps",
	Claim: "a NodeGetInfo that failed or timed out, other than in a registration, changes nothing in CSINode; " +
		"a removal is not judged where the driver's socket went or a fault of the run lay on the node",
	Source:   "pkg/volume/csi/csi_plugin.go updateCSIDriver; KEP-4876",
	Boundary: history.Kubelet,
	Needs:    []string{history.PrefixCSI, history.SourceAudit},
	New:      func(p Params) Checker { return newChecker(p, &tickErrors{t: tally{}}) },
}

// tickErrors keeps the failures whose consequences may still come, oldest first.
type tickErrors struct {
	t    tally
	open []*model.Answer
	bad  map[*model.Answer]bool
	atOnce
}

func (r *tickErrors) observe(m *model.Model, s *model.Step) {
	r.pass(m, s.At)
	if a := m.AnswerOf(s); a != nil && a.Failed() && !a.Registering && !a.Orphan && m.Asks(a.ID) > 0 {
		if p, _ := m.Registered(a.ID).At(a.Done); p.Value {
			r.open = append(r.open, a)
		}
	}
	if s.Write == nil || !s.Write.ByNode() {
		return
	}
	for _, c := range s.Write.Changes() {
		r.write(m, s.Write, c)
	}
}

// failedWithin is how long after a failure a write that nothing else explains is laid to it.
func failedWithin(m *model.Model) time.Duration { return mirrorBound + m.Slack() }

// pass takes the failures off the list that had no consequences.
func (r *tickErrors) pass(m *model.Model, now time.Duration) {
	for len(r.open) > 0 && r.open[0].Done+failedWithin(m) < now {
		a := r.open[0]
		r.open = r.open[1:]
		if !r.bad[a] {
			r.t.held(a.ID.String(), a.Scope)
		}
		delete(r.bad, a)
	}
}

// write looks whether a change has another cause than the failure before it.
func (r *tickErrors) write(m *model.Model, w *model.Write, c model.Change) {
	i := slices.IndexFunc(r.open, func(a *model.Answer) bool { return a.ID == c.ID && a.Done <= w.At+clockError })
	if i < 0 || m.Registering(c.ID, w.At) || m.Registering(c.ID, w.At-failedWithin(m)) {
		return
	}
	a := r.open[i]
	if c.After != nil && slices.ContainsFunc(m.Recent(c.ID), func(o *model.Answer) bool { return o.OK() && o.Done <= w.At+clockError && o.Carries(c.After.Count) }) {
		return
	}
	if gone, ok := m.SocketGone(c.ID); c.After == nil && (ok && gone >= w.At-settle || m.Faulted(c.Node, w.At-settle, w.At)) {
		return
	}
	if r.bad == nil {
		r.bad = map[*model.Answer]bool{}
	}
	r.bad[a] = true
	got := "its entry removed"
	if c.After != nil {
		got = "count " + count(c.After.Count)
	}
	r.t.missing(c.ID.String(), finding{
		at: w.At, scope: a.Scope, evidence: []history.Ref{a.End, w.Ref},
		detail: fmt.Sprintf("want the entry kept after NodeGetInfo failed with code %d at %s, got %s at %s", a.Code, m.Since(a.Done), got, m.Since(w.At)),
	}, calls(c.Node))
}

func (r *tickErrors) finish(m *model.Model) []Verdict {
	r.pass(m, m.End())
	return r.t.verdicts(m, history.Kubelet)
}
