package model

import (
	"fmt"
	"slices"

	"headroom/e2e/framework/history"
)

// selects says whether the pod's node selector allows the node. A node that takes no pods is none to select.
func selects(p *Pod, n *history.Node) bool {
	for k, v := range p.Selector {
		if n.Labels[k] != v {
			return false
		}
	}
	return !n.Closed
}

// own returns the volumes of a pod that waits; false where it cannot be told, or one of them has a say in where the pod goes.
func (m *Model) own(p *Pod) (own []VolumeID, known bool) {
	for _, claim := range p.Claims {
		name := p.Namespace + "/" + claim
		v, ok := m.Volume(&Use{Claim: name})
		if !ok || m.pvs[m.volumeOf[name]].Pinned {
			return nil, false
		}
		own = append(own, v)
	}
	return own, true
}

// chances is the scheduler's arithmetic for a pod on all nodes that it may go to; false where it cannot be told.
func (m *Model) chances(p *Pod) (w Wait, known bool) {
	own, ok := m.own(p)
	if !ok {
		return Wait{}, false
	}
	for _, name := range m.names {
		at := m.places[name]
		if at.node == nil || !selects(p, at.node) {
			continue
		}
		if len(at.node.Labels) == 0 || !at.known {
			return Wait{}, false // every Node has labels: without them the history does not tell who selects it
		}
		room, unlimited, _ := m.fits(at, own, false)
		if w.Node == "" || room && (!w.Room || w.Unlimited && !unlimited) {
			w.Room, w.Node, w.Unlimited = room, name, room && unlimited
		}
		known = true
	}
	if known {
		_, _, w.Sum = m.fits(m.places[w.Node], own, true)
	}
	return w, known
}

// load is what counts on a node.
type load struct {
	of     int               // as of which change of volumes
	used   map[string]int    // by driver
	byPods map[VolumeID]bool // volumes that pods use
}

func (m *Model) load(at *place) *load {
	if at.load != nil && at.load.of == m.volumeChanges {
		return at.load
	}
	l := &load{of: m.volumeChanges, used: map[string]int{}, byPods: map[VolumeID]bool{}}
	seen := map[VolumeID]bool{}
	for _, u := range at.uses {
		v, ok := m.Volume(u)
		if !ok || !u.Lasts() {
			continue
		}
		if u.Claim != "" {
			l.byPods[v] = true
		}
		if !seen[v] {
			seen[v] = true
			l.used[v.Driver]++
		}
	}
	at.load = l
	return l
}

// fits follows nodevolumelimits/csi.go, Filter: a volume of pods there counts once and is not new; one that only a VolumeAttachment holds counts and is.
func (m *Model) fits(at *place, own []VolumeID, explain bool) (room, unlimited bool, sum string) {
	l := m.load(at)
	for i, v := range own {
		if l.byPods[v] || slices.ContainsFunc(own[:i], func(o VolumeID) bool { return o.Driver == v.Driver && !l.byPods[o] }) {
			continue // not new, or its driver's were looked at
		}
		line := at.limits[v.Driver]
		if len(line) == 0 || line[len(line)-1].Count == nil {
			unlimited = true
			if explain {
				sum = "no count of " + v.Driver
			}
			continue
		}
		n, limit := 0, int(*line[len(line)-1].Count)
		for j, o := range own[i:] {
			if o.Driver == v.Driver && !l.byPods[o] && !slices.Contains(own[i:i+j], o) {
				n++
			}
		}
		if explain {
			sum = fmt.Sprintf("%d in use and %d new of %d", l.used[v.Driver], n, limit)
		}
		if l.used[v.Driver]+n > limit {
			return false, false, sum
		}
	}
	return true, unlimited, sum
}
