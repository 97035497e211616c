package invariants

import (
	"fmt"
	"time"

	"headroom/e2e/framework/history"
)

// steps makes the script's driver one that declares a minimum interval of 1 s and rises by 2 per 10 s.
func (s *script) steps() {
	d := &s.header.Params.Driver
	d.MinInterval, d.Step, d.StepInterval = history.Duration(time.Second), 2, history.Duration(10*time.Second)
}

// truth writes a change of the quota.
func (s *script) truth(at float64, q history.Quota) {
	s.add(at, history.Event{Source: "backend", Node: testNode, Key: "quota"}, history.Backend{Quota: &q})
}

// asks writes a quota query of node by the instance that the backend knows by the node's name, and its answer.
func (s *script) asks(at float64, node string, q history.Quota) {
	op := s.op()
	s.add(at, history.Event{Source: "backend", Phase: history.Invoke, Op: op, Node: node, Key: "get"}, history.Backend{Holder: node})
	s.add(at+0.005, history.Event{Source: "backend", Phase: history.OK, Op: op, Node: node, Key: "get"}, history.Backend{Holder: node, Quota: &q, Status: 200})
}

// volumes writes attaches of new volumes, as many as it takes to have from+1..to attached under a limit.
func (s *script) volumes(at float64, from, to, limit int64) {
	for n := from + 1; n <= to; n++ {
		volume := fmt.Sprintf("v%d", n)
		s.publish(at, volume, 0)
		s.attach(at+0.02, volume, accepted(n, limit))
		at += 0.2
	}
}

func generation(n, limit int64) history.Quota { return history.Quota{Generation: n, Limit: limit} }

// fleet writes what a driver on n nodes asks over 22 periods of 10 s, each node at its own phase in seconds.
func (s *script) fleet(n int, phase func(node, period int) float64) {
	ten := int64(10)
	s.period(0, 5, &ten)
	for i := range n {
		node := fmt.Sprintf("n%d", i+1)
		s.add(0, history.Event{Source: "backend", Node: node, Key: "quota"}, history.Backend{Quota: &history.Quota{Limit: 4}})
		count := int64(4)
		body := history.CSICall{Side: history.DriverSide, Driver: testDriver, NodeID: node, MaxVolumes: &count}
		e := history.Event{Source: "csi/" + node, Phase: history.Invoke, Op: "a", Node: node, Key: "NodeGetInfo"}
		s.add(1, e, history.CSICall{Side: history.DriverSide, Driver: testDriver})
		e.Phase = history.OK
		s.add(1.1, e, body)
		for p := range 22 {
			s.asks(float64(10+10*p)+phase(i, p), node, generation(1, 4))
		}
	}
}

// drift answers NodeGetInfo with another node id each time.
func (s *script) drift(at float64, ids ...string) {
	for _, id := range ids {
		n := int64(4)
		s.csi(at, 0.02, "csi/n1", s.op(), "NodeGetInfo", history.DriverSide, history.OK, history.CSICall{}, history.CSICall{NodeID: id, MaxVolumes: &n})
		at += 10
	}
}

// allForeign is what a node that is full by 3 foreign attachments tells.
var allForeign = history.Quota{Generation: 1, Limit: 3, Foreign: 3}

