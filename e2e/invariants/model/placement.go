package model

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"headroom/e2e/framework/history"
)

// VolumeID is a volume as the scheduler counts it: a handle that several volumes share is one.
type VolumeID struct{ Driver, Handle string }

// Stamp is a moment of an API object: when it was seen and the revision where there is one.
type Stamp struct {
	At  time.Duration
	Rev int64
	Ref history.Ref
}

// Before says whether s came before o: by revision where both have one, else by when they were seen.
func (s Stamp) Before(o Stamp) bool {
	if s.Rev > 0 && o.Rev > 0 {
		return s.Rev < o.Rev
	}
	return s.At < o.At
}

func stampOf(e history.Event) Stamp { return Stamp{At: e.At, Rev: e.Rev, Ref: e.Ref()} }

// limitsAtMost bounds the counts remembered of one driver on one node: a pod decides within the last few.
const limitsAtMost = 16

// Use is one reason why a volume counts on a node: a pod that is bound there and has not ended, or a VolumeAttachment.
type Use struct {
	// Claim is "namespace/name" of a pod's claim, PV the volume of a VolumeAttachment; the other one is "".
	Claim, PV string
	// Owner is the pod's UID, or the VolumeAttachment's name.
	Owner    string
	From, To Stamp // To.At is Forever while it lasts
}

// Lasts says whether the use has not ended.
func (u *Use) Lasts() bool { return u.To.At == Forever }

// Limit is a count of a CSINode from a moment on; nil is unlimited, be it that the count is absent or the entry.
type Limit struct {
	Stamp
	Count *int32
}

// place is what bears on placing pods on one node.
type place struct {
	node    *history.Node
	known   bool // its CSINode was seen
	limits  map[string][]Limit
	uses    []*Use
	newest  int64
	dropped time.Duration // when ended uses were last dropped
	load    *load         // nil when uses changed since
}

// placement is what the scheduler decides from: nodes, counts, and what is in use where.
type placement struct {
	pvs    map[string]history.PV
	places map[string]*place
	names  []string // of places, sorted
	// volumeChanges counts what may have changed which volume is behind a claim or a VolumeAttachment.
	volumeChanges int
	queue
}

func newPlacement() placement {
	return placement{pvs: map[string]history.PV{}, places: map[string]*place{}, queue: newQueue()}
}

func (p *placement) place(node string) *place {
	at := p.places[node]
	if at == nil {
		at = &place{limits: map[string][]Limit{}}
		p.places[node] = at
		i, _ := slices.BinarySearch(p.names, node)
		p.names = slices.Insert(p.names, i, node)
	}
	return at
}

// keepUses is how long a use that ended is kept, beyond twice the slack: a bind is judged once its revision must have been seen by all watches.
const keepUses = 10 * time.Second

// foldPlacement folds one event after all other parts of the model have. Chances are looked at again only where something that bears on them changed.
func (m *Model) foldPlacement(s Step) {
	c := change{Stamp: stampOf(s.Event)}
	switch b := s.Body.(type) {
	case *history.PV:
		m.pvs[s.Key] = *b
		if b.Type == "DELETED" {
			delete(m.pvs, s.Key)
		}
		c.volumes = true
		m.volumeChanges++
	case *history.PVC:
		c.volumes = true
		m.volumeChanges++
	case *history.Node:
		if m.place(s.Key).state(b) {
			c.node, c.kind = s.Key, ByNode
		}
	case *history.CSINode:
		if m.place(s.Key).count(s.Event, b) {
			c.node, c.kind = s.Key, ByCount
		}
	case *history.VolumeAttachment:
		if m.place(b.NodeName).use(s.Event, Use{PV: b.PVName, Owner: s.Key}, b.Type != "DELETED", m.Slack()) {
			c.node, c.kind = b.NodeName, ByAttachment
		}
	case *history.Pod:
		c.pod, c.kind = m.PodSeen(s.Key, b), ByPod
		for _, claim := range b.Claims {
			u := Use{Claim: c.pod.Namespace + "/" + claim, Owner: podKey(c.pod)}
			if b.NodeName != "" && m.place(b.NodeName).use(s.Event, u, !c.pod.Gone && !Ended(c.pod), m.Slack()) {
				c.node = b.NodeName
			}
		}
	default:
		return
	}
	m.look(m, s, c)
}

