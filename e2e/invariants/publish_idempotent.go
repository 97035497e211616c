package invariants

import (
	"fmt"

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
	Needs:    []string{history.PrefixCSI + "controller/", history.SourceBackend},
	New:      func(p Params) Checker { return newChecker(p, idempotent{}) },
}

type idempotent struct{ atEnd }

func (idempotent) finish(m *model.Model) []Verdict {
	t := tally{}
	calls := map[model.Place][]*model.Call{}
	for _, c := range m.Publishes() {
		if node, ok := m.BackendNode(c.Node, c.NodeID); ok {
			place := model.Place{Node: node, Volume: c.Volume}
			calls[place] = append(calls[place], c)
		}
	}
	for place, all := range calls {
		for _, a := range m.Attaches(place) {
			judgeRepeat(m, t, all[0].ID.String(), a)
		}
		// A repeat that the driver answers from what it knows takes nothing.
		for _, c := range all {
			if p, _ := m.Attached(place).At(c.Invoked); p.Value && c.OK() && during(m, c, place.Node).asked == 0 {
				t.held(c.ID.String(), c.Scope)
			}
		}
	}
	return t.verdicts(history.Driver)
}

func judgeRepeat(m *model.Model, t tally, name string, a *model.Attach) {
	if !a.Held || a.Answer == nil || a.Answer.Decision != history.Accepted || a.Answer.Quota == nil {
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
		t.missing(m, name, finding{
			at: a.Done, evidence: []history.Ref{before.Ref, a.Ref},
			detail: fmt.Sprintf("want the %d slots of %q that were taken before, since volume %q was attached already, got %d after the attach at %s",
				before.Value, a.Node, a.Volume, after, m.Since(a.Done)),
		}, history.SourceBackend)
		return
	}
	t.held(name, "")
}
