package invariants

import (
	"fmt"
	"time"

	"headroom/e2e/framework/history"
	"headroom/e2e/invariants/model"
)

// rev is the revision of an event of these scripts: their order in time.
func rev(at float64) int64 { return int64(1000 + at*100) }

// nodeObject writes the Node that pods of these scripts select.
func (s *script) nodeObject(at float64, change ...func(*history.Node)) {
	b := history.Node{Object: history.Object{Type: "MODIFIED"}, Ready: true, Labels: map[string]string{"bench": "1"}}
	for _, f := range change {
		f(&b)
	}
	s.add(at, history.Event{Source: "api/nodes", Rev: rev(at), Key: testNode, Node: testNode}, b)
}

// volume writes volume i with its claim: "pv<i>", handle "h<i>", claim "c<i>".
func (s *script) volume(at float64, i int) {
	name := fmt.Sprintf("pv%d", i)
	s.add(at, history.Event{Source: "api/persistentvolumes", Rev: rev(at), Key: name},
		history.PV{Object: history.Object{Type: "ADDED"}, Driver: testDriver, Handle: fmt.Sprintf("h%d", i)})
	s.add(at, history.Event{Source: "api/persistentvolumeclaims", Rev: rev(at), Key: fmt.Sprintf("ns/c%d", i)},
		history.PVC{Object: history.Object{Type: "ADDED"}, VolumeName: name})
}

// podState writes a state of pod p<i> with claim c<i>.
func (s *script) podState(at float64, i int, change ...func(*history.Pod)) {
	b := history.Pod{
		Object:   history.Object{Type: "MODIFIED", UID: fmt.Sprintf("uid%d", i)},
		PodPhase: "Pending", Claims: []string{fmt.Sprintf("c%d", i)}, Scheduler: "default-scheduler", Selector: map[string]string{"bench": "1"},
	}
	for _, f := range change {
		f(&b)
	}
	s.add(at, history.Event{Source: "api/pods", Rev: rev(at), Key: fmt.Sprintf("ns/p%d", i), Node: b.NodeName}, b)
}

func onNode(b *history.Pod)    { b.NodeName = testNode }
func runs(b *history.Pod)      { b.NodeName, b.PodPhase = testNode, "Running" }
func succeeded(b *history.Pod) { b.NodeName, b.PodPhase = testNode, "Succeeded" }
func gone(b *history.Pod)      { b.NodeName, b.Type = testNode, "DELETED" }
func overLimit(b *history.Pod) { b.NodeName, b.PodPhase, b.Reason = testNode, "Failed", limitExceeded }
func says(reason string) func(*history.Pod) {
	return func(b *history.Pod) { b.Unschedulable = "0/1 nodes are available: 1 node(s) " + reason + "." }
}

func full(b *history.Pod) { says(model.VolumeLimits)(b) }

func ephemeral(b *history.Pod) { b.Ephemeral = len(b.Claims) }

// attachment writes a state of the VolumeAttachment of volume i.
func (s *script) attachment(at float64, i int, change ...func(*history.VolumeAttachment)) {
	b := history.VolumeAttachment{Object: history.Object{Type: "MODIFIED"}, Attacher: testDriver, NodeName: testNode, PVName: fmt.Sprintf("pv%d", i), Attached: true}
	for _, f := range change {
		f(&b)
	}
	s.add(at, history.Event{Source: "api/volumeattachments", Rev: rev(at), Key: fmt.Sprintf("va%d", i), Node: testNode}, b)
}

func detached(b *history.VolumeAttachment) { b.Type = "DELETED" }

func deleting(b *history.VolumeAttachment) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	b.Deleted = &at
}

// bench is a node with a count, and volumes 0 to n-1 of which the first ones are in use by pods that run.
func (s *script) bench(count int32, volumes, used int) {
	s.nodeObject(0)
	s.watched(0, rev(0), "ADDED", entries(count))
	for i := range volumes {
		s.volume(0.1, i)
	}
	for i := range used {
		s.podState(0.2, i, runs)
		s.attachment(0.3, i)
	}
}

// counted writes a new count; 0 is none.
func (s *script) counted(at float64, n int32) { s.watched(at, rev(at), "MODIFIED", entries(n)) }

// publishH writes a ControllerPublishVolume of volume 0 at the driver.
func (s *script) publishH(at float64, code uint32) { s.publish(at, "h0", code) }

// unpublishes writes a ControllerUnpublishVolume of volume i at the driver.
func (s *script) unpublishes(at float64, i int, code uint32) {
	phase := history.OK
	if code != 0 {
		phase = history.Fail
	}
	in := history.CSICall{Volume: fmt.Sprintf("h%d", i), NodeID: testNode}
	out := in
	out.Code, out.Message = code, "detach"
	s.csi(at, 0.1, "csi/controller/d", s.op(), "ControllerUnpublishVolume", history.DriverSide, phase, in, out)
}

// flushes writes a reading of the scheduler's counter.
func (s *script) flushes(at, value float64) {
	s.add(at, history.Event{Source: "metric/kube-scheduler", Key: "kube-scheduler"}, history.Metric{Name: history.MetricFlushed, Value: value})
}
