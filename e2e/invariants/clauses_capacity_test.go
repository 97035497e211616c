package invariants

import (
	"testing"
	"time"

	"headroom/e2e/framework/history"
)

// declared is a clause about a driver that declares a minimum interval and steps.
func declared(write func(*script)) func(*script) {
	return func(s *script) { s.steps(); write(s) }
}

func TestTotalNotRemainingIsNotJudged(t *testing.T) {
	// lower writes 8, then 6 with 2 volumes attached, and something between.
	lower := func(between func(*script)) func(*script) {
		return func(s *script) {
			s.truth(0, generation(1, 8))
			s.info(20, 8)
			s.volumes(25, 0, 2, 8)
			s.asks(24, testNode, generation(1, 8))
			between(s)
			s.info(45, 6)
		}
	}
	runClauses(t, "total-not-remaining", []clause{
		{"nothing between", lower(func(*script) {}), Violated},
		{"the quota fell", lower(func(s *script) { s.truth(26, history.Quota{Limit: 6, Generation: 2, Attached: 2}) }), ""},
		{"the quota fell and came back", lower(func(s *script) {
			s.truth(26, history.Quota{Limit: 6, Generation: 2, Attached: 2})
			s.truth(27, history.Quota{Limit: 8, Generation: 3, Attached: 2})
		}), ""},
		{"an outage", lower(func(s *script) { s.outage(26, "refuse"); s.outage(27, "") }), ""},
		{"the node was taken off the backend", lower(func(s *script) {
			s.add(26, history.Event{Source: "backend", Node: testNode, Key: "quota"}, history.Backend{Reason: history.ReasonNoSuchNode})
		}), ""},
		{"the last good value may have expired", func(s *script) {
			s.header.Params.Driver.LastGoodLife = history.Duration(15 * time.Second)
			lower(func(*script) {})(s)
		}, ""},
		{"an answer that overlaps", func(s *script) {
			s.truth(0, generation(1, 8))
			n, m := int64(8), int64(6)
			s.csi(20, 30, "csi/n1", "a", "NodeGetInfo", history.DriverSide, history.OK, history.CSICall{}, history.CSICall{MaxVolumes: &n})
			s.volumes(25, 0, 2, 8)
			s.csi(45, 1, "csi/n1", "b", "NodeGetInfo", history.DriverSide, history.OK, history.CSICall{}, history.CSICall{MaxVolumes: &m})
		}, ""},
		{"a fall of another size", func(s *script) {
			s.truth(0, generation(1, 8))
			s.info(20, 8)
			s.volumes(25, 0, 2, 8)
			s.asks(40, testNode, history.Quota{Generation: 1, Limit: 8, Attached: 2})
			s.info(45, 4)
		}, ""},
		{"volumes detached, answer higher", func(s *script) {
			s.truth(0, generation(1, 8))
			s.volumes(1, 0, 2, 8)
			s.info(20, 6)
			s.add(25, history.Event{Source: "backend", Phase: history.OK, Op: "x", Node: testNode, Key: "detach"},
				history.Backend{Volume: "v1", Decision: history.Accepted, Quota: &history.Quota{Limit: 8, Attached: 1}})
			s.info(45, 7)
		}, ""}, // a step would look the same
	})
}

func TestQueryBudgetIsNotJudged(t *testing.T) {
	burst := func(before func(*script)) func(*script) {
		return func(s *script) {
			s.steps()
			s.truth(0, generation(1, 8))
			s.info(1, 8)
			before(s)
			for i := range 8 {
				s.asks(20+float64(i)/10, testNode, generation(1, 8))
			}
		}
	}
	runClauses(t, "query-budget", []clause{
		{"a burst", burst(func(*script) {}), Violated},
		{"no interval declared", burst(func(s *script) { s.header.Params.Driver.MinInterval = 0 }), ""},
		{"the harness was slow", burst(func(s *script) { s.beat(20, 0); s.beat(25, 3*time.Second) }), Inconclusive},
		{"a second driver on the node", burst(func(s *script) {
			n := int64(8)
			body := history.CSICall{Side: history.DriverSide, Driver: "other", MaxVolumes: &n}
			e := history.Event{Source: "csi/n1", Phase: history.Invoke, Op: "z", Node: testNode, Key: "NodeGetInfo"}
			s.add(2, e, body)
			e.Phase = history.OK
			s.add(2.1, e, body)
		}), ""},
		{"two instances, each within its budget", declared(func(s *script) {
			s.truth(0, generation(1, 8))
			s.info(1, 8)
			for i := range 20 {
				for _, holder := range []string{"a", "b", "c", "d", "e"} {
					s.add(2+float64(i), history.Event{Source: "backend", Phase: history.Invoke, Op: s.op(), Node: testNode, Key: "get"}, history.Backend{Holder: holder})
				}
			}
		}), Held},
	})
}

func TestPhasesSpreadIsNotJudged(t *testing.T) {
	aligned := func(int, int) float64 { return 3 }
	runClauses(t, "phases-spread", []clause{
		{"16 nodes", func(s *script) { s.fleet(16, aligned) }, Violated},
		{"15 nodes", func(s *script) { s.fleet(15, aligned) }, ""},
		{"the period changed half-way", func(s *script) { s.fleet(16, aligned); n := int64(11); s.period(110, 9, &n) }, ""},
		{"half of them elsewhere", func(s *script) {
			s.fleet(16, func(node, _ int) float64 { return 3 + float64(node%2)*5 })
		}, Held},
	})
}

