package invariants

import (
	"fmt"
	"testing"
	"time"

	"headroom/e2e/framework/history"
)

// clause is one short history and what one invariant says of it; "" is no verdict.
type clause struct {
	name  string
	write func(*script)
	want  Status
}

func runClauses(t *testing.T, invariant string, clauses []clause) {
	inv, ok := Find(invariant)
	if !ok {
		t.Fatalf("no invariant %q", invariant)
	}
	for _, c := range clauses {
		t.Run(c.name, func(t *testing.T) {
			s := newScript()
			c.write(s)
			r := s.judge(inv).Results[0]
			if got := r.Status(); got != c.want {
				t.Errorf("want %q, got %q: %+v", c.want, got, r.Verdicts)
			}
		})
	}
}

func TestClassOfEachRefusal(t *testing.T) {
	var clauses []clause
	for reason, code := range mustBe {
		for _, got := range []uint32{code, 13, codeResourceExhausted} {
			want := Violated
			if got == code {
				want = Held
			}
			clauses = append(clauses, clause{fmt.Sprintf("%s as %d", reason, got), func(s *script) {
				s.quota(0, 2, 0)
				s.publish(1, "v1", got)
				s.attach(1.02, "v1", refused(reason))
			}, want})
		}
	}
	// These should have a certain code, and must not have 8.
	for _, reason := range []string{history.ReasonThrottled, history.ReasonUnavailable, history.ReasonWrongZone, "something-new"} {
		for _, got := range []uint32{3, 4, 13, 14, codeResourceExhausted} {
			want := Held
			if got == codeResourceExhausted {
				want = Violated
			}
			clauses = append(clauses, clause{fmt.Sprintf("%s as %d", reason, got), func(s *script) {
				s.quota(0, 2, 0)
				s.publish(1, "v1", got)
				s.attach(1.02, "v1", refused(reason))
			}, want})
		}
	}
	runClauses(t, "class-is-honest", clauses)
}

func TestClassIsHonestJoins(t *testing.T) {
	throttled := history.Backend{Reason: history.ReasonThrottled, Status: 429}
	two := func(code uint32, first, second history.Backend) func(*script) {
		return func(s *script) {
			s.quota(0, 2, 0)
			s.publish(1, "v1", code)
			s.attach(1.02, "v1", first)
			s.attach(1.06, "v1", second)
		}
	}
	runClauses(t, "class-is-honest", []clause{
		{"the last decision counts", two(5, refused(history.ReasonFull), refused(history.ReasonNoSuchVolume)), Held},
		{"not the first", two(8, refused(history.ReasonFull), refused(history.ReasonNoSuchVolume)), Violated},
		{"full, then throttled: either", two(8, refused(history.ReasonFull), throttled), Held},
		{"full, then throttled: unavailable", two(14, refused(history.ReasonFull), throttled), Held},
		{"full, then throttled: internal", two(13, refused(history.ReasonFull), throttled), Violated},
		{"accepted, then exhausted", two(8, throttled, accepted(1, 2)), Violated},
		{"accepted, then another failure", two(13, throttled, accepted(1, 2)), ""},
		{"validation without a call", func(s *script) { s.quota(0, 2, 0); s.publish(1, "v1", 3) }, ""},
		{"full, and nobody was told: unavailable", two(14, throttled, untold(refused(history.ReasonFull))), Held},
		{"full, and nobody was told: exhausted", two(8, throttled, untold(refused(history.ReasonFull))), Violated},
		{"outage as 14", func(s *script) { s.quota(0, 2, 0); s.outage(0, "refuse"); s.publish(1, "v1", 14) }, Held},
		{"cancelled by the caller", func(s *script) {
			s.quota(0, 2, 0)
			s.publish(1, "v1", 1)
			s.attach(1.02, "v1", refused(history.ReasonFull))
		}, ""},
		{"a node that the backend never knew", func(s *script) {
			s.publish(1, "v1", 13)
			s.attach(1.02, "v1", refused(history.ReasonNoSuchNode))
		}, Violated},
		{"another volume's decision", func(s *script) {
			s.quota(0, 2, 0)
			s.publish(1, "v1", 8)
			s.attach(1.02, "v2", refused(history.ReasonFull))
		}, Inconclusive},
		{"a decision after the call", func(s *script) {
			s.quota(0, 2, 0)
			s.publish(1, "v1", 13)
			s.attach(1.2, "v1", refused(history.ReasonFull))
		}, ""},
		{"two calls at once", func(s *script) {
			s.quota(0, 2, 0)
			s.publish(1, "v1", 5)
			s.publish(1.05, "v1", 8)
			s.attach(1.06, "v1", refused(history.ReasonNoSuchVolume))
			s.attach(1.07, "v1", refused(history.ReasonFull))
		}, Held},
	})
}

