package invariants

import (
	"fmt"
	"slices"

	"headroom/e2e/framework/history"
	"headroom/e2e/invariants/model"
)

var attachRechecked = Invariant{
	Name:     "attach-rechecked",
	Claim:    "the backend accepts no attach when attached + 1 > limit then in force, and no publish is answered OK without the backend holding the attachment",
	Source:   "CSI spec ControllerPublishVolume: RESOURCE_EXHAUSTED when max volumes are attached",
	Boundary: history.Driver,
	Needs:    []string{history.PrefixCSI + "controller/", history.SourceBackend},
	New:      func(p Params) Checker { return newChecker(p, rechecked{}) },
}

type rechecked struct{ atEnd }

func (rechecked) finish(m *model.Model) []Verdict {
	t := tally{}
	drivers := map[model.Place]model.ID{}
	for _, c := range m.Publishes() {
		node, ok := m.BackendNode(c.Node, c.NodeID)
		if !ok {
			continue
		}
		place := model.Place{Node: node, Volume: c.Volume}
		drivers[place] = c.ID
		if c.OK() {
			judgePublished(m, t, c, place)
		}
	}
	for place, attaches := range m.AllAttaches() {
		name := place.Node
		if id, ok := drivers[place]; ok {
			name = id.String()
		}
		for _, a := range attaches {
			judgeAccepted(m, t, name, a)
		}
	}
	return t.verdicts(history.Driver)
}

// judgeAccepted looks at one decision with the state that it left. A repeat takes no slot, so a limit that fell meanwhile does not matter.
func judgeAccepted(m *model.Model, t tally, name string, a *model.Attach) {
	if a.Answer == nil || a.Answer.Decision != history.Accepted || a.Answer.Quota == nil || a.Held {
		return
	}
	if q := a.Answer.Quota; q.Attached > q.Limit-q.Foreign {
		t.missing(m, name, finding{
			at: a.Done, evidence: []history.Ref{a.Ref},
			detail: fmt.Sprintf("want at most %d attached and foreign volumes on %q, got %d + %d after volume %q was accepted at %s",
				q.Limit, a.Node, q.Attached, q.Foreign, a.Volume, m.Since(a.Done)),
		}, history.SourceBackend)
		return
	}
	t.held(name, "")
}

// judgePublished asks whether the backend held the attachment when the driver said so. An attach that arrived in time counts although its answer
// was written down a little later.
func judgePublished(m *model.Model, t tally, c *model.Call, place model.Place) {
	line := m.Attached(place)
	p, _ := line.At(c.Done)
	arrived := slices.ContainsFunc(m.Attaches(place), func(a *model.Attach) bool {
		return a.Answer != nil && a.Answer.Decision == history.Accepted && a.Invoked >= c.Invoked && a.Invoked <= c.Done && a.Done >= c.Done &&
			a.Done <= model.Plus(c.Done, m.Slack())
	})
	if p.Value || arrived {
		t.held(c.ID.String(), c.Scope)
		return
	}
	f := finding{
		at: c.Done, scope: c.Scope, evidence: []history.Ref{c.Start, c.End, p.Ref},
		detail: fmt.Sprintf("want volume %q attached to %q in the backend when the publish was answered OK, got no attachment at %s",
			place.Volume, place.Node, m.Since(c.Done)),
	}
	// A detach while the publish was under way may have come from elsewhere: who was first is not told.
	raced := slices.ContainsFunc(line.Over(c.Invoked, c.Done), func(p model.Point[bool]) bool { return p.Value }) ||
		slices.ContainsFunc(m.Unpublishes(c.Volume), func(u *model.Call) bool { return u.Node == c.Node && u.Invoked <= c.Done && u.Done >= c.Invoked })
	if raced {
		f.detail += "; but it was detached while the publish was under way"
		t.doubt(c.ID.String(), f)
		return
	}
	t.missing(m, c.ID.String(), f, history.SourceBackend)
}
