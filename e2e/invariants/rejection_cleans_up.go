package invariants

import (
	"fmt"
	"slices"

	"headroom/e2e/framework/history"
	"headroom/e2e/invariants/model"
)

var rejectionCleansUp = Invariant{
	Name: "rejection-cleans-up",
	Claim: "the VolumeAttachments of a pod that was rejected for lack of room are gone within 60 s + slack, unless another pod uses the volume, " +
		"and the unpublish of a volume that was never attached is answered OK",
	Source:   "pkg/controller/volume/attachdetach, which lets go of the volumes of ended pods; CSI spec ControllerUnpublishVolume: idempotent",
	Boundary: history.ControllerManager,
	Others:   []history.Boundary{history.Attacher, history.Driver},
	Needs: []string{
		history.PrefixAPI + "pods", history.PrefixAPI + "volumeattachments", history.PrefixAPI + "persistentvolumeclaims",
		history.PrefixCSI + "controller/", history.SourceBackend,
	},
	New: func(p Params) Checker { return newChecker(p, &cleans{orphans: newOrphans()}) },
}

type cleans struct{ orphans }

func (r *cleans) finish(m *model.Model) []Verdict {
	t := shared{history.ControllerManager: r.rejected} // what held is the first boundary's: nobody broke it
	for _, u := range r.overdue() {
		if u.rejected != "" {
			t.orphan(m, u, fmt.Sprintf("of rejected pod %q", u.rejected))
		}
	}
	unpublished(m, t.of(history.Driver))
	return t.verdicts(history.ControllerManager, history.Attacher, history.Driver)
}

// orphan judges an attachment without a live pod that was not gone in time.
func (t shared) orphan(m *model.Model, u *orphan, what string) {
	deadline := model.Plus(u.since.At, model.Plus(orphanBound, m.Slack()))
	if deadline > m.End() || u.excused(m, deadline) {
		return
	}
	b, why, ref := u.blame(m)
	t.of(b).late(m, u.subject(), u.since.At, deadline, finding{
		at: deadline, scope: u.scope, evidence: []history.Ref{u.since.Ref, ref},
		detail: fmt.Sprintf("want VolumeAttachment %q %s gone from %q within %s + %s after %s, got it there at %s: %s",
			u.name, what, u.node, orphanBound, m.Slack(), m.Since(u.since.At), m.Since(deadline), why),
	}, history.PrefixAPI+"pods", history.PrefixAPI+"volumeattachments", history.PrefixCSI+"controller/")
}

// unpublished judges each unpublish of a volume that the backend never held on that node.
func unpublished(m *model.Model, t tally) {
	for _, c := range m.AllUnpublishes() {
		node, ok := m.BackendNode(c.Node, c.NodeID)
		held := slices.ContainsFunc(m.Attached(model.Place{Node: node, Volume: c.Volume}).Points(), func(p model.Point[bool]) bool { return p.Value })
		asked := slices.ContainsFunc(m.Attaches(model.Place{Node: node, Volume: c.Volume}), func(a *model.Attach) bool {
			return a.Answer == nil || a.Answer.Decision == ""
		})
		switch {
		case !ok || held || asked || c.Answered == "" || c.Orphan || c.Injected || c.Code == codeCanceled || c.Volume == "":
		case m.Outage(node, "detach", model.Minus(c.Invoked, m.Slack()), c.Done):
		case c.OK():
			t.held(c.ID.String(), c.Scope)
		default:
			t.missing(m, c.ID.String(), finding{
				at: c.Done, scope: c.Scope, evidence: []history.Ref{c.Start, c.End},
				detail: fmt.Sprintf("want OK for the unpublish of volume %q, which was never attached to %q, got code %d at %s (%s)",
					c.Volume, node, c.Code, m.Since(c.Done), c.Message),
			}, history.SourceBackend)
		}
	}
}
