package model

import (
	"slices"
	"strings"
	"time"
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
	over    []*Wait            // stretches that the event at hand ended, but those of pods that found room at once
}

type waiter struct {
	pod  *Pod
	wait *Wait // nil while its chances cannot be told
}

func newQueue() queue { return queue{waiting: map[string]*waiter{}} }

// Waiting returns the stretches that last.
func (q *queue) Waiting() []*Wait {
	var all []*Wait
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
		q.over = append(q.over, w.wait)
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

func sortedKeys[V any](m map[string]V) []string {
	out := keys(m)
	slices.Sort(out)
	return out
}
