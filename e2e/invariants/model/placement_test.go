package model

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"headroom/e2e/framework/history"
)

// Events of the placement tests, with a revision that rises with time unless the caller gives one.
func (f *feed) node(at int, b history.Node) {
	f.add(at, history.Event{Source: "api/nodes", Key: "n1", Rev: int64(at + 1)}, b)
}

func (f *feed) counts(at int, rev int64, count int32) {
	d := history.CSINodeDriver{Name: "d"}
	if count > 0 {
		d.Count = &count
	}
	f.add(at, history.Event{Source: "api/csinodes", Key: "n1", Rev: rev}, history.CSINode{Drivers: []history.CSINodeDriver{d}})
}

func (f *feed) claimed(at int, names ...string) {
	for _, n := range names {
		f.add(at, history.Event{Source: "api/persistentvolumes", Key: "pv-" + n}, history.PV{Driver: "d", Handle: n})
		f.add(at, history.Event{Source: "api/persistentvolumeclaims", Key: "ns/" + n}, history.PVC{VolumeName: "pv-" + n})
	}
}

func (f *feed) podState(at int, uid string, b history.Pod) {
	b.UID = uid
	f.add(at, history.Event{Source: "api/pods", Key: "ns/" + uid, Rev: int64(at + 1)}, b)
}

func (f *feed) va(at int, rev int64, name, kind string) {
	f.add(at, history.Event{Source: "api/volumeattachments", Key: "va-" + name, Rev: rev},
		history.VolumeAttachment{Object: history.Object{Type: kind}, Attacher: "d", NodeName: "n1", PVName: "pv-" + name})
}

