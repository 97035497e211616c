package invariants

import (
	"fmt"
	"slices"
	"time"

	"headroom/e2e/framework/history"
	"headroom/e2e/invariants/model"
)

var attachRechecked = Invariant{
	Name:     "attach-rechecked",
	Claim:    "the backend accepts no attach when attached + 1 > limit then in force, and no publish is answered OK without the backend holding the attachment",
	Source:   "CSI spec ControllerPublishVolume: RESOURCE_EXHAUSTED when max volumes are attached",
	Boundary: history.Driver,
	Attaches: true,
	Needs:    []string{history.PrefixCSI + "controller/", history.SourceBackend},
	New:      func(p Params) Checker { return newChecker(p, &rechecked{t: tally{}}) },
}

type rechecked struct {
	t tally
	grants
}

// grants are publishes that were answered, and attaches that the backend accepted, until what goes with them is settled.
type grants struct {
	publishes doneCalls
	attaches  backlog[*model.Attach]
}

func (a *grants) observe(_ *model.Model, s *model.Step) {
	a.publishes.observe(s, model.Publish, history.DriverSide)
	if x := s.Attach; x != nil && x.Answer != nil && x.Answer.Decision == history.Accepted && x.Answer.Quota != nil {
		a.attaches.push(x)
	}
}

// due takes out what is settled, with what the backend wrote down a little later.
func (a *grants) due(m *model.Model, to time.Duration) ([]*model.Call, []*model.Attach) {
	return a.publishes.backlog.due(func(c *model.Call) bool { return model.Plus(c.Done, m.Slack()) <= to }),
		a.attaches.due(func(x *model.Attach) bool { return model.Plus(x.Done, m.Slack()) <= to })
}

func (a *grants) needs(m *model.Model) time.Duration {
	return min(a.publishes.needs(), model.Minus(a.attaches.oldest(func(x *model.Attach) time.Duration { return x.Invoked }), m.Slack()))
}

// publisher is the driver that was asked to publish the volume on the node while the attach was under way; false where none was.
func publisher(m *model.Model, a *model.Attach) (model.ID, bool) {
	for _, c := range slices.Backward(m.Publishes(a.Volume)) {
		node, ok := m.BackendNode(c.Node, c.NodeID, a.Done)
		if ok && node == a.Node && c.Invoked <= model.Plus(a.Done, m.Slack()) && c.Over() >= model.Minus(a.Invoked, m.Slack()) {
			return c.ID, true
		}
	}
	return model.ID{}, false
}

func (r *rechecked) settle(m *model.Model, to time.Duration) time.Duration {
	publishes, attaches := r.due(m, to)
	for _, c := range publishes {
		if node, ok := m.BackendNode(c.Node, c.NodeID, c.Done); ok && c.OK() {
			judgePublished(m, r.t, c, model.Place{Node: node, Volume: c.Volume})
		}
	}
	for _, a := range attaches {
		name := a.Node
		if id, ok := publisher(m, a); ok {
			name = id.String()
		}
		judgeAccepted(m, r.t, name, a)
	}
	return r.needs(m)
}

func (r *rechecked) finish(m *model.Model) []Verdict { return r.t.verdicts(m, history.Driver) }

// judgeAccepted looks at one decision with the state that it left. A repeat takes no slot, so a limit that fell meanwhile does not matter.
func judgeAccepted(m *model.Model, t tally, name string, a *model.Attach) {
	if a.Held {
		return
	}
	if q := a.Answer.Quota; q.Attached > q.Limit-q.Foreign {
		t.missing(name, finding{
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
		slices.ContainsFunc(m.Unpublishes(c.Volume), func(u *model.Call) bool { return u.Node == c.Node && u.Invoked <= c.Done && u.Over() >= c.Invoked })
	if raced {
		f.detail += "; but it was detached while the publish was under way"
		t.doubt(c.ID.String(), f)
		return
	}
	t.missing(c.ID.String(), f, history.SourceBackend)
}
