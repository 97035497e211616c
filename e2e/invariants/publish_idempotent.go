package invariants

import (
	"fmt"
	"time"

	"headroom/e2e/framework/history"
	"headroom/e2e/invariants/model"
)

// publishIdempotent judges each attach that the backend accepted for a volume that the node had already. The backend writes its count under the lock
// under which it decides, so the count before is the last one in the history. A second slot taken under another volume's name is not seen.
var publishIdempotent = Invariant{
	Name:     "publish-idempotent",
	Claim:    "a repeated publish of the same volume on the same node takes no second slot",
	Source:   "CSI spec ControllerPublishVolume: this operation MUST be idempotent",
	Boundary: history.Driver,
	Attaches: true,
	Needs:    []string{history.PrefixCSI + "controller/", history.SourceBackend},
	New:      func(p Params) Checker { return newChecker(p, &idempotent{t: tally{}}) },
}

type idempotent struct {
	t tally
	grants
}

func (r *idempotent) settle(m *model.Model, to time.Duration) time.Duration {
	publishes, attaches := r.due(m, to)
	for _, a := range attaches {
		if id, ok := publisher(m, a); ok {
			judgeRepeat(m, r.t, id.String(), a)
		}
	}
	for _, c := range publishes {
		node, ok := m.BackendNode(c.Node, c.NodeID, c.Done)
		if !ok || !c.OK() {
			continue
		}
		// A repeat that the driver answers from what it knows takes nothing.
		place := model.Place{Node: node, Volume: c.Volume}
		if p, _ := m.Attached(place).At(c.Invoked); p.Value && during(m, c, node).asked == 0 {
			r.t.held(c.ID.String(), c.Scope)
		}
	}
	return r.needs(m)
}

func (r *idempotent) finish(m *model.Model) []Verdict { return r.t.verdicts(m, history.Driver) }

func judgeRepeat(m *model.Model, t tally, name string, a *model.Attach) {
	if !a.Held {
		return
	}
	// The count that this answer left is in the line as well, where it differs from the one before.
	points := m.Counts(a.Node).Over(0, a.Done)
	for len(points) > 0 && points[len(points)-1].Ref == a.Ref {
		points = points[:len(points)-1]
	}
	if len(points) == 0 {
		return
	}
	before := points[len(points)-1]
	if after := a.Answer.Quota.Attached; after > before.Value {
		t.missing(name, finding{
			at: a.Done, evidence: []history.Ref{before.Ref, a.Ref},
			detail: fmt.Sprintf("want the %d slots of %q that were taken before, since volume %q was attached already, got %d after the attach at %s",
				before.Value, a.Node, a.Volume, after, m.Since(a.Done)),
		}, history.SourceBackend)
		return
	}
	t.held(name, "")
}
