package invariants

import (
	"time"

	"headroom/e2e/framework/history"
)

func init() { kubeletGoldens = append(kubeletGoldens, writeGoldens...) }

// answered writes an update of the CSINode with any status; revision 0 where nothing was answered.
func (s *script) answered(at float64, rev int64, verb, requestVersion string, status int, drivers []history.CSINodeDriver) {
	op := s.op()
	body := history.Audit{User: node, Verb: verb, Resource: "csinodes", Name: testNode, RequestVersion: requestVersion}
	s.add(at-0.005, history.Event{Source: "audit", Phase: history.Invoke, Op: op, Key: "csinodes/n1"}, body)
	body.Status, body.Drivers = status, drivers
	phase := history.OK
	if status >= 400 {
		phase = history.Fail
	}
	s.add(at, history.Event{Source: "audit", Phase: phase, Op: op, Rev: rev, Key: "csinodes/n1"}, body)
}

// held writes a NodeGetInfo that the driver answers at once and the client gets after took seconds.
func (s *script) held(at, took float64, n int64) {
	op := s.op()
	out := history.CSICall{NodeID: testNode, MaxVolumes: &n, Injected: true}
	s.csi(at, took, "csi/n1", op, "NodeGetInfo", history.ClientSide, history.OK, history.CSICall{}, out)
	s.csi(at+0.01, 0.02, "csi/n1", op, "NodeGetInfo", history.DriverSide, history.OK, history.CSICall{}, out)
}

// socketGone writes what the registrar says when it closes.
func (s *script) socketGone(at float64) {
	s.add(at, history.Event{Source: "csi/n1", Node: testNode, Key: "SocketRemoved"}, history.CSICall{Side: history.ClientSide, Driver: testDriver})
}

// other is an entry of a second driver.
func other(n int32) history.CSINodeDriver {
	return history.CSINodeDriver{Name: "e", NodeID: testNode, Count: &n}
}

// owned writes a CSINode state with owners of kind Node.
func (s *script) owned(at float64, rev int64, kind string, uids ...string) {
	owners := []history.Owner{}
	for _, uid := range uids {
		owners = append(owners, history.Owner{Kind: "Node", Name: testNode, UID: uid})
	}
	s.add(at, history.Event{Source: "api/csinodes", Rev: rev, Key: testNode}, history.CSINode{Object: history.Object{Type: kind}, Owners: owners})
}

func (s *script) nodeEvent(at float64, rev int64, kind, uid string) {
	s.add(at, history.Event{Source: "api/nodes", Rev: rev, Key: testNode, Node: testNode}, history.Node{Object: history.Object{Type: kind, UID: uid}, Kubelet: "v1.36.3"})
}

// restarted is a kubelet that stops at +20 s and is there again at +22 s.
func restarted(s *script) {
	s.component(0, "kubelet@n1", "started")
	ticking(s)
	s.info(11.5, 8)
	s.component(20, "kubelet@n1", "stopping")
	s.component(20.5, "kubelet@n1", "stopped")
	s.component(22, "kubelet@n1", "started")
}

