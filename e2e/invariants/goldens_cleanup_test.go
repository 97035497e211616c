package invariants

import (
	"time"

	"headroom/e2e/framework/history"
)

// refusedThere is a pod p2 that was placed, could not attach and was rejected at +150 s.
func refusedThere(s *script) {
	s.quota(0, 2, 0)
	s.bench(3, 4, 0)
	s.podState(5, 2, onNode)
	s.attachment(5.5, 2, func(b *history.VolumeAttachment) { b.Attached = false })
	s.podState(150, 2, overLimit)
}

// heldByBackend has p0 run with its volume attached in the backend too.
func heldByBackend(s *script) {
	s.quota(0, 2, 0)
	s.bench(3, 4, 1)
	s.attach(0.25, "h0", accepted(1, 2))
}

// outageEnds is a node whose backend was away from +15 s to +40 s; the driver reported 1 meanwhile.
func outageEnds(s *script) {
	s.quota(0, 4, 0)
	ticking(s)
	s.info(3, 4)
	s.counted(3.2, 4)
	s.outage(15, "refuse")
	s.info(25, 1)
	s.counted(25.2, 1)
	s.outage(40, "")
}

// bystands is n1, to which nothing happens, while n2's quota falls.
func bystands(s *script) {
	s.quota(0, 8, 0)
	s.header.Params.Driver.LastGoodLife = history.Duration(10 * time.Second)
	ticking(s)
	s.info(31.5, 8)
	s.add(10, history.Event{Source: "backend", Node: "n2", Key: "quota"}, history.Backend{Quota: &history.Quota{Limit: 5}})
	s.add(35, history.Event{Source: "backend", Node: "n2", Key: "quota"}, history.Backend{Quota: &history.Quota{Limit: 2}})
}

var cleanupGoldens = []golden{
	{"rejection-cleans-up", "held", func(s *script) {
		refusedThere(s)
		s.attachment(151.5, 2, detached)
		s.beat(230, 0)
	}},
	{"rejection-cleans-up", "violated-not-deleted", func(s *script) {
		refusedThere(s)
		s.beat(230, 0)
	}},
	{"rejection-cleans-up", "violated-not-detached", func(s *script) {
		refusedThere(s)
		s.attachment(151, 2, deleting)
		s.beat(230, 0)
	}},
	{"rejection-cleans-up", "held-unpublish", func(s *script) {
		s.quota(0, 2, 0)
		s.unpublishes(5, 2, 0)
	}},
	{"rejection-cleans-up", "violated-unpublish", func(s *script) {
		s.quota(0, 2, 0)
		s.unpublishes(5, 2, 13)
	}},
	{"rejection-cleans-up", "inconclusive-gap", func(s *script) {
		refusedThere(s)
		s.lose(160, "api/volumeattachments")
		s.beat(230, 0)
	}},

	{"no-leaked-attachment", "held", func(s *script) {
		heldByBackend(s)
		s.podState(20, 0, gone)
		s.detach(22, "h0")
		s.attachment(23, 0, detached)
		s.beat(100, 0)
	}},
	{"no-leaked-attachment", "held-pod-succeeded", func(s *script) {
		heldByBackend(s)
		s.podState(20, 0, succeeded)
		s.detach(22, "h0")
		s.attachment(23, 0, detached)
		s.beat(100, 0)
	}},
	{"no-leaked-attachment", "violated-attachment-stays", func(s *script) {
		heldByBackend(s)
		s.podState(20, 0, gone)
		s.beat(100, 0)
	}},
	{"no-leaked-attachment", "violated-attacher-forgets", func(s *script) {
		heldByBackend(s)
		s.podState(20, 0, gone)
		s.attachment(21, 0, deleting)
		s.beat(100, 0)
	}},
	{"no-leaked-attachment", "violated-backend-keeps", func(s *script) {
		heldByBackend(s)
		s.podState(20, 0, gone)
		s.unpublishes(22, 0, 0)
		s.attachment(23, 0, detached)
		s.beat(100, 0)
	}},
	{"no-leaked-attachment", "inconclusive-slow", func(s *script) {
		heldByBackend(s)
		s.podState(20, 0, gone)
		s.beat(50, 3*time.Second)
		s.beat(100, 0)
	}},

	{"no-collateral", "held-pod", func(s *script) {
		s.quota(0, 8, 0)
		s.podState(1, 0, runs)
		s.quota(5, 2, 0)
		s.beat(30, 0)
	}},
	{"no-collateral", "violated-rejected-while-running", func(s *script) {
		s.podState(1, 0, runs)
		s.quota(5, 2, 0)
		s.podState(9, 0, overLimit)
		s.beat(30, 0)
	}},
	{"no-collateral", "violated-preempted", func(s *script) {
		s.podState(1, 0, runs)
		s.podState(9, 0, runs, func(b *history.Pod) { b.Disruption = preempted })
		s.beat(30, 0)
	}},
	{"no-collateral", "held-node", func(s *script) {
		bystands(s)
		s.info(41.5, 8)
	}},
	{"no-collateral", "violated-node", func(s *script) {
		bystands(s)
		s.info(41.5, 2)
	}},
	{"no-collateral", "inconclusive-gap", func(s *script) {
		bystands(s)
		s.info(41.5, 2)
		s.lose(42, "backend")
	}},

	{"recovers-after-heal", "held", func(s *script) {
		outageEnds(s)
		s.info(51, 4)
		s.counted(51.2, 4)
		s.beat(140, 0)
	}},
	{"recovers-after-heal", "violated", func(s *script) {
		outageEnds(s)
		for at := 51.0; at < 140; at += 10 {
			s.info(at, 1)
		}
	}},
	{"recovers-after-heal", "inconclusive-slow", func(s *script) {
		outageEnds(s)
		for at := 51.0; at < 140; at += 10 {
			s.info(at, 1)
		}
		s.beat(90, 5*time.Second)
	}},
	{"recovers-after-heal", "violated-not-asked", func(s *script) {
		outageEnds(s)
		s.beat(140, 0)
	}},
	{"recovers-after-heal", "violated-count-not-written", func(s *script) {
		outageEnds(s)
		for at := 51.0; at < 140; at += 10 {
			s.info(at, 4)
		}
	}},
	{"recovers-after-heal", "held-pod", func(s *script) {
		waitsForHeal(s)
		s.publishH(50, 0)
		s.podState(52, 0, runs)
		s.beat(140, 0)
	}},
	{"recovers-after-heal", "violated-pod-not-tried-again", func(s *script) {
		waitsForHeal(s)
		s.beat(150, 0)
	}},
	{"recovers-after-heal", "violated-pod-refused", func(s *script) {
		waitsForHeal(s)
		s.publishH(50, 14)
		s.beat(150, 0)
	}},
	{"recovers-after-heal", "violated-pod-attached", func(s *script) {
		waitsForHeal(s)
		s.publishH(50, 0)
		s.beat(150, 0)
	}},
}

// waitsForHeal is a pod p0 that could not attach while the backend was away for attaches, from +5 s to +40 s.
func waitsForHeal(s *script) {
	s.quota(0, 4, 0)
	s.bench(4, 1, 0)
	s.outage(5, "refuse", "attach")
	s.podState(10, 0, onNode)
	s.publishH(11, 14)
	s.outage(40, "")
}
