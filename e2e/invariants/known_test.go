package invariants

import (
	"slices"
	"testing"

	"headroom/e2e/framework/history"
	"headroom/e2e/invariants/model"
)

// TestKnownDefectsAreTold holds that a checker names the known defect that a violation bears the marks of, and no other violation.
func TestKnownDefectsAreTold(t *testing.T) {
	marked := map[string]string{
		"write-budget/violated-minus-one":              "write-budget-minus-one",
		"no-ghost/violated-in-flight":                  "ghost-entry",
		"csinode-owned/violated-stale-uid":             "csinode-stale-owner",
		"survives-garbage/violated-overflow":           "period-overflow",
		"period-change-applies/violated-delete-missed": "period-delete-missed",
	}
	for _, g := range slices.Concat(kubeletGoldens) {
		inv, _ := Find(g.invariant)
		signed := slices.ContainsFunc(inv.KnownUpstream, func(k Known) bool { return k.Signed })
		if !signed || g.file[:4] != "viol" {
			continue
		}
		s := newScript()
		g.write(s)
		name := g.invariant + "/" + g.file
		v := s.judge(inv).Results[0].Verdicts[0]
		if v.Defect != marked[name] {
			t.Errorf("%s: want defect %q, got %q: %s", name, marked[name], v.Defect, v.Detail)
		}
		if want := marked[name]; want != "" && !slices.ContainsFunc(inv.KnownUpstream, func(k Known) bool { return k.Scenario == want }) {
			t.Errorf("%s: %q is none of the known defects of %s", name, want, g.invariant)
		}
	}
}

// TestOneUnmarkedViolationIsEnough: a subject with a known defect and another violation is not excused.
func TestOneUnmarkedViolationIsEnough(t *testing.T) {
	for _, defects := range [][]string{{"a", "a"}, {"a", ""}, {"", "a"}, {"a", "b"}} {
		tl := tally{}
		for _, d := range defects {
			tl.violated("n1", finding{detail: "want x, got y", defect: d})
		}
		want := ""
		if defects[0] == defects[1] {
			want = defects[0]
		}
		if v := tl.verdicts(model.New(history.Header{}), history.Kubelet)[0]; v.Defect != want {
			t.Errorf("violations %q: want defect %q, got %q", defects, want, v.Defect)
		}
	}
}