func TestGradualRecoveryIsNotJudged(t *testing.T) {
	// refusedThen writes a node that is full by foreign attachments, a refusal, what comes between, and a rise to 3 at 17 s.
	refusedThen := func(between func(*script)) func(*script) {
		return declared(func(s *script) {
			s.truth(0, allForeign)
			s.info(1, 1)
			s.publish(12, "v1", 8)
			s.attach(12.02, "v1", refused(history.ReasonFull))
			between(s)
			s.truth(14, generation(2, 3))
			s.info(17, 3)
		})
	}
	runClauses(t, "gradual-recovery", []clause{
		{"told that it is full", refusedThen(func(s *script) { s.asks(13, testNode, allForeign) }), Violated},
		{"never told", refusedThen(func(*script) {}), Held},
		{"told too late to know", refusedThen(func(s *script) { s.asks(16.5, testNode, allForeign) }), Held},
		{"told before the refusal only", refusedThen(func(s *script) { s.asks(11, testNode, allForeign) }), Held},
		{"no step declared", func(s *script) { s.truth(0, generation(1, 2)); s.info(1, 2); s.info(3, 9) }, ""},
		{"from unlimited", declared(func(s *script) { s.truth(0, generation(1, 9)); s.info(1, 0); s.info(3, 9) }), ""},
		{"a step every 4 s", declared(func(s *script) {
			s.truth(0, generation(1, 20))
			for i := range 8 {
				s.info(1+4*float64(i), int64(2+2*i))
			}
		}), Violated},
	})
}

func TestNoStaleOverwriteIsNotJudged(t *testing.T) {
	runClauses(t, "no-stale-overwrite", []clause{
		{"frozen in an outage, then the last good value", declared(func(s *script) {
			s.truth(0, generation(1, 6))
			s.asks(1, testNode, generation(1, 6))
			s.info(2, 6)
			s.outage(3, "refuse")
			s.info(70, 2)
			s.outage(71, "")
			s.info(75, 6)
		}), ""},
		{"a value that no generation allows", declared(func(s *script) {
			s.truth(0, generation(1, 6))
			s.asks(1, testNode, generation(1, 6))
			s.info(2, 6)
			s.truth(3, generation(2, 4))
			s.asks(4, testNode, generation(2, 4))
			s.info(5, 4)
			s.info(6, 9)
		}), ""},
		{"overlapping calls", declared(func(s *script) {
			s.truth(0, generation(1, 6))
			s.asks(1, testNode, generation(1, 6))
			s.info(2, 6)
			n := int64(6)
			s.csi(2.5, 10, "csi/n1", "slow", "NodeGetInfo", history.DriverSide, history.OK, history.CSICall{}, history.CSICall{MaxVolumes: &n})
			s.truth(3, generation(2, 4))
			s.asks(4, testNode, generation(2, 4))
			s.info(5, 4)
		}), ""},
		{"told the old one once more", declared(func(s *script) { // a replica that lags: the driver can compare generations
			s.truth(0, generation(1, 6))
			s.asks(1, testNode, generation(1, 6))
			s.info(2, 6)
			s.truth(3, generation(2, 4))
			s.asks(4, testNode, generation(2, 4))
			s.info(5, 4)
			s.asks(6, testNode, generation(1, 6))
			s.info(7, 6)
		}), Violated},
	})
}

func TestQuotaToAnswerIsNotJudged(t *testing.T) {
	low := func(between func(*script)) func(*script) {
		return declared(func(s *script) {
			s.truth(0, generation(1, 2))
			s.info(20, 2)
			s.truth(21, generation(2, 6))
			between(s)
			s.info(60, 2)
		})
	}
	runClauses(t, "quota-to-answer", []clause{
		{"nothing between", low(func(*script) {}), Violated},
		{"an outage that just ended", low(func(s *script) { s.outage(30, "hang"); s.outage(55, "") }), ""},
		{"another change", low(func(s *script) { s.truth(52, generation(3, 9)) }), ""},
		{"the driver was down", low(func(s *script) { s.component(50, "driver@n1/d", "exited"); s.component(55, "driver@n1/d", "started") }), ""},
		{"attaches refused meanwhile", low(func(s *script) {
			s.publish(50, "v1", 8)
			s.attach(50.02, "v1", refused(history.ReasonFull))
		}), Held},
		{"full", low(func(s *script) { s.volumes(40, 0, 6, 6) }), Held},
		{"unlimited", declared(func(s *script) { s.truth(0, generation(1, 2)); s.info(20, 2); s.info(40, 0) }), ""},
		{"unlimited in an outage, then a step", declared(func(s *script) {
			s.truth(0, generation(1, 6))
			s.info(20, 6)
			s.outage(21, "refuse")
			s.info(40, 0)
			s.outage(45, "")
			s.info(60, 4)
		}), ""},
		{"the first answer", declared(func(s *script) { s.truth(0, generation(1, 2)); s.info(20, 1) }), ""},
		{"no step: all at once", func(s *script) {
			s.truth(0, generation(1, 2))
			s.info(20, 2)
			s.truth(21, generation(2, 6))
			s.info(40, 4)
		}, Violated},
	})
}
