package model

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"headroom/e2e/framework/history"
)

// Write is one audited write of a CSINode, as it was answered.
type Write struct {
	// Name is the CSINode's.
	Name, User, Verb, RequestVersion string
	Phase                            history.Phase
	Status                           int
	// Rev is the revision answered; 0 where there was none.
	Rev   int64
	At    time.Duration
	Ref   history.Ref
	Scope string
	// After are the entries answered. Before are those that the request was made from, where Known says that the history has them.
	Before, After []history.CSINodeDriver
	Known         bool
	// Foreign says that the run itself had somebody write in this user's name: what he wrote need not be the kubelet's.
	Foreign bool
}

// Change is one entry that a write changed; Before or After is nil where it was not there.
type Change struct {
	ID
	Before, After *history.CSINodeDriver
}

// Counts says whether the change is one of the count alone, or adds the entry.
func (c Change) Counts() bool {
	return c.After != nil && (c.Before == nil || !SameCount(c.Before.Count, c.After.Count))
}

// ByNode says whether a kubelet made the write.
func (w *Write) ByNode() bool { return strings.HasPrefix(w.User, "system:node:") && !w.Foreign }

// Idle says whether the write was answered with the very revision it was made from: it changed nothing.
func (w *Write) Idle() bool {
	return w.Phase == history.OK && w.Verb == "update" && w.Rev > 0 && w.RequestVersion == strconv.FormatInt(w.Rev, 10)
}

// Took says whether the write made a new revision.
func (w *Write) Took() bool {
	return w.Phase == history.OK && w.Rev > 0 && (w.Verb == "create" || w.Verb == "update" || w.Verb == "patch") && !w.Idle()
}

// Changes returns the entries that differ between before and after; none where that is not known.
func (w *Write) Changes() []Change {
	if !w.Known || !w.Took() {
		return nil
	}
	var out []Change
	for i := range w.After {
		after := &w.After[i]
		j := slices.IndexFunc(w.Before, func(d history.CSINodeDriver) bool { return d.Name == after.Name })
		switch {
		case j < 0:
			out = append(out, Change{ID{w.Name, after.Name}, nil, after})
		case !sameEntry(w.Before[j], *after):
			out = append(out, Change{ID{w.Name, after.Name}, &w.Before[j], after})
		}
	}
	for i := range w.Before {
		if before := &w.Before[i]; !slices.ContainsFunc(w.After, func(d history.CSINodeDriver) bool { return d.Name == before.Name }) {
			out = append(out, Change{ID{w.Name, before.Name}, before, nil})
		}
	}
	return out
}

func sameEntry(a, b history.CSINodeDriver) bool {
	return a.NodeID == b.NodeID && SameCount(a.Count, b.Count) && slices.Equal(a.TopologyKeys, b.TopologyKeys)
}

// write reads an audit event that completes a write of a CSINode; nil for every other.
func (m *Model) write(e history.Event, b *history.Audit) *Write {
	if b.Resource != "csinodes" || b.Subresource != "" || e.Phase == history.Invoke {
		return nil
	}
	w := &Write{
		Name: b.Name, User: b.User, Verb: b.Verb, RequestVersion: b.RequestVersion, Phase: e.Phase, Status: b.Status, Rev: e.Rev,
		At: e.At, Ref: e.Ref(), Scope: e.Scope, After: b.Drivers, Foreign: m.declared[[2]string{b.User, b.Name}],
	}
	if w.Verb == "create" {
		w.Known = true
	} else if c := m.csi[b.Name]; c != nil {
		if rev, err := strconv.ParseInt(b.RequestVersion, 10, 64); err == nil && c.byRev[rev] != nil && c.byRev[rev].Type != "DELETED" {
			w.Before, w.Known = c.byRev[rev].Drivers, true
		}
	}
	return w
}

// declare remembers in whose name the run writes which CSINode.
func (m *Model) declare(b *history.Workload) {
	if b.Writer != "" && strings.HasPrefix(b.Resource, "csinode") {
		m.declared[[2]string{b.Writer, b.Name}] = true
	}
}

// Faulted says whether any fault of the run lay on node at some time from from to to, whatever it was.
func (m *Model) Faulted(node string, from, to time.Duration) bool {
	return slices.ContainsFunc(m.runFaults, func(f *RunFault) bool { return f.on(node) && f.From <= to && from <= f.To })
}

// Entries returns the drivers in the newest state of a CSINode, in order.
func (n *nodes) Entries(name string) []string {
	c := n.csi[name]
	if c == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(c.present))
}