var writeGoldens = []golden{
	{"conditional-writes", "held", func(s *script) {
		s.writes(1, 10, node, "create", "", entries(8))
		s.writes(2, 11, node, "update", "10", entries(6))
		s.answered(3, 0, "update", "9", 409, nil)
		s.answered(4, 0, "update", "", 403, nil) // turned away before it was read
		s.writes(5, 12, "controller", "patch", "", entries(6))
	}},
	{"conditional-writes", "violated-patch", func(s *script) {
		s.writes(1, 10, node, "create", "", entries(8))
		s.answered(2, 11, "patch", "", 200, entries(6))
	}},
	{"conditional-writes", "violated-unconditional", func(s *script) {
		s.writes(1, 10, node, "create", "", entries(8))
		s.answered(2, 0, "update", "", 422, nil)
	}},
	{"conditional-writes", "violated-other-driver", func(s *script) {
		s.writes(1, 10, node, "create", "", append(entries(8), other(4)))
		s.writes(2, 11, node, "update", "10", append(entries(6), other(5)))
	}},
	{"conditional-writes", "inconclusive-gap", func(s *script) {
		s.writes(1, 10, node, "create", "", entries(8))
		s.writes(2, 11, node, "update", "10", entries(6))
		s.lose(3, "audit")
	}},

	{"write-budget", "held", func(s *script) {
		s.component(0, "kubelet@n1", "started")
		ticking(s)
		s.info(11.5, 6)
		s.writes(11.8, 21, node, "update", "20", entries(6))
		s.infoFails(15, 14, true)
		s.writes(18, 22, node, "update", "21", nil)
		s.register(19, true, "")
		s.info(19.2, 6)
		s.writes(19.3, 23, node, "update", "22", entries(6))
		s.writes(20, 24, node, "update", "23", entries(6)) // its annotation
	}},
	{"write-budget", "violated-minus-one", func(s *script) {
		ticking(s)
		s.info(11.5, -1)
		s.writes(11.8, 21, node, "update", "20", entries(0))
		s.info(21.5, -1)
		s.answered(21.8, 21, "update", "21", 200, entries(0))
	}},
	{"write-budget", "violated-idle", func(s *script) {
		ticking(s)
		s.info(11.5, 8)
		s.answered(11.8, 20, "update", "20", 200, entries(8))
	}},
	{"write-budget", "violated-twice-for-one-answer", func(s *script) {
		ticking(s)
		s.info(11.5, 6)
		s.writes(11.8, 21, node, "update", "20", entries(6))
		s.writes(12, 22, node, "update", "21", entries(8))
		s.writes(12.2, 23, node, "update", "22", entries(6))
	}},
	{"write-budget", "violated-annotations", func(s *script) {
		s.component(0, "kubelet@n1", "started")
		ticking(s)
		s.writes(11, 21, node, "update", "20", entries(8))
		s.writes(12, 22, node, "update", "21", entries(8))
	}},
	{"write-budget", "violated-removed-twice", func(s *script) {
		ticking(s)
		s.info(4, 8)
		s.writes(5, 21, node, "update", "20", nil)
		s.writes(6, 22, node, "update", "21", entries(8))
		s.writes(7, 23, node, "update", "22", nil)
	}},
	{"write-budget", "inconclusive-calls-lost", func(s *script) {
		ticking(s)
		s.writes(11.8, 21, node, "update", "20", entries(6))
		s.writes(12, 22, node, "update", "21", entries(8))
		s.lose(13, "csi/n1")
	}},

	{"no-stale-overwrite-kubelet", "held", func(s *script) {
		ticking(s)
		s.info(31.5, 6)
		s.writes(31.8, 21, node, "update", "20", entries(6))
		s.info(51.5, 8)
		s.writes(51.8, 22, node, "update", "21", entries(8))
	}},
	{"no-stale-overwrite-kubelet", "violated-slow-answer", func(s *script) {
		ticking(s)
		s.held(31.5, 25, 8) // leaves the driver at +31.5 s, arrives at +56.5 s
		s.info(41.5, 6)
		s.writes(41.8, 21, node, "update", "20", entries(6))
		s.writes(56.8, 22, node, "update", "21", entries(8))
	}},
	{"no-stale-overwrite-kubelet", "violated-written-late", func(s *script) {
		ticking(s)
		s.info(31.5, 5)
		s.info(32.5, 6)
		s.writes(32.8, 21, node, "update", "20", entries(6))
		s.writes(34, 22, node, "update", "21", entries(5))
	}},
	{"no-stale-overwrite-kubelet", "inconclusive-gap", func(s *script) {
		ticking(s)
		s.held(31.5, 25, 8)
		s.info(41.5, 6)
		s.writes(41.8, 21, node, "update", "20", entries(6))
		s.writes(56.8, 22, node, "update", "21", entries(8))
		s.lose(60, "csi/n1")
	}},

	{"no-ghost", "held", func(s *script) {
		ticking(s)
		s.socketGone(10)
		s.writes(10.2, 21, node, "update", "20", nil)
		s.register(20, true, "")
		s.info(20.2, 8)
		s.writes(20.4, 22, node, "update", "21", entries(8))
	}},
	{"no-ghost", "held-under-way", func(s *script) {
		ticking(s)
		s.register(10, true, "")
		s.writes(10.1, 21, node, "update", "20", nil) // the old socket goes
		s.info(10.2, 8)
		s.writes(10.4, 22, node, "update", "21", entries(8))
	}},
	{"no-ghost", "violated-in-flight", func(s *script) {
		ticking(s)
		s.held(9, 3, 8)
		s.socketGone(10)
		s.writes(10.2, 21, node, "update", "20", nil)
		s.writes(12.1, 22, node, "update", "21", entries(8))
	}},
	{"no-ghost", "violated-failed-registration", func(s *script) {
		ticking(s)
		s.register(10, false, "no quota")
		s.writes(10.3, 21, node, "update", "20", nil)
		s.writes(30, 22, node, "update", "21", entries(8))
	}},
	{"no-ghost", "inconclusive-gap", func(s *script) {
		ticking(s)
		s.writes(10.2, 21, node, "update", "20", nil)
		s.writes(12.1, 22, node, "update", "21", entries(8))
		s.lose(13, "csi/n1")
	}},

	{"tick-error-keeps", "held", func(s *script) {
		ticking(s)
		s.infoFails(11.5, 14, true)
		s.csi(21.5, 30, "csi/n1", s.op(), "NodeGetInfo", history.ClientSide, history.Unknown, history.CSICall{}, history.CSICall{Code: 4})
		s.info(52, 6)
		s.writes(52.3, 21, node, "update", "20", entries(6))
		s.beat(70, 0)
	}},
	{"tick-error-keeps", "held-socket-removed", func(s *script) {
		ticking(s)
		s.infoFails(11.5, 14, true)
		s.socketGone(11.6)
		s.writes(12, 21, node, "update", "20", nil)
		s.beat(20, 0)
	}},
	{"tick-error-keeps", "violated-count", func(s *script) {
		ticking(s)
		s.infoFails(11.5, 14, true)
		s.writes(11.8, 21, node, "update", "20", entries(0))
		s.beat(20, 0)
	}},
	{"tick-error-keeps", "violated-removed", func(s *script) {
		ticking(s)
		s.infoFails(11.5, 4, true)
		s.writes(11.8, 21, node, "update", "20", nil)
		s.beat(20, 0)
	}},
	{"tick-error-keeps", "inconclusive-gap", func(s *script) {
		ticking(s)
		s.infoFails(11.5, 14, true)
		s.writes(11.8, 21, node, "update", "20", entries(5))
		s.lose(12, "csi/n1")
		s.beat(20, 0)
	}},

	{"kubelet-restart-keeps", "held", func(s *script) {
		restarted(s)
		s.register(23, true, "")
		s.info(23.2, 8)
		s.info(33.5, 8)
	}},
	{"kubelet-restart-keeps", "held-another-count", func(s *script) {
		restarted(s)
		s.register(23, true, "")
		s.info(23.2, 6)
		s.writes(23.3, 21, node, "update", "20", entries(6))
		s.info(33.5, 6)
	}},
	{"kubelet-restart-keeps", "violated-removed", func(s *script) {
		restarted(s)
		s.writes(22.5, 21, node, "update", "20", nil)
		s.beat(40, 0)
	}},
	{"kubelet-restart-keeps", "violated-count", func(s *script) {
		restarted(s)
		s.writes(22.5, 21, node, "update", "20", entries(0))
		s.beat(40, 0)
	}},
	{"kubelet-restart-keeps", "violated-no-ticks", func(s *script) {
		restarted(s)
		s.register(23, true, "")
		s.info(23.2, 8)
		s.beat(60, 0)
	}},
	{"kubelet-restart-keeps", "inconclusive-slow", func(s *script) {
		restarted(s)
		s.register(23, true, "")
		s.info(23.2, 8)
		s.beat(34, 8*time.Second)
		s.beat(60, 0)
	}},

	{"csinode-owned", "held", func(s *script) {
		s.nodeEvent(1, 10, "ADDED", "u1")
		s.owned(1.5, 11, "ADDED", "u1")
		s.nodeEvent(20, 30, "DELETED", "u1")
		s.owned(21, 31, "DELETED", "u1")
		s.owned(25.1, 41, "ADDED", "u2") // seen before its Node
		s.nodeEvent(25.2, 40, "ADDED", "u2")
		s.beat(40, 0)
	}},
	{"csinode-owned", "violated-stale-uid", func(s *script) {
		s.nodeEvent(1, 10, "ADDED", "u1")
		s.owned(1.5, 11, "ADDED", "u1")
		s.nodeEvent(20, 30, "DELETED", "u1")
		s.owned(21, 31, "DELETED", "u1")
		s.nodeEvent(25, 40, "ADDED", "u2")
		s.owned(31, 45, "ADDED", "u1")
		s.owned(35, 46, "DELETED", "u1")
		s.beat(40, 0)
	}},
	{"csinode-owned", "violated-no-owner", func(s *script) {
		s.nodeEvent(1, 10, "ADDED", "u1")
		s.owned(1.5, 11, "ADDED")
	}},
	{"csinode-owned", "violated-two-owners", func(s *script) {
		s.nodeEvent(1, 10, "ADDED", "u1")
		s.owned(1.5, 11, "ADDED", "u1", "u0")
	}},
	{"csinode-owned", "violated-not-collected", func(s *script) {
		s.nodeEvent(1, 10, "ADDED", "u1")
		s.owned(1.5, 11, "ADDED", "u1")
		s.nodeEvent(20, 30, "DELETED", "u1")
		s.beat(90, 0)
	}},
	{"csinode-owned", "inconclusive-slow", func(s *script) {
		s.nodeEvent(1, 10, "ADDED", "u1")
		s.owned(1.5, 11, "ADDED", "u1")
		s.nodeEvent(20, 30, "DELETED", "u1")
		s.beat(60, 5*time.Second)
		s.beat(90, 0)
	}},
}
