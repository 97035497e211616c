package model

import (
	"time"

	"headroom/e2e/framework/history"
)

// Pod is the newest state of a pod seen.
type Pod struct {
	history.Pod
	// Name is namespace/name.
	Name, Namespace string
	// Gone says that it was deleted.
	Gone bool
	Ref  history.Ref
}

// Attachment is the newest state of a VolumeAttachment seen.
type Attachment struct {
	history.VolumeAttachment
	Name string
	Gone bool
	Ref  history.Ref
}

type onNode struct{ node, pv string }

// objects joins pods, claims, volumes and attachments by the newest state seen of each.
type objects struct {
	periods     table[string, *int64]
	longest     Timeline[time.Duration]    // the longest period of any driver so far
	pods        map[string]*Pod            // by UID, or by name without one
	podsOf      map[string]map[string]*Pod // claim "ns/name" -> pods
	volumeOf    map[string]string          // claim -> volume
	claimOf     map[string]string          // volume -> claim
	attachments map[onNode]*Attachment
	deleted     []goneObject // what was deleted of late, oldest first
}

// goneFor is how long a deleted object is remembered.
const goneFor = 2 * time.Minute

// goneObject is a deleted pod, by its UID, or a deleted attachment.
type goneObject struct {
	at         time.Duration
	uid        string
	attachment onNode
}

// forget drops what was deleted long ago, unless it has come again.
func (o *objects) forget(now time.Duration) {
	for len(o.deleted) > 0 && o.deleted[0].at < Minus(now, goneFor) {
		g := o.deleted[0]
		o.deleted = o.deleted[1:]
		if p := o.pods[g.uid]; p != nil && p.Gone {
			delete(o.pods, g.uid)
		}
		if a := o.attachments[g.attachment]; a != nil && a.Gone {
			delete(o.attachments, g.attachment)
		}
	}
}

func newObjects() objects {
	return objects{
		periods: table[string, *int64]{}, pods: map[string]*Pod{}, podsOf: map[string]map[string]*Pod{},
		volumeOf: map[string]string{}, claimOf: map[string]string{}, attachments: map[onNode]*Attachment{},
	}
}

func (o *objects) foldObject(e history.Event, body any) {
	switch b := body.(type) {
	case *history.CSIDriver:
		period := b.PeriodSeconds
		if b.Type == "DELETED" {
			period = nil
		}
		if p, ok := o.periods.of(e.Key).Back(0); !ok || !samePeriod(p.Value, period) {
			o.periods.of(e.Key).set(e.At, period, e.Ref())
			o.follow(e.At, period, e.Ref())
		}
	case *history.PVC:
		delete(o.claimOf, o.volumeOf[e.Key])
		delete(o.volumeOf, e.Key)
		if b.VolumeName != "" && b.Type != "DELETED" {
			o.volumeOf[e.Key], o.claimOf[b.VolumeName] = b.VolumeName, e.Key
		}
	case *history.Pod:
		o.foldPod(e, b)
	case *history.VolumeAttachment:
		key := onNode{b.NodeName, b.PVName}
		// A new attachment of the same volume may be seen before the end of the old one.
		if old := o.attachments[key]; b.Type == "DELETED" && old != nil && old.Name != e.Key {
			return
		}
		o.attachments[key] = &Attachment{VolumeAttachment: *b, Name: e.Key, Gone: b.Type == "DELETED", Ref: e.Ref()}
		if b.Type == "DELETED" {
			o.deleted = append(o.deleted, goneObject{at: e.At, attachment: key})
		}
	}
}

func (o *objects) foldPod(e history.Event, b *history.Pod) {
	uid := b.UID
	if uid == "" {
		uid = e.Key
	}
	p := &Pod{Pod: *b, Name: e.Key, Namespace: namespace(e.Key), Gone: b.Type == "DELETED", Ref: e.Ref()}
	o.forget(e.At)
	o.pods[uid] = p
	if p.Gone {
		o.deleted = append(o.deleted, goneObject{at: e.At, uid: uid})
	}
	for _, claim := range b.Claims {
		claim = p.Namespace + "/" + claim
		if o.podsOf[claim] == nil {
			o.podsOf[claim] = map[string]*Pod{}
		}
		o.podsOf[claim][uid] = p
		if p.Gone {
			delete(o.podsOf[claim], uid)
		}
		if len(o.podsOf[claim]) == 0 {
			delete(o.podsOf, claim)
		}
	}
}

func namespace(key string) string {
	for i := range len(key) {
		if key[i] == '/' {
			return key[:i]
		}
	}
	return ""
}

func samePeriod(a, b *int64) bool { return a == b || a != nil && b != nil && *a == *b }

// Period returns CSIDriver.spec.nodeAllocatableUpdatePeriodSeconds of a driver over time, one point per change; nil is no refresh.
func (o *objects) Period(driver string) *Timeline[*int64] { return o.periods[driver] }

// PeriodThroughout says whether the driver had a period all the time from from to to.
func (o *objects) PeriodThroughout(driver string, from, to time.Duration) bool {
	points := o.periods[driver].Over(from, to)
	for _, p := range points {
		if p.Value == nil {
			return false
		}
	}
	return len(points) > 0 && points[0].At <= from
}

// PodSeen returns the state that a pod event left.
func (o *objects) PodSeen(key string, b *history.Pod) *Pod {
	if b.UID != "" {
		key = b.UID
	}
	return o.pods[key]
}

// PodsOf returns the pods, not gone, that use the claim "namespace/name".
func (o *objects) PodsOf(claim string) []*Pod {
	var out []*Pod
	for _, p := range o.podsOf[claim] {
		out = append(out, p)
	}
	return out
}

// PodsOn returns the pods bound to node, not gone, that use the volume.
func (o *objects) PodsOn(node, pv string) []*Pod {
	var out []*Pod
	for _, p := range o.podsOf[o.claimOf[pv]] {
		if p.NodeName == node {
			out = append(out, p)
		}
	}
	return out
}

// AttachmentsOf returns the attachments, existing or just gone, of the pod's volumes on its node.
func (o *objects) AttachmentsOf(p *Pod) []*Attachment {
	var out []*Attachment
	for _, claim := range p.Claims {
		if pv := o.volumeOf[p.Namespace+"/"+claim]; pv != "" {
			if a := o.attachments[onNode{p.NodeName, pv}]; a != nil {
				out = append(out, a)
			}
		}
	}
	return out
}
