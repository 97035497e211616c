package model

import (
	"slices"
	"strings"
	"time"

	"headroom/e2e/framework/history"
)

// Interrupted says whether, at some time from from to to, a component of one of the kinds, given as "kube-scheduler" or in full as "csi-attacher@d", was
// down or paused, or a fault of the run may have touched it. A fault without a target touches all but the backend's own do. Ask once to is settled.
func (m *Model) Interrupted(from, to time.Duration, kinds ...string) bool {
	named := func(id string) bool {
		kind, _, _ := strings.Cut(id, "@")
		return slices.Contains(kinds, kind) || slices.Contains(kinds, id)
	}
	for id, line := range m.states {
		if named(id) && slices.ContainsFunc(line.Over(from, to), func(p Point[string]) bool { return stops(p.Value) }) {
			return true
		}
	}
	// A fault names its target as the scenario does, "driver@1", which is not the component's own name: the kind has to do.
	aimed := func(f *RunFault) bool {
		return slices.ContainsFunc(kinds, func(k string) bool { kind, _, _ := strings.Cut(k, "@"); return kind == f.kind() })
	}
	return slices.ContainsFunc(m.runFaults, func(f *RunFault) bool {
		return f.From <= to && from <= f.To && !f.backend() && (f.Target == "" || aimed(f))
	})
}

// BackendFaults returns the faults set in the backend for a node, "" for all of them, over time; a point whose Fault is "" is healed.
func (b *backend) BackendFaults(node string) *Timeline[*history.Backend] { return b.faults[node] }

// RunFaults returns the faults that the run injected, in order.
func (c *components) RunFaults() []*RunFault { return c.runFaults }

// On says whether the fault acts on the node.
func (f *RunFault) On(node string) bool { return f.on(node) }

// Changed says whether one of the components changed its state at some time after from and up to to.
func (c *components) Changed(from, to time.Duration, ids ...string) bool {
	return slices.ContainsFunc(ids, func(id string) bool { return setWithin(c.states[id], from, to) })
}

// HeldChanged says whether the number of volumes attached to a node through the API may have changed after from and up to to.
func (b *backend) HeldChanged(node string, from, to time.Duration) bool {
	return setWithin(b.held[node], from, to)
}

// setWithin says whether a value was set after from and up to to.
func setWithin[T any](l *Timeline[T], from, to time.Duration) bool {
	return slices.ContainsFunc(l.Over(from, to), func(p Point[T]) bool { return p.At > from })
}

// BackendNodes returns the names by which the backend ever knew a node.
func (b *backend) BackendNodes() []string { return sortedKeys(b.quotas) }

// SocketHidden says whether a fault of the run had taken the path of a driver's socket on node away at some time from from to to: a call then reaches
// nobody, and is on no record.
func (m *Model) SocketHidden(node string, from, to time.Duration) bool {
	return slices.ContainsFunc(m.runFaults, func(f *RunFault) bool { return f.Name == "socket-unlink" && f.on(node) && f.From <= to && from <= f.To })
}
