package invariants

import (
	"time"

	"headroom/e2e/framework/history"
)

func init() { kubeletGoldens = append(kubeletGoldens, refreshGoldens...) }

func hour() *int64 { n := int64(3600); return &n }

// rarely is a registered driver with a period of an hour.
func rarely(s *script) {
	s.period(-60, 5, hour())
	s.register(1, true, "")
	s.info(1.2, 8)
	s.writes(1.4, 20, node, "create", "", entries(8))
}

// pv0 writes the PersistentVolume "pv0" with volume handle "v0".
func (s *script) pv0(at float64, rev int64) {
	s.add(at, history.Event{Source: "api/persistentvolumes", Rev: rev, Key: "pv0"}, history.PV{Object: history.Object{Type: "ADDED"}, Driver: testDriver, Handle: "v0"})
}

// publishFails writes an attacher's call that fails, as its client saw it.
func (s *script) publishFails(at float64, code uint32, message string) {
	phase := history.Fail
	if code == 4 {
		phase = history.Unknown
	}
	s.csi(at, 0.1, "csi/controller/d", s.op(), "ControllerPublishVolume", history.ClientSide, phase,
		history.CSICall{Volume: "v0", NodeID: testNode}, history.CSICall{Volume: "v0", NodeID: testNode, Code: code, Message: message})
}

// attachError writes a VolumeAttachment's errors; a code of -1 is none.
func (s *script) attachError(at float64, rev int64, code int32, message string) {
	b := history.VolumeAttachment{Object: history.Object{Type: "MODIFIED"}, Attacher: testDriver, NodeName: testNode, PVName: "pv0", AttachError: message}
	if code >= 0 {
		b.AttachCode = &code
	}
	s.add(at, history.Event{Source: "api/volumeattachments", Rev: rev, Key: "va0", Node: testNode}, b)
}

func (s *script) detachError(at float64, rev int64, code *int32) {
	s.add(at, history.Event{Source: "api/volumeattachments", Rev: rev, Key: "va0", Node: testNode}, history.VolumeAttachment{
		Object: history.Object{Type: "MODIFIED"}, Attacher: testDriver, NodeName: testNode, PVName: "pv0", Attached: true, DetachError: "busy", DetachCode: code,
	})
}

const fullError = "rpc error: code = ResourceExhausted desc = node is full"

// attaching is a volume whose attach is refused with code 8.
func attaching(s *script) {
	s.header.Versions["csi-attacher"] = "v4.12.0"
	s.pv0(0, 10)
	s.publishFails(5, 8, "node is full")
}

// kubeEvent writes a kubelet's event about the pod.
func (s *script) kubeEvent(at float64, rev int64, name string, count int32) {
	s.add(at, history.Event{Source: "api/events", Rev: rev, Key: "ns/" + name, Node: testNode}, history.KubeEvent{
		Object: history.Object{Type: "ADDED"}, Kind: "Pod", Name: "ns/p0", NameUID: "uid-p0", EventType: "Warning", Reason: limitExceeded, Count: count,
	})
}

func (s *script) rejections(at, n float64) {
	s.add(at, history.Event{Source: "metric/cell", Key: "kubelet@n1", Node: testNode}, history.Metric{
		Name: history.MetricRejections, Labels: map[string]string{"reason": limitExceeded}, Value: n,
	})
}

func (s *script) period64(at float64, rev, n int64) { s.period(at, rev, &n) }

// deletedDriver writes the deletion of the CSIDriver.
func (s *script) deletedDriver(at float64, rev int64) {
	s.add(at, history.Event{Source: "api/csidrivers", Rev: rev, Key: testDriver}, history.CSIDriver{Object: history.Object{Type: "DELETED"}, PeriodSeconds: ten()})
}

func (s *script) exited(at float64, how string) {
	s.add(at, history.Event{Source: "component/n1", Key: "kubelet@n1"}, history.Component{State: "exited", Exit: how})
}

