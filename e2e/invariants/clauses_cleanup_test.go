package invariants

import (
	"testing"

	"headroom/e2e/framework/history"
)

func TestRejectionCleansUpIsNotJudged(t *testing.T) {
	stays := func(between func(*script)) func(*script) {
		return func(s *script) {
			refusedThere(s)
			between(s)
			s.beat(240, 0)
		}
	}
	adopted := func(b *history.Pod) { b.Claims = []string{"c2"} }
	runClauses(t, "rejection-cleans-up", []clause{
		{"nothing between", stays(func(*script) {}), Violated},
		{"another pod uses the volume there", stays(func(s *script) { s.podState(155, 3, onNode, adopted) }), ""},
		{"the controller manager was away", stays(func(s *script) { s.component(160, "kube-controller-manager", "paused") }), ""},
		{"the attacher was away", stays(func(s *script) { s.component(160, "csi-attacher@d", "exited") }), ""},
		{"another driver's attacher was away", stays(func(s *script) { s.component(160, "csi-attacher@e", "exited") }), Violated},
		{"the backend did not detach", stays(func(s *script) { s.outage(155, "hang", "detach") }), ""},
		{"the backend did not tell quotas", stays(func(s *script) { s.outage(155, "hang", "get") }), Violated},
		{"the Node was gone", stays(func(s *script) {
			s.add(160, history.Event{Source: "api/nodes", Key: testNode}, history.Node{Object: history.Object{Type: "DELETED"}})
		}), ""},
		{"the kubelet had it in use", stays(func(s *script) {
			s.nodeObject(190, func(b *history.Node) { b.VolumesInUse = []string{"kubernetes.io/csi/d^h2"} })
		}), ""},
		{"the kubelet let go of it long before", stays(func(s *script) {
			s.nodeObject(149, func(b *history.Node) { b.VolumesInUse = []string{"kubernetes.io/csi/d^h2"} })
			s.nodeObject(151, func(*history.Node) {})
			s.beat(215, 0)
		}), Violated},
		{"the kubelet kept it", stays(func(s *script) {
			s.nodeObject(149, func(b *history.Node) { b.VolumesInUse = []string{"kubernetes.io/csi/d^h2"} })
		}), ""},
		{"the kubelet had another one in use", stays(func(s *script) {
			s.nodeObject(190, func(b *history.Node) { b.VolumesInUse = []string{"kubernetes.io/csi/d^h1"} })
		}), Violated},
		{"gone late", stays(func(s *script) { s.attachment(220, 2, detached) }), Violated},
		{"the run ended", func(s *script) { refusedThere(s); s.beat(200, 0) }, ""},
		{"failed for another reason", func(s *script) {
			s.quota(0, 2, 0)
			s.bench(3, 4, 0)
			s.podState(5, 2, onNode)
			s.attachment(5.5, 2)
			s.podState(150, 2, onNode, func(b *history.Pod) { b.PodPhase, b.Reason = "Failed", "Evicted" })
			s.beat(240, 0)
		}, ""},
		{"an attachment that nobody had", func(s *script) { s.quota(0, 2, 0); s.bench(3, 4, 0); s.attachment(5, 2); s.beat(240, 0) }, ""},
	})
	unpublish := func(before func(*script), code uint32) func(*script) {
		return func(s *script) { s.quota(0, 2, 0); before(s); s.unpublishes(10, 0, code) }
	}
	runClauses(t, "rejection-cleans-up", []clause{
		{"refused before", unpublish(func(s *script) { s.attach(5, "h0", refused(history.ReasonFull)) }, 13), Violated},
		{"was attached", unpublish(func(s *script) { s.attach(5, "h0", accepted(1, 2)) }, 13), ""},
		{"may have been attached", unpublish(func(s *script) { s.attach(5, "h0", history.Backend{Reason: history.ReasonUnavailable}) }, 13), ""},
		{"no detach works", unpublish(func(s *script) { s.outage(5, "refuse") }, 14), ""},
		{"cancelled", unpublish(func(*script) {}, codeCanceled), ""},
		{"a node that the backend does not know", func(s *script) { s.unpublishes(10, 0, 13) }, ""},
	})
}

