package invariants

import (
	"fmt"
	"time"

	"headroom/e2e/framework/history"
	"headroom/e2e/invariants/model"
)

// unnamed compares each answer of a driver on a node with the one before, where something was done to other nodes between the two and nothing to
// this one: no quota, no fault, no attach or detach, and the driver went on running. It judges only a driver that told the truth before, for one that does
// not has another mistake.
type unnamed struct {
	open doneCalls
	last map[model.ID]*model.Call // the answer before, where it counts
}

func (u *unnamed) observe(s *model.Step) { u.open.observe(s, model.NodeGetInfo, history.ClientSide) }

func (u *unnamed) settle(m *model.Model, t tally, to time.Duration) time.Duration {
	due := u.open.due(to)
	if len(due) == 0 {
		return u.open.needs()
	}
	named := namings(m)
	for _, c := range due {
		last := u.last[c.ID]
		delete(u.last, c.ID)
		if !c.OK() || c.Injected || c.Orphan {
			continue
		}
		u.last[c.ID] = c
		if last != nil && last.Done <= c.Invoked && pairable(m, last, c) {
			judgeUnnamed(m, t, last, c, named)
		}
	}
	return u.open.needs()
}

func judgeUnnamed(m *model.Model, t tally, last, c *model.Call, named []naming) {
	id := c.ID
	node, ok := m.BackendNode(id.Node, c.NodeID, c.Done)
	if !ok || len(between(named, last.Invoked, c.Done)) == 0 {
		return
	}
	from := model.Minus(last.Invoked, model.Plus(reach(m), m.Slack()))
	usable, ref, known := steadyQuota(m, node, from, c.Done)
	other, touched := touching(named, id.Node, node, from, c.Done)
	if !known || touched || other == nil || other.at < last.Invoked || last.Max != max(1, usable) || moved(m, id, node, from, c.Done) {
		return
	}
	if c.Max == last.Max {
		t.held(id.String(), c.Scope)
		return
	}
	t.missing(id.String(), finding{
		at: c.Done, scope: c.Scope, evidence: []history.Ref{last.End, c.End, other.ref, ref},
		detail: fmt.Sprintf("want the answer %d again, for nothing was done to %q since %s but to %q at %s, got %d at %s",
			last.Max, id.Node, m.Since(from), other.node, m.Since(other.at), c.Max, m.Since(c.Done)),
	}, history.PrefixCSI, history.SourceBackend)
}

// reach is how far back an answer may look.
func reach(m *model.Model) time.Duration {
	d := m.Header().Params.Driver
	return max(time.Duration(d.CacheAge), time.Duration(d.LastGoodLife))
}

// steadyQuota is what Kubernetes may use on a node, where that did not change from from to to.
func steadyQuota(m *model.Model, node string, from, to time.Duration) (int64, history.Ref, bool) {
	points := m.Quota(node).Over(from, to)
	if len(points) != 1 || points[0].Value == nil || points[0].At > from {
		return 0, history.Ref{}, false
	}
	return points[0].Value.Usable(), points[0].Ref, true
}

// touching finds the last thing that was done to another node between from and to, and whether anything was done to this one, or to all.
func touching(named []naming, node, known string, from, to time.Duration) (other *naming, touched bool) {
	some := between(named, from, to)
	for i, n := range some {
		if n.node == "" || n.node == node || n.node == known {
			return nil, true
		}
		other = &some[i]
	}
	return other, false
}

// moved says whether attachments of the node, the driver itself, or the way to it changed between from and to.
func moved(m *model.Model, id model.ID, node string, from, to time.Duration) bool {
	return m.Outage(node, "get", from, to) || m.HeldChanged(node, from, to) || m.Disturbed(id.Node, from, to) ||
		m.Changed(from, to, "driver@"+id.Node, "driver@"+id.Node+"/"+id.Driver, "driver-controller@"+id.Driver)
}