var capacityGoldens = []golden{
	{"total-not-remaining", "held-total", func(s *script) {
		s.truth(0, generation(1, 8))
		s.info(20, 8)
		s.volumes(25, 0, 2, 8)
		s.asks(40, testNode, history.Quota{Generation: 1, Limit: 8, Attached: 2})
		s.info(45, 8)
		s.component(46, "driver@n1/d", "exited")
		s.component(47, "driver@n1/d", "started")
		s.info(48, 8)
	}},
	{"total-not-remaining", "violated-remaining", func(s *script) {
		s.truth(0, generation(1, 8))
		s.info(20, 8)
		s.volumes(25, 0, 2, 8)
		s.asks(40, testNode, history.Quota{Generation: 1, Limit: 8, Attached: 2})
		s.info(45, 6)
	}},
	{"total-not-remaining", "violated-remaining-down-to-one", func(s *script) {
		s.truth(0, generation(1, 3))
		s.info(20, 2)
		s.volumes(25, 0, 3, 3)
		s.asks(40, testNode, history.Quota{Generation: 1, Limit: 3, Attached: 3})
		s.info(45, 1) // 0 is left, which cannot be answered
	}},

	{"publish-idempotent", "held-same-count", func(s *script) {
		s.truth(0, generation(1, 3))
		s.volumes(1, 0, 1, 3)
		s.publish(3, "v1", 0)
		s.attach(3.02, "v1", accepted(1, 3))
	}},
	{"publish-idempotent", "held-answered-from-memory", func(s *script) {
		s.truth(0, generation(1, 3))
		s.volumes(1, 0, 1, 3)
		s.publish(3, "v1", 0)
	}},
	{"publish-idempotent", "violated-second-slot", func(s *script) {
		s.truth(0, generation(1, 3))
		s.volumes(1, 0, 1, 3)
		s.publish(3, "v1", 0)
		s.attach(3.02, "v1", accepted(2, 3))
	}},
	{"publish-idempotent", "inconclusive-backend-lost-events", func(s *script) {
		s.truth(0, generation(1, 3))
		s.volumes(1, 0, 1, 3)
		s.publish(3, "v1", 0)
		s.attach(3.02, "v1", accepted(2, 3)) // another volume may have taken the slot where events are missing
		s.lose(9, "backend")
	}},

	{"query-budget", "held-once-a-second", func(s *script) {
		s.steps()
		s.truth(0, generation(1, 8))
		s.info(1, 8)
		for i := range 30 {
			s.asks(2+float64(i), testNode, generation(1, 8))
		}
	}},
	{"query-budget", "violated-four-a-second", func(s *script) {
		s.steps()
		s.truth(0, generation(1, 8))
		s.info(1, 8)
		for i := range 30 {
			s.asks(2+float64(i)/4, testNode, generation(1, 8))
		}
	}},
	{"query-budget", "violated-burst-after-a-rest", func(s *script) {
		s.steps()
		s.truth(0, generation(1, 8))
		s.info(1, 8)
		s.asks(2, testNode, generation(1, 8))
		for i := range 6 {
			s.asks(90+float64(i)/10, testNode, generation(1, 8))
		}
	}},
	{"query-budget", "inconclusive-backend-paused", func(s *script) {
		s.steps()
		s.truth(0, generation(1, 8))
		s.info(1, 8)
		s.component(2, "backend", "paused")
		for i := range 6 {
			s.asks(30+float64(i)/10, testNode, generation(1, 8)) // taken in at once
		}
		s.component(30.3, "backend", "resumed")
	}},

	{"phases-spread", "held-jitter", func(s *script) {
		s.fleet(16, func(node, period int) float64 { return float64((node*7+period*3)%10) + 0.05*float64(node) })
	}},
	{"phases-spread", "violated-aligned", func(s *script) { s.fleet(16, func(node, _ int) float64 { return 3 + 0.02*float64(node) }) }},
	{"phases-spread", "violated-aligned-on-a-border", func(s *script) {
		s.fleet(20, func(node, _ int) float64 { return 9.8 + 0.02*float64(node) }) // half of it in the next second, and the next period
	}},

	{"gradual-recovery", "held-steps", func(s *script) {
		s.steps()
		s.truth(0, generation(1, 2))
		s.info(1, 2)
		s.truth(2, generation(2, 8))
		s.info(11, 4)
		s.info(21, 6)
		s.info(61, 8)
	}},
	{"gradual-recovery", "held-asked-seldom", func(s *script) {
		s.steps()
		s.truth(0, generation(1, 2))
		s.info(1, 2)
		s.truth(2, generation(2, 12))
		s.info(61, 12) // 5 steps in 60 s
	}},
	{"gradual-recovery", "held-rise-to-what-is-attached", func(s *script) {
		s.steps()
		s.truth(0, generation(1, 6))
		s.volumes(1, 0, 4, 6)
		s.info(5, 1)
		s.truth(5.5, history.Quota{Generation: 2, Limit: 4, Attached: 4})
		s.publish(6, "v9", 8)
		s.attach(6.02, "v9", refused(history.ReasonFull))
		s.asks(7, testNode, history.Quota{Generation: 2, Limit: 4, Attached: 4})
		s.info(15, 3)
	}},
	{"gradual-recovery", "violated-jump", func(s *script) {
		s.steps()
		s.truth(0, generation(1, 2))
		s.info(1, 2)
		s.truth(2, generation(2, 8))
		s.info(11, 8)
	}},
	{"gradual-recovery", "violated-steps-too-often", func(s *script) {
		s.steps()
		s.truth(0, generation(1, 2))
		s.info(1, 2)
		s.truth(2, generation(2, 12))
		for i := range 5 {
			s.info(4+2*float64(i), int64(4+2*i))
		}
	}},
	{"gradual-recovery", "violated-rise-while-full", func(s *script) {
		s.steps()
		s.truth(0, allForeign)
		s.info(1, 1)
		s.publish(12, "v1", 8)
		s.attach(12.02, "v1", refused(history.ReasonFull))
		s.asks(13, testNode, allForeign)
		s.truth(14, generation(2, 3))
		s.asks(15, testNode, generation(2, 3))
		s.info(17, 3)
	}},

	{"no-stale-overwrite", "held-falls-and-rises", func(s *script) {
		s.steps()
		s.truth(0, generation(1, 6))
		s.asks(1, testNode, generation(1, 6))
		s.info(2, 6)
		s.truth(3, generation(2, 4))
		s.asks(4, testNode, generation(2, 4))
		s.info(5, 4)
		s.truth(6, generation(3, 9))
		s.asks(7, testNode, generation(3, 9))
		s.info(15, 6) // the old value, but a step on the way to 9
	}},
	{"no-stale-overwrite", "violated-old-value-again", func(s *script) {
		s.steps()
		s.truth(0, generation(1, 6))
		s.asks(1, testNode, generation(1, 6))
		s.info(2, 6)
		s.truth(3, generation(2, 4))
		s.asks(4, testNode, generation(2, 4))
		s.info(5, 4)
		s.info(6, 6)
		s.info(7, 4)
	}},

	{"quota-to-answer", "held-fall-and-steps", func(s *script) {
		s.steps()
		s.truth(0, generation(1, 6))
		s.info(20, 6)
		s.truth(21, generation(2, 2))
		s.info(30, 6) // the cache may hold it
		s.info(40, 2)
		s.truth(41, generation(3, 6))
		s.info(50, 2)
		s.info(60, 4)
		s.info(70, 6)
	}},
	{"quota-to-answer", "held-waits-while-full", func(s *script) {
		s.steps()
		s.truth(0, generation(1, 1))
		s.info(20, 1)
		s.truth(21, generation(2, 3))
		s.volumes(22, 0, 3, 3)
		s.info(60, 1)
		s.info(90, 1)
	}},
	{"quota-to-answer", "violated-never-falls", func(s *script) {
		s.steps()
		s.truth(0, generation(1, 6))
		s.info(20, 6)
		s.truth(21, generation(2, 2))
		s.info(40, 6)
	}},
	{"quota-to-answer", "violated-never-rises", func(s *script) {
		s.steps()
		s.truth(0, generation(1, 2))
		s.info(20, 2)
		s.truth(21, generation(2, 6))
		s.info(60, 2)
	}},
	{"quota-to-answer", "inconclusive-slow", func(s *script) {
		s.steps()
		s.truth(0, generation(1, 6))
		s.info(20, 6)
		s.truth(21, generation(2, 2))
		s.info(40, 6)
		s.beat(38, 0)
		s.beat(39, 3*time.Second)
	}},

	{"node-id-stable", "held-new-node", func(s *script) {
		s.drift(1, "a", "a")
		s.add(15, history.Event{Source: "api/nodes", Key: testNode}, history.Node{Object: history.Object{Type: "DELETED"}})
		s.add(16, history.Event{Source: "api/nodes", Key: testNode}, history.Node{Object: history.Object{Type: "ADDED"}})
		s.drift(21, "b", "b")
	}},
	{"node-id-stable", "violated-drift", func(s *script) { s.drift(1, "a", "a-2") }},
}
