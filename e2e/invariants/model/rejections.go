package model

import (
	"time"

	"headroom/e2e/framework/history"
)

// resourceExhausted is the gRPC code by which a driver says that a node is full.
const resourceExhausted = 8

// exhaustion is what is known of one driver on one node about attach errors with code 8.
type exhaustion struct {
	open    map[string]bool // VolumeAttachments that bear the code
	cleared time.Duration   // when the last one lost it
	pods    map[string]bool // UIDs of pods that waited under one, while they are there
	left    int             // such pods that are gone
}

// rejections follow what makes a kubelet refresh a count and reject a pod.
type rejections struct {
	exhausted map[ID]*exhaustion
	handles   map[string]string // PersistentVolume -> volume handle
}

func newRejections() rejections {
	return rejections{exhausted: map[ID]*exhaustion{}, handles: map[string]string{}}
}

// foldRejection sees an object after the rest of the model did.
func (m *Model) foldRejection(e history.Event, body any) {
	switch b := body.(type) {
	case *history.PV:
		m.handles[e.Key] = b.Handle
		if b.Type == "DELETED" {
			delete(m.handles, e.Key)
		}
	case *history.VolumeAttachment:
		id := ID{b.NodeName, b.Attacher}
		x := m.exhausted[id]
		full := b.Type != "DELETED" && !b.Attached && b.AttachCode != nil && *b.AttachCode == resourceExhausted
		switch {
		case full:
			if x == nil {
				x = &exhaustion{open: map[string]bool{}, pods: map[string]bool{}}
				m.exhausted[id] = x
			}
			x.open[e.Key] = true
			for _, p := range m.PodsOn(b.NodeName, b.PVName) {
				x.pods[p.UID] = true
			}
		case x != nil && x.open[e.Key]:
			delete(x.open, e.Key)
			x.cleared = e.At
		}
	case *history.Pod:
		switch p := m.PodSeen(e.Key, b); {
		case p == nil:
		case !p.Gone:
			m.waits(p)
		default:
			m.leaves(p)
		}
	case *history.PVC:
		for _, p := range m.PodsOf(e.Key) {
			m.waits(p)
		}
	}
}

// waits notes a pod that waits under code 8.
func (m *Model) waits(p *Pod) {
	for _, a := range m.AttachmentsOf(p) {
		if x := m.exhausted[ID{p.NodeName, a.Attacher}]; x != nil && x.open[a.Name] {
			x.pods[p.UID] = true
		}
	}
}

// leaves counts a pod that waited and is gone.
func (m *Model) leaves(p *Pod) {
	for id, x := range m.exhausted {
		if id.Node == p.NodeName && x.pods[p.UID] {
			delete(x.pods, p.UID)
			x.left++
		}
	}
}

// Exhausted says whether some VolumeAttachment of the driver on the node bore attach error code 8 at t, or up to slack before, as far as was folded.
func (m *Model) Exhausted(id ID, t time.Duration) bool {
	x := m.exhausted[id]
	return x != nil && (len(x.open) > 0 || x.cleared > 0 && x.cleared >= Minus(t, m.Slack()))
}

// Waited is how many pods have waited under code 8 on that node for that driver so far.
func (m *Model) Waited(id ID) int {
	if x := m.exhausted[id]; x != nil {
		return len(x.pods) + x.left
	}
	return 0
}

// Handle is the volume handle of a PersistentVolume; "" when it is not known.
func (r *rejections) Handle(pv string) string { return r.handles[pv] }
