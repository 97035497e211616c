package model

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"headroom/e2e/framework/history"
)

// VolumeLimits is what the scheduler says of a node that is full (nodevolumelimits.ErrReasonMaxVolumeCountExceeded).
const VolumeLimits = "exceed max volume count"

// Kind says which kind of object changed a pod's chances.
type Kind string

const (
	ByPod        Kind = "pod"
	ByCount      Kind = "count"
	ByAttachment Kind = "attachment"
	ByNode       Kind = "node"
	ByVolume     Kind = "volume"
)

// Wait is a stretch of time in which the chances of a pod that waits for the scheduler stayed the same. Times for which they cannot be told are in none:
// a claim is not bound, a node's CSINode was not seen, the pod depends on more than node selector and volumes.
type Wait struct {
	Pod, UID, Scope string
	// OnlyEphemeral says that all its claims belong to generic ephemeral volumes.
	OnlyEphemeral bool
	// Room says that the scheduler's own arithmetic (nodevolumelimits) lets the pod onto Node; otherwise every node that it may go to is full.
	Room bool
	Node string
	// Unlimited says that there is room only because a count is absent.
	Unlimited bool
	// Sum is that arithmetic in words.
	Sum      string
	From, To Stamp // To.At is Forever while it lasts
	// By is what began it.
	By Kind
	// Said says that the pod named volume limits as the reason when it began.
	Said bool
	// Explained is when the pod first did so within the stretch; Forever if it never did.
	Explained time.Duration
	// Otherwise says that it gave a reason without volume limits within the stretch.
	Otherwise bool
	// Bound says that it ended because the pod was bound.
	Bound bool
}

// queue are the pods that wait for the scheduler.
type queue struct {
	waiting map[string]*waiter // by UID
	ended   []*Wait            // but those of pods that found room at once
}

type waiter struct {
	pod  *Pod
	wait *Wait // nil while its chances cannot be told
}

func newQueue() queue { return queue{waiting: map[string]*waiter{}} }

// Waits returns the stretches so far: what ended first, then what lasts. Those of pods that found room at once are left out once they have ended.
func (q *queue) Waits() []*Wait {
	all := slices.Clone(q.ended)
	for _, uid := range sortedKeys(q.waiting) {
		if w := q.waiting[uid].wait; w != nil {
			all = append(all, w)
		}
	}
	return all
}

// change is what one event changed.
type change struct {
	Stamp
	node    string
	kind    Kind
	pod     *Pod
	volumes bool
}

// look follows the chances of all pods that the change may bear on.
func (q *queue) look(m *Model, s Step, c change) {
	if c.pod != nil {
		q.pod(m, s, c)
	}
	switch {
	case c.volumes:
		c.kind = ByVolume
		for _, w := range q.waiting {
			if slices.ContainsFunc(w.pod.Claims, func(claim string) bool {
				name := w.pod.Namespace + "/" + claim
				return name == s.Key || m.volumeOf[name] == s.Key
			}) {
				q.judge(m, w, c)
			}
		}
	case c.node != "":
		for _, w := range q.waiting {
			if at := m.places[c.node]; c.kind == ByNode || at != nil && at.node != nil && selects(w.pod, at.node) {
				q.judge(m, w, c)
			}
		}
	}
}

// waits says whether the pod is the scheduler's to place, and nothing but node selector and volumes bears on it.
func waits(p *Pod) bool {
	return p.NodeName == "" && (p.PodPhase == "" || p.PodPhase == "Pending") && p.Deleted == nil && !p.Gone && len(p.Claims) > 0 && !p.Constrained &&
		(p.Scheduler == "" || p.Scheduler == "default-scheduler")
}

// pod takes a pod's own change.
func (q *queue) pod(m *Model, s Step, c change) {
	w, key := q.waiting[podKey(c.pod)], podKey(c.pod)
	if !waits(c.pod) {
		if w != nil {
			if w.wait != nil && c.pod.NodeName != "" {
				w.wait.Bound = true
			}
			q.end(w, c.Stamp)
			delete(q.waiting, key)
		}
		return
	}
	if w == nil {
		w = &waiter{}
		q.waiting[key] = w
	}
	w.pod = c.pod
	q.judge(m, w, c)
	if w.wait == nil {
		return
	}
	w.wait.Scope = s.Scope
	if said := c.pod.Unschedulable; strings.Contains(said, VolumeLimits) {
		w.wait.Explained = min(w.wait.Explained, s.At)
	} else if said != "" {
		w.wait.Otherwise = true
	}
}

func (q *queue) end(w *waiter, at Stamp) {
	if w.wait == nil {
		return
	}
	if w.wait.To = at; !w.wait.Room || w.wait.Said {
		q.ended = append(q.ended, w.wait)
	}
	w.wait = nil
}

// judge looks at a pod's chances again.
func (q *queue) judge(m *Model, w *waiter, c change) {
	if w.wait != nil && w.unmoved(m, c) {
		return
	}
	now, known := m.chances(w.pod)
	switch {
	case !known:
		q.end(w, c.Stamp)
		return
	case w.wait != nil && w.wait.Room == now.Room && (now.Unlimited || !w.wait.Unlimited):
		return
	}
	scope := ""
	if w.wait != nil {
		scope = w.wait.Scope
	}
	q.end(w, c.Stamp)
	now.Pod, now.UID, now.Scope, now.OnlyEphemeral = w.pod.Name, w.pod.UID, scope, w.pod.Ephemeral == len(w.pod.Claims)
	now.From, now.To, now.By, now.Explained = c.Stamp, Stamp{At: Forever}, c.kind, Forever
	if now.Said = strings.Contains(w.pod.Unschedulable, VolumeLimits); now.Said {
		now.Explained = c.At
	}
	w.wait = &now
}

// unmoved says whether a change of one node leaves the pod's chances as they are: most do, and there may be many nodes.
func (w *waiter) unmoved(m *Model, c change) bool {
	if c.node == "" || c.kind == ByNode || c.pod != nil && c.pod.UID == w.pod.UID {
		return false
	}
	if w.wait.Room && w.wait.Node != c.node {
		return !w.wait.Unlimited
	}
	own, known := m.own(w.pod)
	room, unlimited, _ := m.fits(m.places[c.node], own, false)
	return known && room == w.wait.Room && (!room || unlimited == w.wait.Unlimited)
}

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

func sortedKeys[V any](m map[string]V) []string {
	out := keys(m)
	slices.Sort(out)
	return out
}
