package invariants

import (
	"fmt"

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
	New:      func(p Params) Checker { return newChecker(p, sameID{}) },
}

type sameID struct{ atEnd }

func (sameID) finish(m *model.Model) []Verdict {
	t := tally{}
	for _, id := range m.ServedIDs() {
		var last *model.Call
		for _, c := range m.Served(id) {
			if !c.OK() || c.Orphan || c.NodeID == "" {
				continue
			}
			switch {
			case last == nil || m.NodeGone(id.Node, last.Invoked, c.Done):
			case c.NodeID == last.NodeID:
				t.held(id.String(), c.Scope)
			default:
				f := found(c, last.End)
				f.detail = fmt.Sprintf("want node id %q, as at %s, got %q at %s", last.NodeID, m.Since(last.Done), c.NodeID, m.Since(c.Done))
				t.violated(id.String(), f)
			}
			last = c
		}
	}
	return t.verdicts(history.Driver)
}
