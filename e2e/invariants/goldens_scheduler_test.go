package invariants

import (
	"time"

	"headroom/e2e/framework/history"
)

// blocked is a pod p2 that waits because both places of the node are taken.
func blocked(s *script) {
	s.bench(2, 4, 2)
	s.podState(5, 2)
	s.podState(5.1, 2, full)
}

// blockedEphemeral is blocked with a pod whose only volume is ephemeral.
func blockedEphemeral(s *script) {
	s.bench(2, 4, 2)
	s.podState(5, 2, ephemeral)
	s.podState(5.1, 2, ephemeral, full)
}

// leaves ends pod p1 and, later, its VolumeAttachment.
func leaves(s *script, at float64) {
	s.podState(at, 1, gone)
	s.attachment(at+2, 1, detached)
}

var schedulerGoldens = []golden{
	{"bind-within-seen", "held", func(s *script) {
		s.bench(3, 4, 2)
		s.podState(5, 2)
		s.podState(5.2, 2, onNode)
		s.beat(20, 0)
	}},
	{"bind-within-seen", "held-count-fell-just-before", func(s *script) {
		s.bench(3, 4, 2)
		s.counted(4, 2)
		s.podState(5, 2)
		s.podState(5.2, 2, onNode)
		s.beat(20, 0)
	}},
	{"bind-within-seen", "held-shared-volume", func(s *script) {
		s.bench(2, 4, 2)
		s.podState(5, 3, func(b *history.Pod) { b.Claims = []string{"c1"} })
		s.podState(5.2, 3, onNode, func(b *history.Pod) { b.Claims = []string{"c1"} })
		s.beat(20, 0)
	}},
	{"bind-within-seen", "held-rose-while-it-waited", func(s *script) {
		blocked(s)
		s.counted(30, 3)
		s.podState(30.1, 2, onNode)
		s.beat(40, 0)
	}},
	{"bind-within-seen", "violated", func(s *script) {
		s.bench(2, 4, 2)
		s.podState(5, 2)
		s.podState(5.2, 2, onNode)
		s.beat(20, 0)
	}},
	{"bind-within-seen", "violated-attachment-lingers", func(s *script) {
		s.bench(2, 4, 2)
		s.podState(2, 1, gone)
		s.podState(7, 2)
		s.podState(7.2, 2, onNode)
		s.attachment(7.4, 1, detached)
		s.beat(20, 0)
	}},
	{"bind-within-seen", "inconclusive-slow", func(s *script) {
		s.bench(2, 4, 2)
		s.podState(5, 2)
		s.beat(6, 1500*time.Millisecond)
		s.podState(5.2, 2, onNode)
		s.beat(20, 0)
	}},
	{"bind-within-seen", "inconclusive-gap", func(s *script) {
		s.bench(2, 4, 2)
		s.podState(5, 2)
		s.podState(5.2, 2, onNode)
		s.lose(8, "api/volumeattachments")
		s.beat(20, 0)
	}},

	{"growth-requeues", "held", func(s *script) {
		blocked(s)
		s.counted(20, 3)
		s.podState(29, 2, onNode)
		s.beat(60, 0)
	}},
	{"growth-requeues", "violated", func(s *script) {
		blocked(s)
		s.counted(20, 3)
		s.beat(60, 0)
	}},
	{"growth-requeues", "violated-late", func(s *script) {
		blocked(s)
		s.counted(20, 3)
		s.podState(40, 2, onNode)
		s.beat(60, 0)
	}},
	{"growth-requeues", "violated-unlimited", func(s *script) {
		blocked(s)
		s.counted(20, 0)
		s.podState(320, 2, onNode)
		s.beat(330, 0)
	}},
	{"growth-requeues", "inconclusive-slow", func(s *script) {
		blocked(s)
		s.counted(20, 3)
		s.beat(35, 5*time.Second)
		s.beat(60, 0)
	}},

	{"detach-requeues", "held", func(s *script) {
		blocked(s)
		leaves(s, 20)
		s.podState(25, 2, onNode)
		s.beat(60, 0)
	}},
	{"detach-requeues", "violated", func(s *script) {
		blocked(s)
		leaves(s, 20)
		s.beat(60, 0)
	}},
	{"detach-requeues", "violated-ephemeral", func(s *script) {
		blockedEphemeral(s)
		leaves(s, 20)
		s.podState(330, 2, ephemeral, onNode)
		s.beat(340, 0)
	}},
	{"detach-requeues", "inconclusive-gap", func(s *script) {
		blocked(s)
		leaves(s, 20)
		s.lose(21, "api/pods")
		s.beat(60, 0)
	}},

	{"pending-is-explained", "held", blocked},
	{"pending-is-explained", "violated", func(s *script) {
		s.bench(2, 4, 2)
		s.podState(5, 2)
		s.beat(30, 0)
	}},
	{"pending-is-explained", "inconclusive-slow", func(s *script) {
		s.bench(2, 4, 2)
		s.podState(5, 2)
		s.beat(15, 5*time.Second)
		s.beat(30, 0)
	}},

	{"no-flush-needed", "held", func(s *script) {
		blocked(s)
		s.flushes(1, 0)
		s.counted(20, 3)
		s.podState(22, 2, onNode)
		s.flushes(60, 0)
	}},
	{"no-flush-needed", "violated", func(s *script) {
		blocked(s)
		s.flushes(1, 0)
		s.counted(20, 3)
		s.podState(318, 2, onNode)
		s.flushes(321, 1)
	}},
	{"no-flush-needed", "violated-unlimited", func(s *script) {
		blocked(s)
		s.flushes(1, 0)
		s.counted(20, 0)
		s.podState(318, 2, onNode)
		s.flushes(321, 1)
	}},
	{"no-flush-needed", "inconclusive-by-chance", func(s *script) {
		blocked(s)
		s.flushes(316, 0)
		s.counted(317, 3)
		s.podState(318, 2, onNode)
		s.flushes(321, 1)
	}},
}
