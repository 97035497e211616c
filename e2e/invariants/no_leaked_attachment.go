package invariants

import (
	"fmt"
	"slices"
	"time"

	"headroom/e2e/framework/history"
	"headroom/e2e/invariants/model"
)

var noLeakedAttachment = Invariant{
	Name: "no-leaked-attachment",
	Claim: "a VolumeAttachment outlives the last live pod on its node that uses the volume by 60 s + slack at most, and what the backend holds attached " +
		"outlives the VolumeAttachment by no more; rejected pods are rejection-cleans-up's",
	Source:   "pkg/controller/volume/attachdetach; external-attacher, which removes its finalizer after the unpublish",
	Boundary: history.ControllerManager,
	Others:   []history.Boundary{history.Attacher, history.Driver},
	Needs: []string{
		history.PrefixAPI + "pods", history.PrefixAPI + "volumeattachments", history.PrefixAPI + "persistentvolumeclaims",
		history.PrefixAPI + "persistentvolumes", history.PrefixCSI + "controller/", history.SourceBackend,
	},
	New: func(p Params) Checker {
		return newChecker(p, newLeaks())
	},
}

// leftover is what the backend holds attached though no VolumeAttachment asks for it.
type leftover struct {
	place  model.Place
	driver string
	scope  string
	since  model.Stamp
	// to is when the backend let go of it, or a VolumeAttachment came for it; At is Forever while neither did.
	to     model.Stamp
	judged bool
}

type leaks struct {
	orphans
	t    shared
	left map[model.Place]*leftover
	over backlog[*leftover]
}

func newLeaks() *leaks {
	o := newOrphans()
	return &leaks{orphans: o, t: shared{history.ControllerManager: o.ended}, left: map[model.Place]*leftover{}}
}

func (r *leaks) observe(m *model.Model, s *model.Step) {
	r.orphans.observe(m, s)
	switch b := s.Body.(type) {
	case *history.Backend:
		if s.Key == "detach" && s.Phase == history.OK {
			r.end(model.Place{Node: s.Node, Volume: b.Volume}, s)
		}
	case *history.VolumeAttachment:
		pv, ok := m.PV(b.PVName)
		if !ok {
			return
		}
		at := model.Place{Node: b.NodeName, Volume: pv.Handle}
		if b.Type != "DELETED" {
			r.end(at, s)
		} else if held, _ := m.Attached(at).Back(0); held.Value && !r.wanted(m, at) {
			r.left[at] = &leftover{
				place: at, driver: b.Attacher, scope: s.Scope, since: model.Stamp{At: s.At, Rev: s.Rev, Ref: s.Ref()}, to: model.Stamp{At: model.Forever},
			}
		}
	}
}

// wanted says whether another VolumeAttachment on the node names the same handle.
func (r *leaks) wanted(m *model.Model, at model.Place) bool {
	for _, va := range r.attached[at.Node] {
		if pv, ok := m.PV(va.PVName); ok && pv.Handle == at.Volume {
			return true
		}
	}
	return false
}

func (r *leaks) end(at model.Place, s *model.Step) {
	if l := r.left[at]; l != nil {
		l.to = model.Stamp{At: s.At, Rev: s.Rev, Ref: s.Ref()}
		r.over.push(l)
		delete(r.left, at)
	}
}

func (r *leaks) settle(m *model.Model, to time.Duration) time.Duration {
	for _, u := range r.overdue(to) {
		if u.rejected == "" {
			r.t.orphan(m, u, "without a live pod")
		}
	}
	for _, l := range r.over.due(func(l *leftover) bool { return l.to.At <= to }) {
		l.judge(m, r.t)
	}
	for _, l := range r.left {
		if l.deadline(m) <= to {
			l.judge(m, r.t)
		}
	}
	return model.Forever
}

func (r *leaks) finish(m *model.Model) []Verdict {
	return r.t.verdicts(m, history.ControllerManager, history.Attacher, history.Driver)
}

func (l *leftover) deadline(m *model.Model) time.Duration {
	return model.Plus(l.since.At, model.Plus(orphanBound, m.Slack()))
}

// judge wants the backend to let go in time. Whoever said that the volume was detached is to blame: the driver, where it answered OK.
func (l *leftover) judge(m *model.Model, t shared) {
	deadline := l.deadline(m)
	if l.judged || l.to.At <= deadline || deadline > m.End() {
		return
	}
	l.judged = true
	name := model.ID{Node: l.place.Node, Driver: l.driver}.String()
	f := finding{at: deadline, scope: l.scope, evidence: []history.Ref{l.since.Ref}}
	blamed, why := history.Attacher, "the driver was not asked to detach it"
	if c := lastUnpublish(m, l, deadline); c != nil {
		blamed, why = history.Driver, "the driver answered the unpublish with OK at "+m.Since(c.Done)
		f.evidence = append(f.evidence, c.End)
	}
	if !m.Outage(l.place.Node, "detach", model.Minus(l.since.At, settle), deadline) {
		f.detail = fmt.Sprintf("want volume %q off node %q in the backend within %s + %s after its VolumeAttachment was gone at %s, got it attached at %s: %s",
			l.place.Volume, l.place.Node, orphanBound, m.Slack(), m.Since(l.since.At), m.Since(deadline), why)
		t.of(blamed).late(m, name, l.since.At, deadline, f, history.SourceBackend, history.PrefixAPI+"volumeattachments")
	}
}

// lastUnpublish is the last call since the volume was attached that the driver answered with OK, nil without one.
func lastUnpublish(m *model.Model, l *leftover, deadline time.Duration) *model.Call {
	attached, _ := m.Attached(l.place).At(l.since.At)
	for _, c := range slices.Backward(m.Unpublishes(l.place.Volume)) {
		if c.Driver == l.driver && c.Node == l.place.Node && c.OK() && c.Done >= attached.At && c.Done <= deadline {
			return c
		}
	}
	return nil
}
