package invariants

import (
	"fmt"
	"slices"
	"time"

	"headroom/e2e/framework/history"
	"headroom/e2e/invariants/model"
)

var rejectionCleansUp = Invariant{
	Name: "rejection-cleans-up",
	Claim: "the VolumeAttachments of a pod that was rejected for lack of room are gone within 60 s + slack, unless another pod uses the volume, " +
		"and the unpublish of a volume that was not attached in the 2 minutes before is answered OK",
	Source:   "pkg/controller/volume/attachdetach, which lets go of the volumes of ended pods; CSI spec ControllerUnpublishVolume: idempotent",
	Boundary: history.ControllerManager,
	Others:   []history.Boundary{history.Attacher, history.Driver},
	Needs: []string{
		history.PrefixAPI + "pods", history.PrefixAPI + "volumeattachments", history.PrefixAPI + "persistentvolumeclaims",
		history.PrefixCSI + "controller/", history.SourceBackend,
	},
	New: func(p Params) Checker { return newChecker(p, newCleans()) },
}

type cleans struct {
	orphans
	t    shared
	open doneCalls
}

func newCleans() *cleans {
	o := newOrphans()
	return &cleans{orphans: o, t: shared{history.ControllerManager: o.rejected}} // what held is the first boundary's: nobody broke it
}

func (r *cleans) observe(m *model.Model, s *model.Step) {
	r.orphans.observe(m, s)
	r.open.observe(s, model.Unpublish, history.DriverSide)
}

func (r *cleans) settle(m *model.Model, to time.Duration) time.Duration {
	for _, u := range r.overdue(to) {
		if u.rejected != "" {
			r.t.orphan(m, u, fmt.Sprintf("of rejected pod %q", u.rejected))
		}
	}
	for _, c := range r.open.due(to) {
		judgeUnpublish(m, r.t.of(history.Driver), c)
	}
	return r.open.needs()
}

func (r *cleans) finish(m *model.Model) []Verdict {
	return r.t.verdicts(m, history.ControllerManager, history.Attacher, history.Driver)
}

// orphan judges an attachment without a live pod that was not gone in time.
func (t shared) orphan(m *model.Model, u *orphan, what string) {
	deadline := model.Plus(u.since.At, model.Plus(orphanBound, m.Slack()))
	if deadline > m.End() || u.excused(m, deadline) {
		return
	}
	b, why, ref := u.blame(m)
	t.of(b).late(m, u.subject(t.of(b)), u.since.At, deadline, finding{
		at: deadline, scope: u.scope, evidence: []history.Ref{u.since.Ref, ref},
		detail: fmt.Sprintf("want VolumeAttachment %q %s gone from %q within %s + %s after %s, got it there at %s: %s",
			u.name, what, u.node, orphanBound, m.Slack(), m.Since(u.since.At), m.Since(deadline), why),
	}, history.PrefixAPI+"pods", history.PrefixAPI+"volumeattachments", history.PrefixCSI+"controller/")
}

// judgeUnpublish judges the unpublish of a volume that the backend had not had on that node for a while.
func judgeUnpublish(m *model.Model, t tally, c *model.Call) {
	node, ok := m.BackendNode(c.Node, c.NodeID, c.Done)
	place, since := model.Place{Node: node, Volume: c.Volume}, model.Minus(c.Invoked, model.PlaceFor)
	held := slices.ContainsFunc(m.Attached(place).Over(since, c.Done), func(p model.Point[bool]) bool { return p.Value })
	asked := slices.ContainsFunc(m.Attaches(place), func(a *model.Attach) bool {
		return (a.Answer == nil || a.Answer.Decision == "") && a.Invoked <= c.Done && a.Over() >= since
	})
	switch {
	case !ok || held || asked || c.Orphan || c.Injected || c.Code == codeCanceled || c.Volume == "":
	case m.Outage(node, "detach", model.Minus(c.Invoked, m.Slack()), c.Done):
	case c.OK():
		t.held(c.ID.String(), c.Scope)
	default:
		t.missing(c.ID.String(), finding{
			at: c.Done, scope: c.Scope, evidence: []history.Ref{c.Start, c.End},
			detail: fmt.Sprintf("want OK for the unpublish of volume %q, which was not attached to %q at %s or in %s before, got code %d at %s (%s)",
				c.Volume, node, m.Since(c.Invoked), model.PlaceFor, c.Code, m.Since(c.Done), c.Message),
		}, history.SourceBackend)
	}
}