func ids(m map[VolumeID]bool) string {
	var out []string
	for v := range m {
		out = append(out, v.Handle)
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func TestInUseThroughout(t *testing.T) {
	for _, c := range []struct {
		name string
		run  func(*feed)
		want string // of a and b, from 10 s to revision 31 seen at 30 s
	}{
		{"a pod", func(f *feed) { f.podState(5, "p", history.Pod{NodeName: "n1", Claims: []string{"a"}}) }, "a"},
		{"a pod that came later", func(f *feed) { f.podState(11, "p", history.Pod{NodeName: "n1", Claims: []string{"a"}}) }, ""},
		{"a pod that left", func(f *feed) {
			f.podState(5, "p", history.Pod{NodeName: "n1", Claims: []string{"a"}})
			f.podState(20, "p", history.Pod{NodeName: "n1", Claims: []string{"a"}, PodPhase: "Succeeded"})
		}, ""},
		{"a pod, then its attachment", func(f *feed) {
			f.podState(5, "p", history.Pod{NodeName: "n1", Claims: []string{"a"}})
			f.va(12, 13, "a", "ADDED")
			f.podState(20, "p", history.Pod{Object: history.Object{Type: "DELETED"}, NodeName: "n1", Claims: []string{"a"}})
		}, "a"},
		{"an attachment that came too late", func(f *feed) {
			f.podState(5, "p", history.Pod{NodeName: "n1", Claims: []string{"a"}})
			f.podState(20, "p", history.Pod{Object: history.Object{Type: "DELETED"}, NodeName: "n1", Claims: []string{"a"}})
			f.va(22, 23, "a", "ADDED")
		}, ""},
		{"gone by revision, though seen late", func(f *feed) { f.va(5, 6, "a", "ADDED"); f.va(31, 30, "a", "DELETED") }, ""},
		{"gone after, by revision", func(f *feed) { f.va(5, 6, "a", "ADDED"); f.va(29, 32, "a", "DELETED") }, "a"},
		{"gone unseen", func(f *feed) { f.va(5, 6, "a", "ADDED"); f.va(31, 0, "a", "DELETED") }, ""},
		{"two pods, two volumes", func(f *feed) {
			f.podState(5, "p", history.Pod{NodeName: "n1", Claims: []string{"a", "b"}})
			f.podState(6, "q", history.Pod{NodeName: "n1", Claims: []string{"a"}})
		}, "a b"},
		{"on another node", func(f *feed) { f.podState(5, "p", history.Pod{NodeName: "n2", Claims: []string{"a"}}) }, ""},
		{"of no known volume", func(f *feed) { f.podState(5, "p", history.Pod{NodeName: "n1", Claims: []string{"z"}}) }, ""},
	} {
		f := newFeed(history.Header{})
		f.claimed(1, "a", "b")
		c.run(f)
		got := ids(f.InUseThroughout(ID{"n1", "d"}, 10*time.Second, Stamp{At: 30 * time.Second, Rev: 31}))
		if got != c.want {
			t.Errorf("%s: want %q, got %q", c.name, c.want, got)
		}
	}
}

func TestLimitsFollowTheNewestRevision(t *testing.T) {
	f := newFeed(history.Header{})
	f.counts(1, 10, 3)
	f.counts(2, 12, 5)
	f.counts(3, 11, 4) // an older state seen late
	f.counts(4, 13, 5) // no change
	f.add(5, history.Event{Source: "api/csinodes", Key: "n1", Rev: 14}, history.CSINode{})
	got := ""
	for _, l := range f.Limits(ID{"n1", "d"}) {
		if l.Count == nil {
			got += "none "
			continue
		}
		got += fmt.Sprint(*l.Count, " ")
	}
	if want := "3 5 none "; got != want {
		t.Errorf("want %q, got %q", want, got)
	}
}

func TestWaits(t *testing.T) {
	open := history.Node{Labels: map[string]string{"l": "1"}}
	waiting := history.Pod{Claims: []string{"a"}, Selector: map[string]string{"l": "1"}}
	said := waiting
	said.Unschedulable = "0/1 nodes are available: 1 node(s) " + VolumeLimits + "."
	bound := waiting
	bound.NodeName = "n1"
	for _, c := range []struct {
		name string
		run  func(*feed)
		want string // of each wait: room or full, what began it, from, to, and how it ended
	}{
		{"full, then a higher count, then bound", func(f *feed) {
			f.counts(2, 2, 1)
			f.podState(5, "p", waiting)
			f.podState(6, "p", said)
			f.counts(10, 11, 2)
			f.podState(11, "p", bound)
		}, "full/pod/5-10 said@6; room/count/10-11 said@10 bound; "},
		{"a count that goes", func(f *feed) { f.counts(2, 2, 1); f.podState(5, "p", waiting); f.counts(10, 11, 0) },
			"full/pod/5-10; room/count/10-... unlimited; "},
		{"unlimited, then limited", func(f *feed) { f.counts(2, 2, 0); f.podState(5, "p", waiting); f.counts(10, 11, 3) },
			"room/count/10-...; "},
		{"an attachment that ends", func(f *feed) {
			f.counts(2, 2, 1)
			f.podState(3, "q", history.Pod{Object: history.Object{Type: "DELETED"}, NodeName: "n1", Claims: []string{"b"}})
			f.va(3, 4, "b", "ADDED")
			f.podState(5, "p", waiting)
			f.va(10, 11, "b", "DELETED")
		}, "full/pod/5-10; room/attachment/10-...; "},
		{"a volume that comes later", func(f *feed) {
			f.counts(2, 2, 3)
			late := waiting
			late.Claims = []string{"z"}
			f.podState(5, "p", late)
			f.claimed(7, "z")
		}, "room/volume/7-...; "},
		{"no CSINode yet", func(f *feed) { f.podState(5, "p", waiting) }, ""},
		{"a closed node", func(f *feed) {
			f.node(2, history.Node{Labels: open.Labels, Closed: true})
			f.counts(2, 3, 3)
			f.podState(5, "p", waiting)
		}, ""},
		{"another node", func(f *feed) {
			f.node(2, history.Node{Labels: map[string]string{"l": "2"}})
			f.counts(2, 3, 3)
			f.podState(5, "p", waiting)
		}, ""},
		{"no labels on record", func(f *feed) {
			f.node(2, history.Node{})
			f.counts(2, 3, 3)
			f.podState(5, "p", history.Pod{Claims: []string{"a"}})
		}, ""},
		{"a volume of one zone", func(f *feed) {
			f.add(2, history.Event{Source: "api/persistentvolumes", Key: "pv-a"}, history.PV{Driver: "d", Handle: "a", Pinned: true})
			f.counts(2, 3, 3)
			f.podState(5, "p", waiting)
		}, ""},
		{"placed by its maker", func(f *feed) { f.counts(2, 2, 3); f.podState(5, "p", bound) }, ""},
	} {
		f := newFeed(history.Header{})
		f.node(0, open)
		f.claimed(1, "a", "b")
		// One place is taken by a pod and its attachment, for which the pod counts.
		f.podState(1, "q", history.Pod{NodeName: "n1", Claims: []string{"b"}})
		c.run(f)
		got := ""
		for _, w := range append(f.ended, f.Waiting()...) {
			got += describe(w)
		}
		if got != c.want {
			t.Errorf("%s: want %q, got %q", c.name, c.want, got)
		}
	}
}

func describe(w *Wait) string {
	text := map[bool]string{true: "room", false: "full"}[w.Room] + "/" + string(w.By) + fmt.Sprintf("/%d-", w.From.At/time.Second)
	if w.To.At == Forever {
		text += "..."
	} else {
		text += fmt.Sprint(int(w.To.At / time.Second))
	}
	if w.Unlimited {
		text += " unlimited"
	}
	if w.Explained < Forever {
		text += fmt.Sprintf(" said@%d", w.Explained/time.Second)
	}
	if w.Bound {
		text += " bound"
	}
	return text + "; "
}

func TestUsesAreDropped(t *testing.T) {
	f := newFeed(history.Header{})
	for i := range 500 {
		name := fmt.Sprint("v", i)
		f.va(i, int64(2*i+1), name, "ADDED")
		f.va(i, int64(2*i+2), name, "DELETED")
	}
	if n := len(f.Uses("n1")); n > 40 {
		t.Errorf("want only the attachments of the last seconds kept, got %d", n)
	}
}

func TestInterrupted(t *testing.T) {
	for _, c := range []struct {
		name string
		run  func(*feed)
		want bool // of kube-scheduler or csi-attacher@d, from 10 to 20 s
	}{
		{"nothing", func(*feed) {}, false},
		{"paused", func(f *feed) {
			f.add(5, history.Event{Source: "component/x", Key: "kube-scheduler"}, history.Component{State: "paused"})
		}, true},
		{"came back before", func(f *feed) {
			f.add(5, history.Event{Source: "component/x", Key: "kube-scheduler"}, history.Component{State: "stopped"})
			f.add(6, history.Event{Source: "component/x", Key: "kube-scheduler"}, history.Component{State: "started"})
		}, false},
		{"another driver's attacher", func(f *feed) {
			f.add(5, history.Event{Source: "component/x", Key: "csi-attacher@e"}, history.Component{State: "exited"})
		}, false},
		{"a fault on it", func(f *feed) {
			f.add(5, history.Event{Source: "fault", Op: "1", Key: "cut"}, history.Fault{State: "inject", Target: "csi-attacher@d"})
		}, true},
		{"a fault on it, by another name", func(f *feed) {
			f.add(5, history.Event{Source: "fault", Op: "1", Key: "cut"}, history.Fault{State: "inject", Target: "csi-attacher"})
		}, true},
		{"a fault on another kind", func(f *feed) {
			f.add(5, history.Event{Source: "fault", Op: "1", Key: "cut"}, history.Fault{State: "inject", Target: "kubelet@1"})
		}, false},
		{"a fault without a target", func(f *feed) {
			f.add(5, history.Event{Source: "fault", Op: "1", Key: "cut"}, history.Fault{State: "inject"})
		}, true},
		{"a fault on the backend", func(f *feed) {
			f.add(5, history.Event{Source: "fault", Op: "1", Key: "quota-outage"}, history.Fault{State: "inject"})
		}, false},
		{"healed before", func(f *feed) {
			f.add(5, history.Event{Source: "fault", Op: "1", Key: "cut"}, history.Fault{State: "inject"})
			f.add(6, history.Event{Source: "fault", Op: "1", Key: "cut"}, history.Fault{State: "healed"})
		}, false},
	} {
		f := newFeed(history.Header{})
		c.run(f)
		if got := f.Interrupted(10*time.Second, 20*time.Second, "kube-scheduler", "csi-attacher@d"); got != c.want {
			t.Errorf("%s: want %v, got %v", c.name, c.want, got)
		}
	}
}