// untold is a decision whose answer was lost.
func untold(b history.Backend) history.Backend {
	b.Fault = history.NoAnswer
	return b
}

// TestWhatNobodyWasToldHolds shows that a decision whose answer was lost is the truth all the same.
func TestWhatNobodyWasToldHolds(t *testing.T) {
	runClauses(t, "attach-rechecked", []clause{
		{"attached", func(s *script) {
			s.quota(0, 2, 0)
			s.attach(1, "v1", untold(accepted(1, 2)))
			s.publish(2, "v1", 0)
		}, Held},
		{"detached", func(s *script) {
			s.quota(0, 2, 0)
			s.attach(1, "v1", accepted(1, 2))
			op := s.op()
			s.add(1.5, history.Event{Source: "backend", Phase: history.OK, Op: op, Node: testNode, Key: "detach"},
				untold(history.Backend{Volume: "v1", Decision: history.Accepted, Status: 200}))
			s.publish(2, "v1", 0)
		}, Violated},
	})
}

func TestAsksEveryPeriodIsNotJudgedWhileDisturbed(t *testing.T) {
	late := func(between func(*script)) func(*script) {
		return func(s *script) {
			ticking(s)
			s.info(11.5, 8)
			between(s)
			s.beat(40, 0)
		}
	}
	component := func(id, state string) func(*script) { return func(s *script) { s.component(15, id, state) } }
	fault := func(target string, nodes ...string) func(*script) {
		return func(s *script) {
			s.add(15, history.Event{Source: "fault", Op: "f", Key: "f"}, history.Fault{State: "inject", Target: target, Nodes: nodes})
		}
	}
	runClauses(t, "asks-every-period", []clause{
		{"nothing between", late(func(*script) {}), Violated},
		{"kubelet stopped", late(component("kubelet@n1", "stopped")), Held},
		{"kubelet paused", late(component("kubelet@n1", "paused")), Held},
		{"another kubelet stopped", late(component("kubelet@n2", "stopped")), Violated},
		{"API server paused", late(component("kube-apiserver", "paused")), Held},
		{"driver stopped", late(component("driver@n1/d", "stopped")), Violated},
		{"fault on the kubelet", late(fault("kubelet@n1", "n1")), Held},
		{"fault on another node", late(fault("kubelet@n2", "n2")), Violated},
		{"fault on the backend", late(fault("backend")), Violated},
		{"fault on the scheduler", late(fault("kube-scheduler")), Violated},
		{"fault on the driver", late(fault("driver@1", testNode)), Violated},
		{"the driver's socket is away", late(func(s *script) {
			s.add(15, history.Event{Source: "fault", Op: "f", Key: "socket-unlink"}, history.Fault{State: "inject", Target: "driver@1", Nodes: []string{testNode}})
		}), Held},
		{"the socket is away on another node", late(func(s *script) {
			s.add(15, history.Event{Source: "fault", Op: "f", Key: "socket-unlink"}, history.Fault{State: "inject", Target: "driver@2", Nodes: []string{"n2"}})
		}), Violated},
		{"deregistered", late(func(s *script) { s.register(15, false, "gone") }), Held},
		{"entry removed", late(func(s *script) { s.writes(15, 21, node, "update", "20", nil) }), Held},
		{"period unset", late(func(s *script) { s.period(15, 6, nil) }), Held},
		{"Node deleted", late(func(s *script) {
			s.add(15, history.Event{Source: "api/nodes", Key: testNode}, history.Node{Object: history.Object{Type: "DELETED"}})
		}), Held},
		{"the run ended first", func(s *script) { ticking(s); s.info(11.5, 8); s.beat(23, 0) }, Held},
		{"a call that took long", func(s *script) {
			ticking(s)
			s.csi(11.5, 30, "csi/n1", s.op(), "NodeGetInfo", history.ClientSide, history.Fail, history.CSICall{}, history.CSICall{Code: 4})
			s.info(43, 8)
		}, Held},
		{"a kubelet without the feature", func(s *script) { s.header.Versions["kubelet"] = "v1.32.4"; ticking(s); s.beat(60, 0) }, ""},
		{"gate off by default", func(s *script) { s.header.Versions["kubelet"] = "v1.34.1"; ticking(s); s.beat(60, 0) }, ""},
		{"gate on", func(s *script) {
			s.header.Versions["kubelet"], s.header.Versions["kubelet/MutableCSINodeAllocatableCount"] = "v1.34.1", "true"
			ticking(s)
			s.beat(60, 0)
		}, Violated},
		{"a period that overflows", func(s *script) {
			n := int64(9223372037)
			s.period(0, 5, &n)
			s.register(1, true, "")
			s.info(1.2, 8)
			s.beat(60, 0)
		}, ""},
	})
}

