package invariants

import (
	"testing"

	"headroom/e2e/framework/history"
)

func schedulerPaused(at float64) func(*script) {
	return func(s *script) { s.component(at, "kube-scheduler", "paused") }
}

func TestBindWithinSeenIsNotJudged(t *testing.T) {
	bound := func(between func(*script)) func(*script) {
		return func(s *script) {
			s.bench(2, 4, 2)
			s.podState(5, 2)
			between(s)
			s.podState(5.2, 2, onNode)
			s.beat(20, 0)
		}
	}
	none := func(b *history.Pod) { b.Claims = nil }
	runClauses(t, "bind-within-seen", []clause{
		{"nothing between", bound(func(*script) {}), Violated},
		{"the scheduler was away", bound(schedulerPaused(4)), ""},
		{"the API server restarted", bound(func(s *script) { s.component(4, "kube-apiserver", "stopped") }), ""},
		{"another component was away", bound(func(s *script) { s.component(4, "csi-attacher@d", "stopped") }), Violated},
		{"placed by its maker", func(s *script) { s.bench(2, 4, 2); s.podState(5, 2, onNode); s.beat(20, 0) }, ""},
		{"without volumes", func(s *script) {
			s.bench(2, 4, 2)
			s.podState(5, 2, none)
			s.podState(5.2, 2, none, onNode)
			s.beat(20, 0)
		}, ""},
		{"another scheduler", func(s *script) {
			other := func(b *history.Pod) { b.Scheduler = "mine" }
			s.bench(2, 4, 2)
			s.podState(5, 2, other)
			s.podState(5.2, 2, other, onNode)
			s.beat(20, 0)
		}, ""},
		{"no count", func(s *script) { s.bench(0, 4, 2); s.podState(5, 2); s.podState(5.2, 2, onNode); s.beat(20, 0) }, ""},
		{"the count was absent meanwhile", bound(func(s *script) { s.counted(5.05, 0); s.counted(5.1, 2) }), ""},
		{"the count was higher meanwhile", bound(func(s *script) { s.counted(5.05, 3); s.counted(5.1, 2) }), Held},
		{"higher, seen late but older than the bind", bound(func(s *script) {
			s.watched(5.3, rev(5.1), "MODIFIED", entries(3))
		}), Held},
		{"higher after the bind", bound(func(s *script) { s.counted(5.3, 3) }), Violated},
		{"one left before the pod came", bound(func(s *script) { s.podState(4, 1, gone); s.attachment(4.1, 1, detached) }), Held},
		{"one left while it waited", bound(func(s *script) { s.podState(4.9, 1, gone); s.attachment(5.1, 1, detached) }), Held},
		{"one succeeded, its volume is still attached", bound(func(s *script) { s.podState(2, 1, succeeded) }), Violated},
		{"one succeeded and was detached", bound(func(s *script) { s.podState(2, 1, succeeded); s.attachment(2.5, 1, detached) }), Held},
		{"a new reason is a new decision", func(s *script) {
			blocked(s)
			s.counted(6, 3)
			s.counted(10, 2)
			s.podState(20, 2, full, says("exceed max volume count, 2 are elsewhere"))
			s.podState(20.2, 2, onNode)
			s.beat(30, 0)
		}, Violated},
		{"the same reason is none", func(s *script) {
			blocked(s)
			s.counted(6, 3)
			s.counted(10, 2)
			s.podState(20, 2, full)
			s.podState(20.2, 2, onNode)
			s.beat(30, 0)
		}, Held},
	})
}

func TestRequeuesAreNotJudged(t *testing.T) {
	grew := func(between func(*script)) func(*script) {
		return func(s *script) {
			blocked(s)
			s.counted(20, 3)
			between(s)
			s.beat(90, 0)
		}
	}
	runClauses(t, "growth-requeues", []clause{
		{"nothing between", grew(func(*script) {}), Violated},
		{"the scheduler was away", grew(schedulerPaused(25)), ""},
		{"the scheduler came back just before", func(s *script) {
			s.component(1, "kube-scheduler", "stopped")
			s.component(2, "kube-scheduler", "started")
			blocked(s)
			s.counted(20, 3)
			s.beat(90, 0)
		}, ""},
		{"another reason", grew(func(s *script) { s.podState(22, 2, says("had untolerated taint")) }), ""},
		{"deleted", grew(func(s *script) { s.podState(22, 2, func(b *history.Pod) { b.Type = "DELETED" }) }), ""},
		{"the room was taken", grew(func(s *script) { s.podState(22, 3); s.podState(22.1, 3, onNode) }), ""},
		{"the count fell again", grew(func(s *script) { s.counted(25, 2) }), ""},
		{"the node was closed", grew(func(s *script) { s.nodeObject(25, func(b *history.Node) { b.Closed = true }) }), ""},
		{"the run ended", func(s *script) { blocked(s); s.counted(20, 3); s.beat(30, 0) }, ""},
		{"still no room: two are missing", func(s *script) {
			s.bench(2, 5, 2)
			two := func(b *history.Pod) { b.Claims = []string{"c2", "c3"} }
			s.podState(5, 2, two)
			s.podState(5.1, 2, two, full)
			s.counted(20, 3)
			s.beat(90, 0)
		}, ""},
		{"a pod with affinity", func(s *script) {
			pinned := func(b *history.Pod) { b.Constrained = true }
			s.bench(2, 4, 2)
			s.podState(5, 2, pinned)
			s.podState(5.1, 2, pinned, full)
			s.counted(20, 3)
			s.beat(90, 0)
		}, ""},
		{"another node than it may go to", func(s *script) {
			elsewhere := func(b *history.Pod) { b.Selector = map[string]string{"bench": "2"} }
			s.bench(2, 4, 2)
			s.podState(5, 2, elsewhere)
			s.podState(5.1, 2, elsewhere, full)
			s.counted(20, 3)
			s.beat(90, 0)
		}, ""},
		{"a history without labels", func(s *script) {
			s.bench(2, 4, 2)
			s.nodeObject(0.5, func(b *history.Node) { b.Labels = nil })
			all := func(b *history.Pod) { b.Selector = nil }
			s.podState(5, 2, all)
			s.podState(5.1, 2, all, full)
			s.counted(20, 3)
			s.beat(90, 0)
		}, ""},
		{"its own volume lingers and counts twice", func(s *script) {
			s.bench(2, 4, 2)
			s.podState(4, 1, gone)
			s.podState(5, 7, func(b *history.Pod) { b.Claims = []string{"c1"} })
			s.podState(5.1, 7, full, func(b *history.Pod) { b.Claims = []string{"c1"} })
			s.counted(20, 1)
			s.counted(21, 2)
			s.beat(90, 0)
		}, ""},
	})
	runClauses(t, "detach-requeues", []clause{
		{"the pod's end alone gave no room", func(s *script) { blocked(s); s.podState(20, 1, gone); s.beat(90, 0) }, ""},
		{"a count gave the room", grew(func(*script) {}), ""},
	})
}