func TestKubeletClausesThatAreNotJudged(t *testing.T) {
	for invariant, clauses := range map[string][]clause{
		"conditional-writes": {
			{"another user's patch", func(s *script) { s.writes(2, 11, "controller", "patch", "", entries(6)) }, ""},
			{"somebody in the node's name", func(s *script) {
				s.add(1, history.Event{Source: "workload/p1", Phase: history.Invoke, Key: "patch csinodes n1"},
					history.Workload{Verb: "patch", Resource: "csinodes", Name: testNode, Writer: node})
				s.answered(2, 11, "patch", "", 200, entries(6))
			}, ""},
			{"creation", func(s *script) { s.writes(1, 10, node, "create", "", entries(8)) }, ""},
		},
		"no-stale-overwrite-kubelet": {
			{"calls that overlap at the driver", func(s *script) {
				ticking(s)
				op := s.op()
				n := int64(8)
				out := history.CSICall{NodeID: testNode, MaxVolumes: &n}
				s.csi(31.5, 25, "csi/n1", op, "NodeGetInfo", history.ClientSide, history.OK, history.CSICall{}, out)
				s.csi(31.51, 24, "csi/n1", op, "NodeGetInfo", history.DriverSide, history.OK, history.CSICall{}, out)
				s.info(41.5, 6)
				s.writes(41.8, 21, node, "update", "20", entries(6))
				s.writes(56.8, 22, node, "update", "21", entries(8))
			}, Held}, // the first write; the last is not judged
			{"a newer answer of the same value", func(s *script) {
				ticking(s)
				s.held(31.5, 25, 8)
				s.info(41.5, 6)
				s.writes(41.8, 21, node, "update", "20", entries(6))
				s.info(51.5, 8)
				s.writes(56.8, 22, node, "update", "21", entries(8))
			}, Held},
			{"the API server was away", func(s *script) {
				ticking(s)
				s.held(31.5, 25, 8)
				s.info(41.5, 6)
				s.writes(41.8, 21, node, "update", "20", entries(6))
				s.component(50, "kube-apiserver", "paused")
				s.component(55, "kube-apiserver", "resumed")
				s.writes(56.8, 22, node, "update", "21", entries(8))
			}, Held},
			{"somebody else wrote between", func(s *script) {
				ticking(s)
				s.held(31.5, 25, 8)
				s.info(41.5, 6)
				s.writes(41.8, 21, node, "update", "20", entries(6))
				s.writes(50, 22, "controller", "update", "21", entries(3))
				s.writes(56.8, 23, node, "update", "22", entries(8))
			}, Held},
		},
		"no-ghost": {
			{"nobody sees the registration", func(s *script) {
				s.writes(1.4, 20, node, "create", "", entries(8))
				s.writes(10, 21, node, "update", "20", nil)
				s.writes(12, 22, node, "update", "21", entries(8))
			}, ""},
			{"the administrator took it away", func(s *script) {
				ticking(s)
				s.writes(10, 21, "admin", "update", "20", nil)
				s.writes(12, 22, node, "update", "21", entries(8))
			}, ""},
			{"the run ended", func(s *script) { ticking(s); s.writes(10, 21, node, "update", "20", nil) }, ""},
		},
		"tick-error-keeps": {
			{"in a registration", func(s *script) {
				ticking(s)
				s.register(10, false, "no quota")
				s.infoFails(10.2, 14, true)
				s.writes(10.3, 21, node, "update", "20", nil)
				s.beat(20, 0)
			}, ""},
			{"a fault on the node", func(s *script) {
				ticking(s)
				s.add(10, history.Event{Source: "fault", Op: "f", Key: "socket-unlink"}, history.Fault{State: "inject", Target: "driver@n1", Nodes: []string{testNode}})
				s.infoFails(11.5, 14, true)
				s.writes(12, 21, node, "update", "20", nil)
				s.beat(20, 0)
			}, Held},
			{"another answer explains it", func(s *script) {
				ticking(s)
				s.info(10, 6)
				s.infoFails(10.1, 14, true)
				s.writes(10.3, 21, node, "update", "20", entries(6))
				s.beat(20, 0)
			}, Held},
			{"the kubelet is down", func(s *script) {
				ticking(s)
				s.component(11, "kubelet@n1", "stopping")
				s.infoFails(11.5, 1, true)
				s.beat(20, 0)
			}, ""},
		},
		"kubelet-restart-keeps": {
			{"the first start", func(s *script) { s.component(0, "kubelet@n1", "started"); ticking(s); s.info(11.5, 8) }, ""},
			{"a registration that fails", func(s *script) {
				restarted(s)
				s.register(23, false, "no quota")
				s.writes(23.3, 21, node, "update", "20", nil)
				s.beat(60, 0)
			}, Held},
			{"stopped again", func(s *script) {
				restarted(s)
				s.register(23, true, "")
				s.component(30, "kubelet@n1", "stopping")
				s.beat(60, 0)
			}, Held},
			{"no period", func(s *script) { restarted(s); s.period(21, 6, nil); s.register(23, true, ""); s.beat(60, 0) }, Held},
		},
		"csinode-owned": {
			{"one that has no Node, made by somebody else", func(s *script) { s.owned(10, 20, "ADDED") }, ""},
			{"a record without owners", func(s *script) { s.nodeEvent(1, 10, "ADDED", "u1"); s.watched(2, 11, "ADDED", entries(8)) }, ""},
			{"collected in time", func(s *script) {
				s.nodeEvent(1, 10, "ADDED", "u1")
				s.owned(1.5, 11, "ADDED", "u1")
				s.nodeEvent(20, 30, "DELETED", "u1")
				s.owned(79, 31, "DELETED", "u1")
				s.beat(200, 0)
			}, Held},
			{"the collector is down", func(s *script) {
				s.nodeEvent(1, 10, "ADDED", "u1")
				s.owned(1.5, 11, "ADDED", "u1")
				s.component(15, "kube-controller-manager", "stopped")
				s.nodeEvent(20, 30, "DELETED", "u1")
				s.beat(200, 0)
			}, Held},
			{"an owner of another kind beside the Node", func(s *script) {
				s.nodeEvent(1, 10, "ADDED", "u1")
				owners := []history.Owner{{Kind: "Node", Name: testNode, UID: "u1"}, {Kind: "Thing", Name: "t", UID: "x"}}
				s.add(2, history.Event{Source: "api/csinodes", Rev: 11, Key: testNode}, history.CSINode{Object: history.Object{Type: "ADDED"}, Owners: owners})
				s.beat(10, 0)
			}, Held},
		},
	} {
		t.Run(invariant, func(t *testing.T) { runClauses(t, invariant, clauses) })
	}
}