func TestStuckAttachmentsHaveABoundary(t *testing.T) {
	inv, _ := Find("rejection-cleans-up")
	for _, c := range []struct {
		name  string
		write func(*script)
		want  history.Boundary
	}{
		{"no deletion", func(*script) {}, history.ControllerManager},
		{"the driver was not asked", func(s *script) { s.attachment(151, 2, deleting) }, history.Attacher},
		{"the driver had answered", func(s *script) { s.attachment(151, 2, deleting); s.unpublishes(152, 2, 0) }, history.Attacher},
		{"the driver hangs", func(s *script) {
			s.attachment(151, 2, deleting)
			in := history.CSICall{Volume: "h2", NodeID: testNode}
			s.csi(152, 0, "csi/controller/d", "x", "ControllerUnpublishVolume", history.DriverSide, "", in, in)
		}, history.Driver},
	} {
		s := newScript()
		refusedThere(s)
		c.write(s)
		s.beat(240, 0)
		for _, v := range s.judge(inv).Results[0].Verdicts {
			if v.Subject == "ns/p2" && (v.Status != Violated || v.Boundary != c.want) {
				t.Errorf("%s: want Violated by %s, got %+v", c.name, c.want, v)
			}
		}
	}
}

func TestNoLeakedAttachment(t *testing.T) {
	left := func(after func(*script)) func(*script) {
		return func(s *script) { heldByBackend(s); s.podState(20, 0, gone); after(s); s.beat(100, 0) }
	}
	runClauses(t, "no-leaked-attachment", []clause{
		{"nothing", left(func(*script) {}), Violated},
		{"a new pod", left(func(s *script) { s.podState(30, 3, onNode, func(b *history.Pod) { b.Claims = []string{"c0"} }) }), ""},
		{"rejected: not this row's", func(s *script) { refusedThere(s); s.beat(240, 0) }, ""},
		{"a failing detach", left(func(s *script) { s.attachment(21, 0, deleting); s.unpublishes(22, 0, 13) }), Violated},
		{"the harness took it away in time", left(func(s *script) { s.unpublishes(22, 0, 0); s.attachment(23, 0, detached); s.detach(30, "h0") }), Held},
		{"a new attachment for what the backend kept", left(func(s *script) {
			s.unpublishes(22, 0, 0)
			s.attachment(23, 0, detached)
			s.podState(30, 3, onNode, func(b *history.Pod) { b.Claims = []string{"c0"} })
			s.attachment(31, 0)
		}), Held},
	})
}

func TestNoCollateral(t *testing.T) {
	bystander := func(between func(*script), answer int64) func(*script) {
		return func(s *script) { bystands(s); between(s); s.info(41.5, answer) }
	}
	other := func(s *script, b *history.Backend, key string, at float64, node string) {
		s.add(at, history.Event{Source: "backend", Node: node, Key: key}, *b)
	}
	runClauses(t, "no-collateral", []clause{
		{"the same answer", bystander(func(*script) {}, 8), Held},
		{"another answer", bystander(func(*script) {}, 7), Violated},
		{"its own quota", bystander(func(s *script) { s.quota(36, 7, 0) }, 7), ""},
		{"its own outage", bystander(func(s *script) { s.outage(36, "refuse") }, 1), ""},
		{"everybody's outage", bystander(func(s *script) { other(s, &history.Backend{Fault: "refuse"}, "fault", 36, "") }, 1), ""},
		{"another's outage", bystander(func(s *script) { other(s, &history.Backend{Fault: "refuse"}, "fault", 36, "n2") }, 1), Violated},
		{"its driver was restarted", bystander(func(s *script) { s.component(36, "driver@n1/d", "stopped"); s.component(37, "driver@n1/d", "started") }, 1), ""},
		{"a volume was attached", bystander(func(s *script) { s.attach(30, "h0", accepted(1, 8)); s.attach(36, "h1", accepted(2, 8)) }, 7), ""},
		{"nobody was named", func(s *script) { s.quota(0, 8, 0); ticking(s); s.info(31.5, 8); s.info(41.5, 5) }, ""},
		{"untrue before", func(s *script) {
			bystands(s)
			s.info(34, 5)
			s.info(41.5, 3)
		}, ""},
		{"preempted by a higher priority", func(s *script) {
			s.podState(1, 0, runs)
			s.podState(2, 1, func(b *history.Pod) { b.Priority = 1 })
			s.podState(9, 0, runs, func(b *history.Pod) { b.Disruption = preempted })
		}, ""},
		{"failed by itself", func(s *script) {
			s.podState(1, 0, runs)
			s.quota(2, 5, 0)
			s.podState(9, 0, onNode, func(b *history.Pod) { b.PodPhase = "Failed" })
		}, ""},
		{"its kubelet was restarted", func(s *script) {
			s.podState(1, 0, runs)
			s.component(5, "kubelet@n1", "stopped")
			s.component(6, "kubelet@n1", "started")
			s.podState(9, 0, overLimit)
		}, ""},
		{"rejected before it ran", func(s *script) { s.podState(1, 0, onNode); s.podState(9, 0, overLimit) }, ""},
	})
}