func TestKnownRequeueDefects(t *testing.T) {
	for _, c := range []struct {
		invariant, golden, defect string
	}{
		{"growth-requeues", "violated", ""},
		{"growth-requeues", "violated-unlimited", unlimitedScenario},
		{"detach-requeues", "violated", ""},
		{"detach-requeues", "violated-ephemeral", ephemeralScenario},
		{"no-flush-needed", "violated", ""},
		{"no-flush-needed", "violated-unlimited", unlimitedScenario},
	} {
		for _, g := range schedulerGoldens {
			if g.invariant != c.invariant || g.file != c.golden {
				continue
			}
			inv, _ := Find(c.invariant)
			s := newScript()
			g.write(s)
			if got := s.judge(inv).Results[0].Verdicts[0].Defect; got != c.defect {
				t.Errorf("%s/%s: want defect %q, got %q", c.invariant, c.golden, c.defect, got)
			}
		}
	}
}

func TestPendingIsNotJudged(t *testing.T) {
	unexplained := func(between func(*script)) func(*script) {
		return func(s *script) {
			s.bench(2, 4, 2)
			s.podState(5, 2)
			between(s)
			s.beat(60, 0)
		}
	}
	runClauses(t, "pending-is-explained", []clause{
		{"nothing between", unexplained(func(*script) {}), Violated},
		{"another reason", unexplained(func(s *script) { s.podState(6, 2, says("had untolerated taint")) }), ""},
		{"explained too late", unexplained(func(s *script) { s.podState(40, 2, full) }), Violated},
		{"the scheduler was away", unexplained(schedulerPaused(10)), ""},
		{"room came", unexplained(func(s *script) { s.counted(10, 3) }), ""},
		{"a node without a CSINode", func(s *script) {
			s.nodeObject(0)
			s.volume(0.1, 2)
			s.podState(5, 2)
			s.beat(60, 0)
		}, ""},
		{"an unbound claim", func(s *script) {
			s.bench(2, 2, 2)
			s.podState(5, 2)
			s.beat(60, 0)
		}, ""},
		{"a claim bound later", func(s *script) {
			s.bench(2, 2, 2)
			s.podState(5, 2)
			s.volume(10, 2)
			s.beat(60, 0)
		}, Violated},
		{"only a closed node", func(s *script) {
			s.bench(2, 4, 2)
			s.nodeObject(1, func(b *history.Node) { b.Closed = true })
			s.podState(5, 2)
			s.beat(60, 0)
		}, ""},
		{"the node comes later", func(s *script) {
			s.podState(5, 2)
			s.bench(0, 4, 0)
			s.beat(60, 0)
		}, ""},
	})
}

func TestNoFlushNeededIsNotJudged(t *testing.T) {
	runClauses(t, "no-flush-needed", []clause{
		{"nothing waited", func(s *script) { s.flushes(1, 0); s.flushes(60, 0) }, ""},
		{"never read", func(s *script) { blocked(s); s.counted(20, 3); s.podState(22, 2, onNode); s.beat(60, 0) }, ""},
		{"an older scheduler", func(s *script) {
			blocked(s)
			s.counted(20, 3)
			s.podState(22, 2, onNode)
			s.add(60, history.Event{Source: "metric/kube-scheduler", Key: "kube-scheduler"}, history.Metric{Name: history.MetricFlushed, Absent: true})
		}, ""},
		{"the scheduler was started anew", func(s *script) {
			blocked(s)
			s.flushes(1, 1)
			s.flushes(30, 0)
			s.flushes(60, 1)
		}, Violated},
	})
}
