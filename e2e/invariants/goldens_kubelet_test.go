package invariants

import (
	"time"

	"headroom/e2e/framework/history"
)

const node = "system:node:n1"

func ten() *int64 { n := int64(10); return &n }

// ticking is a registered driver with a period of 10 s and its entry.
func ticking(s *script) {
	s.period(0, 5, ten())
	s.register(1, true, "")
	s.info(1.2, 8)
	s.writes(1.4, 20, node, "create", "", entries(8))
}

// waiting is a pod that waits under code 8 from +10 s on.
func waiting(s *script) {
	ticking(s)
	s.claim(2, 30)
	s.pod(5, 31, "Pending", "")
	s.va(10, 32, 8)
}

var kubeletGoldens = []golden{
	{"one-writer", "held", func(s *script) {
		s.writes(1, 10, node, "create", "", entries(8))
		s.writes(2, 11, node, "update", "10", entries(6))
		s.writes(3, 12, "admin", "patch", "", entries(6)) // keeps the count
		s.writes(4, 13, "system:serviceaccount:kube-system:generic-garbage-collector", "delete", "", nil)
	}},
	{"one-writer", "held-declared", func(s *script) {
		s.writes(1, 10, node, "create", "", entries(8))
		s.add(1.5, history.Event{Source: "workload/p1", Phase: history.OK, Key: "update csinodes n1"},
			history.Workload{Verb: "update", Resource: "csinodes", Name: testNode, Writer: "stale"})
		s.writes(2, 11, "stale", "update", "10", entries(9))
	}},
	{"one-writer", "violated-count", func(s *script) {
		s.writes(1, 10, node, "create", "", entries(8))
		s.writes(2, 11, "controller", "update", "10", entries(9))
	}},
	{"one-writer", "violated-other-node", func(s *script) {
		s.writes(1, 10, node, "create", "", entries(8))
		s.writes(2, 11, "system:node:n2", "update", "10", entries(7))
	}},
	{"one-writer", "violated-entry-removed", func(s *script) {
		s.writes(1, 10, node, "create", "", entries(8))
		s.writes(2, 11, "controller", "patch", "", nil)
	}},
	{"one-writer", "violated-entry-added", func(s *script) {
		s.writes(1, 10, "controller", "create", "", entries(8))
	}},
	{"one-writer", "violated-deleted", func(s *script) {
		s.writes(1, 10, node, "create", "", entries(8))
		s.writes(2, 11, "admin", "delete", "", nil)
	}},
	{"one-writer", "inconclusive-unaudited", func(s *script) {
		s.writes(1, 10, node, "create", "", entries(8))
		s.watched(2, 11, "MODIFIED", entries(9))
	}},

	{"asks-every-period", "held", func(s *script) {
		ticking(s)
		for _, at := range []float64{11.5, 21.6, 33, 43} {
			s.info(at, 8)
		}
	}},
	{"asks-every-period", "held-kubelet-restart", func(s *script) {
		ticking(s)
		s.info(11.5, 8)
		s.component(13, "kubelet@n1", "stopped")
		s.component(60, "kubelet@n1", "started")
		s.register(62, true, "")
		s.info(62.2, 8)
		s.beat(73, 0)
	}},
	{"asks-every-period", "violated-never", func(s *script) {
		ticking(s)
		s.beat(20, 0)
	}},
	{"asks-every-period", "violated-late", func(s *script) {
		ticking(s)
		s.info(11.5, 8)
		s.info(30, 8)
	}},
	{"asks-every-period", "violated-shorter-period-not-applied", func(s *script) {
		n := int64(60)
		s.period(0, 5, &n)
		s.register(1, true, "")
		s.info(1.2, 8)
		s.period(20, 6, ten())
		s.info(61.5, 8)
	}},
	{"asks-every-period", "inconclusive-slow", func(s *script) {
		ticking(s)
		s.info(11.5, 8)
		s.info(30, 8)
		s.beat(31, 9*time.Second) // the heartbeat tells of the time before it
	}},
	{"asks-every-period", "inconclusive-gap", func(s *script) {
		ticking(s)
		s.info(11.5, 8)
		s.lose(12, "csi/n1")
		s.beat(40, 0)
	}},

	{"answer-to-csinode", "held", func(s *script) {
		ticking(s)
		s.info(11.5, 6)
		s.writes(11.8, 21, node, "update", "20", entries(6))
		s.info(21.5, 6) // no write needed
		s.info(31.5, 0)
		s.writes(31.9, 22, node, "update", "21", entries(0))
		s.beat(40, 0)
	}},
	{"answer-to-csinode", "held-superseded", func(s *script) {
		ticking(s)
		s.info(11.5, 6)
		s.info(11.9, 5)
		s.writes(12.3, 21, node, "update", "20", entries(5))
		s.beat(40, 0)
	}},
	{"answer-to-csinode", "violated-never", func(s *script) {
		ticking(s)
		s.info(11.5, 6)
		s.beat(20, 0)
	}},
	{"answer-to-csinode", "violated-late", func(s *script) {
		ticking(s)
		s.info(11.5, 6)
		s.writes(15, 21, node, "update", "20", entries(6))
	}},
	{"answer-to-csinode", "violated-other-value", func(s *script) {
		ticking(s)
		s.info(11.5, 6)
		s.writes(11.8, 21, node, "update", "20", entries(7))
	}},
	{"answer-to-csinode", "inconclusive-over-a-second", func(s *script) {
		ticking(s)
		s.info(11.5, 6)
		s.writes(13, 21, node, "update", "20", entries(6))
	}},
	{"answer-to-csinode", "inconclusive-slow", func(s *script) {
		ticking(s)
		s.info(11.5, 6)
		s.beat(13, 1500*time.Millisecond)
		s.writes(16, 21, node, "update", "20", entries(6))
	}},
	{"answer-to-csinode", "inconclusive-gap", func(s *script) {
		ticking(s)
		s.info(11.5, 6)
		s.lose(12, "api/csinodes")
		s.beat(20, 0)
	}},

	{"reactive-converges", "held", func(s *script) {
		waiting(s)
		s.info(132, 5)
		s.writes(132.3, 40, node, "update", "20", entries(5))
		s.pod(132.5, 41, "Failed", limitExceeded)
		s.beat(150, 0)
	}},
	{"reactive-converges", "held-driver-failed-the-refresh", func(s *script) {
		waiting(s)
		s.infoFails(132, 14, true)
		s.pod(132.5, 41, "Failed", limitExceeded)
		s.beat(150, 0)
	}},
	{"reactive-converges", "violated-still-pending", func(s *script) {
		waiting(s)
		s.info(132, 5)
		s.beat(160, 0)
	}},
	{"reactive-converges", "violated-late", func(s *script) {
		waiting(s)
		s.info(164, 5)
		s.writes(164.3, 40, node, "update", "20", entries(5))
		s.pod(165, 41, "Failed", limitExceeded)
	}},
	{"reactive-converges", "violated-not-refreshed", func(s *script) {
		waiting(s)
		s.pod(132.5, 41, "Failed", limitExceeded)
		s.beat(150, 0)
	}},
	{"reactive-converges", "violated-csinode-not-updated", func(s *script) {
		waiting(s)
		s.info(132, 5)
		s.pod(132.5, 41, "Failed", limitExceeded)
		s.beat(150, 0)
	}},
	{"reactive-converges", "inconclusive-slow", func(s *script) {
		waiting(s)
		s.beat(100, 5*time.Second)
		s.beat(160, 0)
	}},
	{"reactive-converges", "inconclusive-gap", func(s *script) {
		waiting(s)
		s.lose(100, "api/pods")
		s.beat(160, 0)
	}},
}