func TestAnswerToCSINodePercentile(t *testing.T) {
	many := func(n, late int) func(*script) {
		return func(s *script) {
			ticking(s)
			for i := range n {
				at, value, took := 11.5+10*float64(i), int64(6+i%2), 0.3
				if i < late {
					took = 1.5
				}
				s.info(at, value)
				s.writes(at+took, int64(100+i), node, "update", "", entries(int32(value)))
			}
			s.beat(20+10*float64(n), 0)
		}
	}
	runClauses(t, "answer-to-csinode", []clause{
		{"1 of 1000", many(1000, 1), Held},
		{"2 of 1000", many(1000, 2), Violated},
		{"2 of 999", many(999, 2), Inconclusive},
		{"none of 10", many(10, 0), Held},
	})
}

func TestAnswerToCSINodeIsNotJudged(t *testing.T) {
	after := func(between func(*script)) func(*script) {
		return func(s *script) {
			ticking(s)
			s.info(11.5, 6)
			between(s)
			s.beat(20, 0)
		}
	}
	runClauses(t, "answer-to-csinode", []clause{
		{"API server down", after(func(s *script) { s.component(12, "kube-apiserver", "stopped") }), ""},
		{"kubelet down", after(func(s *script) { s.component(12, "kubelet@n1", "exited") }), ""},
		{"somebody else wrote", after(func(s *script) { s.writes(11.8, 21, "controller", "update", "20", entries(3)) }), ""},
		{"deregistered", after(func(s *script) { s.writes(12, 21, node, "update", "20", nil) }), ""},
		{"the run ended", func(s *script) { ticking(s); s.info(11.5, 6); s.beat(13, 0) }, ""},
		{"counts are immutable", func(s *script) {
			s.header.Versions["kube-apiserver"] = "v1.32.0"
			ticking(s)
			s.info(11.5, 6)
			s.beat(20, 0)
		}, ""},
		{"an earlier answer's write comes between", after(func(s *script) {
			s.info(10.3, 7)
			s.writes(11.7, 21, node, "update", "20", entries(7))
			s.writes(11.9, 22, node, "update", "21", entries(6))
		}), Inconclusive},
	})
}

func TestReactiveConvergesIsNotJudged(t *testing.T) {
	after := func(between func(*script)) func(*script) {
		return func(s *script) {
			waiting(s)
			between(s)
			s.beat(200, 0)
		}
	}
	runClauses(t, "reactive-converges", []clause{
		{"nothing between", after(func(*script) {}), Violated},
		{"another code", after(func(s *script) { s.va(60, 33, 4) }), ""},
		{"another code and 8 again", after(func(s *script) { s.va(60, 33, 4); s.va(61, 34, 8) }), ""},
		{"attached", after(func(s *script) {
			s.add(60, history.Event{Source: "api/volumeattachments", Key: "va0"},
				history.VolumeAttachment{Attacher: testDriver, NodeName: testNode, PVName: "pv0", Attached: true})
		}), ""},
		{"pod deleted", after(func(s *script) {
			gone := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			s.add(60, history.Event{Source: "api/pods", Key: "ns/p0"}, history.Pod{
				Object: history.Object{Type: "MODIFIED", UID: "uid-p0", Deleted: &gone}, NodeName: testNode, PodPhase: "Pending", Claims: []string{"c0"},
			})
		}), ""},
		{"failed for another reason", after(func(s *script) { s.pod(60, 33, "Failed", "Evicted") }), ""},
		{"kubelet down", after(func(s *script) { s.component(60, "kubelet@n1", "stopped") }), ""},
		{"no period", after(func(s *script) { s.period(60, 33, nil) }), ""},
		{"a kubelet that does not reject", func(s *script) {
			s.header.Versions["kubelet"], s.header.Versions["kubelet/MutableCSINodeAllocatableCount"] = "v1.33.0", "true"
			waiting(s)
			s.beat(200, 0)
		}, ""},
		{"bound after the code was seen", func(s *script) {
			ticking(s)
			s.va(5, 30, 8)
			s.claim(50, 31)
			s.pod(51, 32, "Pending", "")
			s.beat(170, 0)
		}, ""},
	})
}