func TestRefreshClausesThatAreNotJudged(t *testing.T) {
	for invariant, clauses := range map[string][]clause{
		"only-capacity-refreshes": {
			{"a short period", func(s *script) { ticking(s); s.info(11.5, 8); s.info(15, 8); s.beat(30, 0) }, ""},
			{"a period that was short just now", func(s *script) { ticking(s); s.period(11, 6, hour()); s.info(11.5, 8); s.beat(30, 0) }, ""},
			{"code 8 a moment ago", func(s *script) {
				rarely(s)
				s.va(10, 32, 8)
				s.va(19, 33, 13)
				s.info(20, 5)
				s.beat(30, 0)
			}, Held},
		},
		"period-change-applies": {
			{"a refresh on code 8", func(s *script) {
				ticking(s)
				s.info(11.5, 8)
				s.period(15, 6, hour())
				s.va(16, 32, 8)
				s.info(40, 8)
				s.beat(60, 0)
			}, ""},
			{"the API server was cut off", func(s *script) {
				ticking(s)
				s.info(11.5, 8)
				s.component(14, "kube-apiserver", "paused")
				s.period(15, 6, nil)
				s.info(21.5, 8)
				s.component(25, "kube-apiserver", "resumed")
				s.beat(90, 0)
			}, ""},
			{"a call in flight", func(s *script) {
				ticking(s)
				s.info(11.5, 8)
				s.period(15, 6, nil)
				s.info(16, 8)
				s.beat(60, 0)
			}, Held},
			{"deregistered", func(s *script) {
				ticking(s)
				s.info(11.5, 8)
				s.period64(15, 6, 20)
				s.writes(16, 21, node, "update", "20", nil)
				s.beat(60, 0)
			}, ""},
			{"the first sight of a period", func(s *script) { ticking(s); s.beat(60, 0) }, ""},
		},
		"survives-garbage": {
			{"an ordinary answer", func(s *script) { ticking(s); s.info(11.5, 0); s.beat(60, 0) }, ""},
			{"stopped by the run", func(s *script) {
				ticking(s)
				s.info(11.5, -5)
				s.component(12, "kubelet@n1", "stopping")
				s.beat(60, 0)
			}, ""},
			{"a driver that is not there", func(s *script) { s.period64(5, 6, 9223372036); s.beat(60, 0) }, ""},
			{"another node id", func(s *script) {
				ticking(s)
				n := int64(8)
				out := history.CSICall{NodeID: "other", MaxVolumes: &n}
				s.csi(11.5, 0.1, "csi/n1", s.op(), "NodeGetInfo", history.ClientSide, history.OK, history.CSICall{}, out)
				s.beat(60, 0)
			}, Held},
			{"long before the end", func(s *script) { ticking(s); s.info(11.5, -5); s.exited(100, "exit status 2"); s.beat(160, 0) }, Inconclusive},
		},
		"rejection-final": {
			{"failed for another reason", func(s *script) { s.pod(5, 31, "Failed", "Evicted"); s.pod(6, 32, "Pending", ""); s.beat(20, 0) }, ""},
			{"an older state seen again", func(s *script) {
				s.pod(5, 31, "Failed", limitExceeded)
				s.pod(6, 30, "Pending", "")
				s.beat(20, 0)
			}, Held},
		},
		"rejection-accounted": {
			{"the API server was down", func(s *script) {
				waiting(s)
				s.pod(132.5, 41, "Failed", limitExceeded)
				s.component(133, "kube-apiserver", "stopped")
				s.component(140, "kube-apiserver", "started")
				s.beat(200, 0)
			}, ""},
			{"read too near to the rejection", func(s *script) {
				waiting(s)
				s.component(0, "kubelet@n1", "started")
				s.kubeEvent(132.4, 40, "p0.1", 1)
				s.pod(132.5, 41, "Failed", limitExceeded)
				s.rejections(133, 0)
				s.beat(200, 0)
			}, Held},
			{"counted, of a pod that was deleted while it waited", func(s *script) {
				waiting(s)
				s.component(0, "kubelet@n1", "started")
				s.kubeEvent(12.4, 40, "p0.1", 1)
				s.add(12.5, history.Event{Source: "api/pods", Rev: 41, Key: "ns/p0", Node: testNode}, history.Pod{
					Object: history.Object{Type: "DELETED", UID: "uid-p0"}, NodeName: testNode, PodPhase: "Pending", Claims: []string{"c0"},
				})
				s.rejections(150, 1)
			}, ""},
			{"counted by the kubelet before", func(s *script) {
				waiting(s)
				s.kubeEvent(132.4, 40, "p0.1", 1)
				s.pod(132.5, 41, "Failed", limitExceeded)
				s.component(140, "kubelet@n1", "stopped")
				s.component(141, "kubelet@n1", "started")
				s.rejections(200, 0)
			}, Held},
		},
		"error-code-faithful": {
			{"an attacher that writes none", func(s *script) {
				attaching(s)
				s.header.Versions["csi-attacher"] = "v4.10.0"
				s.attachError(5.3, 32, -1, fullError)
			}, ""},
			{"an attacher whose gate is off", func(s *script) {
				attaching(s)
				s.header.Versions["csi-attacher"] = "v4.11.0"
				s.attachError(5.3, 32, -1, fullError)
			}, ""},
			{"an attacher whose gate was turned on", func(s *script) {
				attaching(s)
				s.header.Versions["csi-attacher"], s.header.Versions["csi-attacher/MutableCSINodeAllocatableCount"] = "v4.11.0", "true"
				s.attachError(5.3, 32, -1, fullError)
			}, Violated},
			{"an attacher whose gate was turned off", func(s *script) {
				attaching(s)
				s.header.Versions["csi-attacher"], s.header.Versions["csi-attacher/MutableCSINodeAllocatableCount"] = "v4.12.0", "false"
				s.attachError(5.3, 32, -1, fullError)
			}, ""},
			{"an API server that drops it", func(s *script) {
				attaching(s)
				s.header.Versions["kube-apiserver"] = "v1.32.0"
				s.attachError(5.3, 32, -1, fullError)
			}, ""},
			{"a call that nobody saw", func(s *script) {
				attaching(s)
				s.attachError(5.3, 32, 14, "rpc error: code = Unavailable desc = connection refused")
			}, ""},
			{"the error before", func(s *script) {
				attaching(s)
				s.publishFails(6, 13, "node is full")
				s.attachError(6.3, 32, 8, fullError)
			}, Held},
			{"the same error again", func(s *script) {
				attaching(s)
				s.attachError(5.3, 32, 8, fullError)
				s.attachError(6.3, 33, 8, fullError)
			}, Held},
		},
	} {
		t.Run(invariant, func(t *testing.T) { runClauses(t, invariant, clauses) })
	}
}
