package invariants

import (
	"fmt"
	"time"

	"headroom/e2e/framework/history"
	"headroom/e2e/invariants/model"
)

// nodeIDStable judges the answers about one node while its Node object stays: a node that is made anew may be known by another id.
var nodeIDStable = Invariant{
	Name:     "node-id-stable",
	Claim:    "every NodeGetInfo answer of a driver about a node has the same node id, as long as the Node is not deleted; driver restarts included",
	Source:   "kubernetes pkg/apis/storage/validation ValidateCSINodeUpdate: only allocatable may change, so the count freezes with another id",
	Boundary: history.Driver,
	Needs:    []string{history.PrefixCSI, history.PrefixAPI + "nodes"},
	New:      func(p Params) Checker { return newChecker(p, &sameID{t: tally{}, last: map[model.ID]*model.Call{}}) },
}

type sameID struct {
	t    tally
	open doneCalls
	last map[model.ID]*model.Call // the answer before
}

func (r *sameID) observe(_ *model.Model, s *model.Step) {
	r.open.observe(s, model.NodeGetInfo, history.DriverSide)
}

func (r *sameID) settle(m *model.Model, to time.Duration) time.Duration {
	for _, c := range r.open.due(to) {
		if !c.OK() || c.Orphan || c.NodeID == "" {
			continue
		}
		last := r.last[c.ID]
		switch {
		case last == nil || m.NodeGone(c.Node, last.Invoked, c.Done):
		case c.NodeID == last.NodeID:
			r.t.held(c.ID.String(), c.Scope)
		default:
			f := found(c, last.End)
			f.detail = fmt.Sprintf("want node id %q, as at %s, got %q at %s", last.NodeID, m.Since(last.Done), c.NodeID, m.Since(c.Done))
			r.t.violated(c.ID.String(), f)
		}
		r.last[c.ID] = c
	}
	return model.Forever
}

func (r *sameID) finish(m *model.Model) []Verdict { return r.t.verdicts(m, history.Driver) }