// Ended says whether a pod has come to its end: the scheduler counts it no more.
func Ended(p *Pod) bool { return p.PodPhase == "Failed" || p.PodPhase == "Succeeded" }

func podKey(p *Pod) string { return cmp.Or(p.UID, p.Name) }

// state takes a state of the Node and says whether other pods may go there now.
func (at *place) state(b *history.Node) bool {
	was := at.node
	if at.node = b; b.Type == "DELETED" {
		at.node = nil
	}
	return was == nil || at.node == nil || was.Closed != at.node.Closed || !maps.Equal(was.Labels, at.node.Labels)
}

// use begins a use or ends it, and says whether it did.
func (at *place) use(e history.Event, u Use, lasts bool, slack time.Duration) (changed bool) {
	i := slices.IndexFunc(at.uses, func(o *Use) bool { return o.Lasts() && o.Owner == u.Owner && o.Claim == u.Claim })
	switch {
	case lasts && i < 0:
		u.From, u.To, changed = stampOf(e), Stamp{At: Forever}, true
		at.uses = append(at.uses, &u)
	case !lasts && i >= 0:
		at.uses[i].To, changed = stampOf(e), true
		if e.Rev == 0 {
			// Nobody saw when it ended: it counts as short as it can have been.
			at.uses[i].To = at.uses[i].From
		}
	}
	if old := Minus(e.At, Plus(keepUses, 2*slack)); old > at.dropped {
		at.dropped = e.At
		at.uses = slices.DeleteFunc(at.uses, func(o *Use) bool { return o.To.At < old })
	}
	if changed {
		at.load = nil
	}
	return changed
}

// count takes a state of the CSINode and says whether a count changed. An older state than was seen is passed over.
func (at *place) count(e history.Event, b *history.CSINode) (changed bool) {
	if e.Rev > 0 && e.Rev <= at.newest {
		return false
	}
	changed = !at.known
	at.newest, at.known = max(at.newest, e.Rev), true
	now := map[string]*int32{}
	if b.Type != "DELETED" {
		for _, d := range b.Drivers {
			now[d.Name] = d.Count
			if _, ok := at.limits[d.Name]; !ok {
				at.limits[d.Name], changed = []Limit{{Stamp: stampOf(e), Count: d.Count}}, true
			}
		}
	}
	for driver, line := range at.limits {
		if n := line[len(line)-1].Count; !SameCount(n, now[driver]) {
			at.limits[driver], changed = keep(append(line, Limit{Stamp: stampOf(e), Count: now[driver]}), limitsAtMost), true
		}
	}
	return changed
}

// Volume returns the volume behind a use; false while it is not known, which the scheduler does not count either.
func (m *Model) Volume(u *Use) (VolumeID, bool) {
	name := u.PV
	if u.Claim != "" {
		name = m.volumeOf[u.Claim]
	}
	pv, ok := m.pvs[name]
	return VolumeID{pv.Driver, pv.Handle}, ok && pv.Driver != "" && pv.Handle != ""
}

// PV returns a PersistentVolume that exists.
func (p *placement) PV(name string) (history.PV, bool) {
	pv, ok := p.pvs[name]
	return pv, ok
}

// Uses returns why volumes count on a node: what lasts, and what ended not long ago.
func (p *placement) Uses(node string) []*Use {
	if at := p.places[node]; at != nil {
		return at.uses
	}
	return nil
}

// Limits returns the counts of a driver on a node over time, one for each change that the watch showed.
func (p *placement) Limits(id ID) []Limit {
	if at := p.places[id.Node]; at != nil {
		return at.limits[id.Driver]
	}
	return nil
}

// LivePod says whether a pod that is bound to the node, and has not ended, uses the volume.
func (m *Model) LivePod(node, pv string) bool {
	claim := m.claimOf[pv]
	return claim != "" && slices.ContainsFunc(m.Uses(node), func(u *Use) bool { return u.Lasts() && u.Claim == claim })
}

// Mounted says whether the kubelet of node says that it has a volume in use.
func (p *placement) Mounted(node string, v VolumeID) bool {
	at := p.places[node]
	return at != nil && at.node != nil && slices.Contains(at.node.VolumesInUse, "kubernetes.io/csi/"+v.Driver+"^"+v.Handle)
}
