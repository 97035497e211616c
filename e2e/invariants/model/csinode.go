package model

import (
	"cmp"
	"math"
	"slices"
	"time"

	"headroom/e2e/framework/history"
)

// claimsAtMost bounds the claims kept of one revision: writes that change nothing may be many.
const claimsAtMost = 16

// Claim is one audited write that was answered with a revision. A write that changed nothing is answered with the revision that was there.
type Claim struct {
	User, Verb     string
	RequestVersion string
	At             time.Duration
	Ref            history.Ref
	Scope          string
}

// Revision is one state of a CSINode.
type Revision struct {
	Rev int64
	// At is when it was known to be in force: the audited answer where there is one, else when the watch delivered it. It is never later than
	// the At of a later revision.
	At time.Duration
	// Claims are the audited writes answered with this revision, by time.
	Claims []Claim
	// Type is the watch event's type, "" where the watch did not deliver it.
	Type string
	// Ref is the event to cite: the audited write where there is one.
	Ref     history.Ref
	Drivers []history.CSINodeDriver
	Scope   string
}

// Entry returns the driver's entry.
func (r *Revision) Entry(driver string) (history.CSINodeDriver, bool) {
	i := slices.IndexFunc(r.Drivers, func(d history.CSINodeDriver) bool { return d.Name == driver })
	if i < 0 {
		return history.CSINodeDriver{}, false
	}
	return r.Drivers[i], true
}

// SameCount compares two counts, absent ones included.
func SameCount(a, b *int32) bool { return a == b || a != nil && b != nil && *a == *b }

// CountOf is the count that a kubelet writes for a NodeGetInfo answer (pkg/volume/csi/nodeinfomanager): absent for 0 and less, at most 2^31-1.
func CountOf(answer int64) *int32 {
	if answer <= 0 {
		return nil
	}
	n := int32(min(answer, math.MaxInt32))
	return &n
}

// Removal is a delete of a CSINode that was answered with success.
type Removal struct {
	User  string
	At    time.Duration
	Ref   history.Ref
	Scope string
}

// csiNode is one CSINode over time.
type csiNode struct {
	byRev    map[int64]*Revision
	ordered  []*Revision
	removals []Removal
	unsure   []Claim // writes whose effect is unknown
	sorted   bool
	present  map[string]bool // drivers in the newest state seen
	newest   int64
}

// nodes are the CSINodes and Nodes.
type nodes struct {
	csi  map[string]*csiNode
	gone table[string, bool]
}

func newNodes() nodes { return nodes{csi: map[string]*csiNode{}, gone: table[string, bool]{}} }

func (n *nodes) csiNode(name string) *csiNode {
	c := n.csi[name]
	if c == nil {
		c = &csiNode{byRev: map[int64]*Revision{}, present: map[string]bool{}}
		n.csi[name] = c
	}
	return c
}

// revision returns the state of that number, made when it is new.
func (c *csiNode) revision(e history.Event, drivers []history.CSINodeDriver) (r *Revision, fresh bool) {
	if r = c.byRev[e.Rev]; r != nil {
		return r, false
	}
	r = &Revision{Rev: e.Rev, At: e.At, Drivers: drivers, Ref: e.Ref(), Scope: e.Scope}
	c.byRev[e.Rev], c.sorted = r, false
	c.ordered = append(c.ordered, r)
	return r, true
}

// follow ends the registration of drivers whose entry left the CSINode.
func (c *csiNode) follow(e history.Event, name string, drivers []history.CSINodeDriver, calls *calls) {
	if e.Rev <= c.newest {
		return
	}
	c.newest = e.Rev
	now := map[string]bool{}
	for _, d := range drivers {
		now[d.Name] = true
	}
	before := c.present
	c.present = now
	calls.unregister(name, e.At, e.Ref(), func(driver string) bool { return before[driver] && !now[driver] })
}

func (n *nodes) foldWatched(e history.Event, b *history.CSINode, calls *calls) {
	c := n.csiNode(e.Key)
	if b.Type == "DELETED" {
		b.Drivers = nil
	}
	if e.Rev > 0 {
		// A watch that began anew says ADDED again for what is there; the first word counts.
		if r, _ := c.revision(e, b.Drivers); r.Type == "" {
			r.Type = b.Type
		}
	}
	c.follow(e, e.Key, b.Drivers, calls)
}

func (n *nodes) foldAudit(e history.Event, b *history.Audit, calls *calls) {
	if b.Resource != "csinodes" || b.Subresource != "" || e.Phase == history.Invoke {
		return
	}
	c := n.csiNode(b.Name)
	claim := Claim{User: b.User, Verb: b.Verb, RequestVersion: b.RequestVersion, At: e.At, Ref: e.Ref(), Scope: e.Scope}
	switch {
	case e.Phase == history.Unknown:
		c.unsure = append(c.unsure, claim)
	case e.Phase != history.OK:
	case b.Verb == "delete" || b.Verb == "deletecollection":
		// What a delete answers is the state before it, or a Status: its revision is known from the watch only.
		c.removals = append(c.removals, Removal{User: b.User, At: e.At, Ref: e.Ref(), Scope: e.Scope})
	case e.Rev > 0:
		r, fresh := c.revision(e, b.Drivers)
		if !fresh && len(r.Claims) == 0 {
			r.At, r.Ref, r.Scope = min(r.At, e.At), e.Ref(), cmp.Or(e.Scope, r.Scope)
		}
		if len(r.Claims) < claimsAtMost {
			r.Claims = append(r.Claims, claim)
		}
		c.follow(e, b.Name, b.Drivers, calls)
	}
}

func (m *Model) foldNode(e history.Event, b *history.Node) {
	gone := b.Type == "DELETED"
	if p, ok := m.gone.of(e.Key).Back(0); !ok || p.Value != gone {
		m.changes++
		m.gone.of(e.Key).set(e.At, gone, e.Ref())
	}
	if b.Kubelet != "" {
		if p, ok := m.kubelets.of(e.Key).Back(0); !ok || p.Value != b.Kubelet {
			m.kubelets.of(e.Key).set(e.At, b.Kubelet, e.Ref())
		}
	}
}

// CSINodes returns the names of the CSINodes, in no order.
func (n *nodes) CSINodes() []string { return keys(n.csi) }

// Revisions returns the states of a CSINode by revision. The caller must not change them.
func (n *nodes) Revisions(name string) []*Revision {
	c := n.csi[name]
	if c == nil {
		return nil
	}
	if !c.sorted {
		slices.SortFunc(c.ordered, func(a, b *Revision) int { return cmp.Compare(a.Rev, b.Rev) })
		// A state was in force no later than the next one was seen.
		for i := len(c.ordered) - 2; i >= 0; i-- {
			c.ordered[i].At = min(c.ordered[i].At, c.ordered[i+1].At)
		}
		c.sorted = true
	}
	return c.ordered
}

// After returns the index in Revisions(name) of the first state that came into force after t.
func (n *nodes) After(name string, t time.Duration) int {
	revs := n.Revisions(name)
	i, _ := slices.BinarySearchFunc(revs, t, func(r *Revision, t time.Duration) int {
		if r.At <= t {
			return -1
		}
		return 1
	})
	return i
}

// Removals returns the audited deletes of a CSINode.
func (n *nodes) Removals(name string) []Removal {
	if c := n.csi[name]; c != nil {
		return c.removals
	}
	return nil
}

// Unsure returns the audited writes of a CSINode whose effect is unknown.
func (n *nodes) Unsure(name string) []Claim {
	if c := n.csi[name]; c != nil {
		return c.unsure
	}
	return nil
}