var refreshGoldens = []golden{
	{"only-capacity-refreshes", "held", func(s *script) {
		rarely(s)
		s.claim(2, 30)
		s.pod(5, 31, "Pending", "")
		s.va(10, 32, 8)
		s.info(132, 5)
		s.pod(132.5, 33, "Failed", limitExceeded)
		s.beat(150, 0)
	}},
	{"only-capacity-refreshes", "held-tick", func(s *script) {
		rarely(s)
		s.info(3601.6, 5)
		s.beat(3620, 0)
	}},
	{"only-capacity-refreshes", "violated-other-code", func(s *script) {
		rarely(s)
		s.claim(2, 30)
		s.pod(5, 31, "Pending", "")
		s.va(10, 32, 13)
		s.info(132, 5)
		s.beat(150, 0)
	}},
	{"only-capacity-refreshes", "violated-again-and-again", func(s *script) {
		rarely(s)
		s.claim(2, 30)
		s.pod(5, 31, "Pending", "")
		s.va(10, 32, 8)
		s.info(60, 5)
		s.info(132, 5)
		s.beat(150, 0)
	}},
	{"only-capacity-refreshes", "inconclusive-gap", func(s *script) {
		rarely(s)
		s.info(132, 5)
		s.lose(140, "api/volumeattachments")
		s.beat(150, 0)
	}},

	{"period-change-applies", "held", func(s *script) {
		ticking(s)
		s.info(11.5, 8)
		s.period64(15, 6, 20)
		s.info(35, 8)
		s.info(55, 8)
		s.info(75, 8)
		s.beat(80, 0)
	}},
	{"period-change-applies", "held-unset", func(s *script) {
		ticking(s)
		s.info(11.5, 8)
		s.period(15, 6, nil)
		s.beat(60, 0)
	}},
	{"period-change-applies", "held-registration-between", func(s *script) {
		ticking(s)
		s.info(11.5, 8)
		s.period64(15, 6, 20)
		s.register(30, true, "")
		s.info(30.2, 8)
		s.info(50.5, 8)
		s.beat(60, 0)
	}},
	{"period-change-applies", "held-while-full", func(s *script) {
		ticking(s)
		s.info(11.5, 8)
		s.claim(12, 30)
		s.pod(12.1, 31, "Pending", "")
		s.va(12.2, 32, 8)
		s.period64(15, 33, 20)
		s.info(35, 8) // a tick, or a refresh for the pod that waits
		s.info(55, 8)
		s.va(60, 34, 0)
		s.info(75, 8)
		s.beat(80, 0)
	}},
	{"period-change-applies", "violated-never-while-full", func(s *script) {
		ticking(s)
		s.info(11.5, 8)
		s.claim(12, 30)
		s.pod(12.1, 31, "Pending", "")
		s.va(12.2, 32, 8)
		s.period64(15, 33, 20)
		s.beat(60, 0)
	}},
	{"period-change-applies", "violated-never", func(s *script) {
		ticking(s)
		s.info(11.5, 8)
		s.period64(15, 6, 20)
		s.beat(60, 0)
	}},
	{"period-change-applies", "violated-old-ticker", func(s *script) {
		ticking(s)
		s.info(11.5, 8)
		s.period64(15, 6, 60)
		s.info(21.5, 8)
	}},
	{"period-change-applies", "violated-two-tickers", func(s *script) {
		ticking(s)
		s.info(11.5, 8)
		s.period64(15, 6, 20)
		s.info(35, 8)
		s.info(41.5, 8)
	}},
	{"period-change-applies", "violated-unset", func(s *script) {
		ticking(s)
		s.info(11.5, 8)
		s.period(15, 6, nil)
		s.info(21.5, 8)
		s.beat(60, 0)
	}},
	{"period-change-applies", "violated-delete-missed", func(s *script) {
		ticking(s)
		s.info(11.5, 8)
		s.deletedDriver(15, 6)
		s.info(21.5, 8)
		s.beat(60, 0)
	}},
	{"period-change-applies", "inconclusive-slow", func(s *script) {
		ticking(s)
		s.info(11.5, 8)
		s.period64(15, 6, 20)
		s.beat(30, 5*time.Second)
		s.beat(60, 0)
	}},

	{"survives-garbage", "held", func(s *script) {
		ticking(s)
		s.info(11.5, -5)
		s.info(21.5, 1<<40)
		s.period64(25, 6, 9223372036)
		s.beat(60, 0)
	}},
	{"survives-garbage", "violated-overflow", func(s *script) {
		ticking(s)
		s.exited(25, "exit status 2")
		s.period64(25.1, 6, 9223372037) // the watch tells later
		s.beat(60, 0)
	}},
	{"survives-garbage", "violated-answer", func(s *script) {
		ticking(s)
		s.info(11.5, -5)
		s.exited(11.7, "exit status 2")
		s.beat(60, 0)
	}},
	{"survives-garbage", "inconclusive-no-cause", func(s *script) {
		ticking(s)
		s.exited(25, "exit status 1")
		s.beat(60, 0)
	}},
	{"survives-garbage", "inconclusive-killed", func(s *script) {
		ticking(s)
		s.info(11.5, -5)
		s.exited(12, "signal: killed")
		s.beat(60, 0)
	}},

	{"rejection-final", "held", func(s *script) {
		waiting(s)
		s.pod(132.5, 41, "Failed", limitExceeded)
		s.pod(140, 42, "Failed", limitExceeded)
		s.beat(150, 0)
	}},
	{"rejection-final", "violated", func(s *script) {
		waiting(s)
		s.pod(132.5, 41, "Failed", limitExceeded)
		s.component(135, "kubelet@n1", "started")
		s.pod(140, 42, "Pending", "")
		s.beat(150, 0)
	}},

	{"rejection-accounted", "held", func(s *script) {
		waiting(s)
		s.component(0, "kubelet@n1", "started")
		s.kubeEvent(132.4, 40, "p0.1", 1)
		s.pod(132.5, 41, "Failed", limitExceeded)
		s.rejections(150, 1)
	}},
	{"rejection-accounted", "violated-no-event", func(s *script) {
		waiting(s)
		s.pod(132.5, 41, "Failed", limitExceeded)
		s.beat(150, 0)
	}},
	{"rejection-accounted", "violated-two-events", func(s *script) {
		waiting(s)
		s.kubeEvent(132.4, 40, "p0.1", 1)
		s.kubeEvent(132.6, 42, "p0.2", 1)
		s.pod(132.5, 41, "Failed", limitExceeded)
	}},
	{"rejection-accounted", "violated-repeated-event", func(s *script) {
		waiting(s)
		s.kubeEvent(132.4, 40, "p0.1", 1)
		s.kubeEvent(132.6, 42, "p0.1", 2)
		s.pod(132.5, 41, "Failed", limitExceeded)
	}},
	{"rejection-accounted", "violated-not-counted", func(s *script) {
		waiting(s)
		s.component(0, "kubelet@n1", "started")
		s.kubeEvent(132.4, 40, "p0.1", 1)
		s.pod(132.5, 41, "Failed", limitExceeded)
		s.rejections(150, 0)
	}},
	{"rejection-accounted", "violated-counted-without-a-rejection", func(s *script) {
		waiting(s)
		s.component(0, "kubelet@n1", "started")
		s.rejections(150, 1)
	}},
	{"rejection-accounted", "inconclusive-slow", func(s *script) {
		waiting(s)
		s.pod(132.5, 41, "Failed", limitExceeded)
		s.beat(140, 5*time.Second)
		s.beat(150, 0)
	}},

	{"error-code-faithful", "held", func(s *script) {
		attaching(s)
		s.attachError(5.3, 32, 8, fullError)
		s.publishFails(7, 4, "context deadline exceeded")
		s.attachError(7.2, 33, 4, "rpc error: code = DeadlineExceeded desc = context deadline exceeded")
		s.attachError(9, 34, -1, "could not add PersistentVolume finalizer: conflict")
		s.detachError(20, 35, nil)
	}},
	{"error-code-faithful", "violated-other-code", func(s *script) {
		attaching(s)
		s.attachError(5.3, 32, 13, fullError)
	}},
	{"error-code-faithful", "violated-missing", func(s *script) {
		attaching(s)
		s.attachError(5.3, 32, -1, fullError)
	}},
	{"error-code-faithful", "violated-not-grpc", func(s *script) {
		attaching(s)
		s.attachError(9, 34, 2, "could not add PersistentVolume finalizer: conflict")
	}},
	{"error-code-faithful", "violated-detach", func(s *script) {
		code := int32(8)
		s.detachError(20, 35, &code)
	}},
	{"error-code-faithful", "inconclusive-gap", func(s *script) {
		attaching(s)
		s.attachError(5.3, 32, 13, fullError)
		s.lose(9, "csi/controller/d")
	}},
}