func TestRecoversAfterHeal(t *testing.T) {
	never := func(between func(*script)) func(*script) {
		return func(s *script) {
			outageEnds(s)
			between(s)
			for at := 51.0; at < 190; at += 10 {
				s.info(at, 1)
			}
		}
	}
	runClauses(t, "recovers-after-heal", []clause{
		{"nothing between", never(func(*script) {}), Violated},
		{"another outage", never(func(s *script) { s.outage(60, "hang") }), ""},
		{"an outage of attaches", func(s *script) {
			s.quota(0, 4, 0)
			ticking(s)
			s.outage(15, "refuse", "attach")
			s.outage(40, "")
			s.beat(190, 0)
		}, ""},
		{"the backend said full", never(func(s *script) { s.attach(60, "h0", refused(history.ReasonFull)) }), ""},
		{"the kubelet was away", never(func(s *script) { s.component(60, "kubelet@n1", "stopped") }), ""},
		{"the driver was restarted", never(func(s *script) { s.component(50, "driver@n1/d", "started"); s.component(60, "driver@n1/d", "stopped") }), ""},
		{"no period any more", never(func(s *script) { s.period(60, 200, nil) }), ""},
		{"the quota changed after", never(func(s *script) { s.quota(95, 6, 0) }), Violated},
		{"the quota changed near the end", never(func(s *script) { s.quota(110, 6, 0) }), ""},
		{"right, then the node was removed", func(s *script) {
			outageEnds(s)
			s.info(51, 4)
			s.counted(51.2, 4)
			s.add(60, history.Event{Source: "backend", Node: testNode, Key: "quota"}, history.Backend{})
			s.beat(190, 0)
		}, Held},
		{"the node was removed", never(func(s *script) {
			s.add(60, history.Event{Source: "backend", Node: testNode, Key: "quota"}, history.Backend{})
		}), ""},
		{"no room: 1 is right", never(func(s *script) { s.quota(50, 0, 0) }), Held},
		{"the run ended", func(s *script) { outageEnds(s); s.beat(60, 0) }, ""},
		{"slow steps", func(s *script) {
			s.header.Params.Driver.Step, s.header.Params.Driver.StepInterval = 1, history.Duration(20e9)
			outageEnds(s)
			for i, at := range []float64{55, 80, 105, 130, 155} {
				n := int64(1 + i/2)
				s.info(at, n)
				s.counted(at+0.1, int32(n))
			}
			s.info(175, 4)
			s.counted(175.1, 4)
			s.beat(190, 0)
		}, Held},
	})
	waited := func(between func(*script)) func(*script) {
		return func(s *script) { waitsForHeal(s); between(s); s.beat(160, 0) }
	}
	runClauses(t, "recovers-after-heal", []clause{
		{"pod: nothing between", waited(func(*script) {}), Violated},
		{"pod: deleted", waited(func(s *script) { s.podState(60, 0, gone) }), ""},
		{"pod: the attacher was away", waited(func(s *script) { s.component(60, "csi-attacher@d", "exited") }), ""},
		{"pod: there is no such volume", waited(func(s *script) { s.attach(60, "h0", refused(history.ReasonNoSuchVolume)) }), ""},
		{"pod: never tried in the outage", func(s *script) {
			s.quota(0, 4, 0)
			s.bench(4, 1, 0)
			s.outage(5, "refuse", "attach")
			s.podState(39, 0, onNode)
			s.outage(40, "")
			s.beat(160, 0)
		}, ""},
	})
}
