package invariants

import (
	"testing"
	"time"

	"headroom/e2e/framework/history"
)

// upgradeEvent writes an event of a walk.
func (s *script) upgradeEvent(at float64, phase history.Phase, key, op, node string, body any) {
	s.add(at, history.Event{Source: history.SourceUpgrade, Phase: phase, Op: op, Node: node, Key: key}, body)
}

// walks frames a walk from one time to another.
func (s *script) walks(from, to float64) {
	b := history.Walk{From: "v1.35.4", To: "v1.36.3", Steps: 1}
	s.upgradeEvent(from, history.Invoke, history.KeyWalk, "walk", "", b)
	s.upgradeEvent(to, history.OK, history.KeyWalk, "walk", "", b)
}

// walkStep frames a step.
func (s *script) walkStep(from, to float64, ends history.Phase, node string, b history.WalkStep) {
	s.upgradeEvent(from, history.Invoke, history.KeyStep, "step-1", node, b)
	s.upgradeEvent(to, ends, history.KeyStep, "step-1", node, b)
}

// swapped is a swap from +10 s that is ready at one time and whose last lease is renewed at another, and that ended as ends says 1 s after both.
func (s *script) swapped(component string, ready, lease float64, ends history.Phase) {
	s.walks(5, 60)
	s.walkStep(10, max(ready, lease)+1, ends, "", history.WalkStep{Number: 1, Leg: "upgrade", Do: history.DoSwap, Component: component, From: "v1.35.4", To: "v1.36.3"})
	s.component(10.1, component, "stopping")
	s.component(10.2, component, "stopped")
	s.component(10.3, component, "started")
	s.component(ready, component, "ready")
	s.upgradeEvent(lease-0.5, history.Observed, history.KeyLease, "step-1", "n2", nil)
	if ends == history.OK {
		s.upgradeEvent(lease, history.Observed, history.KeyLease, "step-1", testNode, nil)
	}
	s.beat(90, 0)
}

// orders writes that the run asks for the end of pod p0.
func (s *script) orders(at float64, verb string) {
	body := history.Workload{Verb: verb, Resource: "pod", Name: "ns/p0"}
	s.add(at, history.Event{Source: "workload/runner", Phase: history.Invoke, Op: "w1", Key: verb + " pod ns/p0"}, body)
	s.add(at+0.01, history.Event{Source: "workload/runner", Phase: history.OK, Op: "w1", Key: verb + " pod ns/p0"}, body)
}

// walkedOn is a node with a pod that runs, while a walk is under way.
func walkedOn(s *script) {
	s.quota(0, 4, 0)
	s.bench(4, 1, 1)
	s.walks(5, 60)
	s.beat(90, 0)
}

func notReady(b *history.Node) { b.Ready = false }

// ends is a pod whose deletion was asked for.
func ends(b *history.Pod) {
	runs(b)
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	b.Deleted = &at
}

func again(b *history.Pod) { runs(b); b.Restarts = 1 }

var upgradeGoldens = []golden{
	{"swap-in-time", "held", func(s *script) { s.swapped("kube-apiserver", 14, 16, history.OK) }},
	{"swap-in-time", "violated-slow-start", func(s *script) { s.swapped("kube-apiserver", 20.5, 15, history.OK) }},
	{"swap-in-time", "violated-late-lease", func(s *script) { s.swapped("kube-scheduler", 11, 22, history.OK) }},
	{"swap-in-time", "violated-no-lease", func(s *script) { s.swapped("kube-apiserver", 14, 15, history.Fail) }},
	{"swap-in-time", "inconclusive-slow", func(s *script) { s.swapped("kubelet@n1", 11, 22, history.OK); s.beat(13, 1500*time.Millisecond) }},

	{"upgrade-spares-pods", "held", walkedOn},
	{"upgrade-spares-pods", "held-drained", func(s *script) {
		walkedOn(s)
		s.orders(20, "evict")
		s.podState(20.1, 0, ends)
		s.podState(20.3, 0, gone)
		s.detach(21, "h0")
		s.attachment(21.1, 0, detached)
	}},
	{"upgrade-spares-pods", "violated-restart", func(s *script) { walkedOn(s); s.podState(20, 0, again) }},
	{"upgrade-spares-pods", "violated-failed", func(s *script) { walkedOn(s); s.podState(20, 0, overLimit) }},
	{"upgrade-spares-pods", "violated-deleted", func(s *script) { walkedOn(s); s.podState(20, 0, ends) }},
	{"upgrade-spares-pods", "violated-detached", func(s *script) { walkedOn(s); s.detach(20, "h0") }},
	{"upgrade-spares-pods", "violated-not-ready", func(s *script) { walkedOn(s); s.nodeObject(20, notReady) }},
	{"upgrade-spares-pods", "inconclusive-gap", func(s *script) { walkedOn(s); s.lose(60, "api/pods") }},
}

func TestClausesOfUpgrades(t *testing.T) {
	kubelet := history.WalkStep{Number: 1, Leg: "upgrade", Do: history.DoSwap, Component: "kubelet@n1", From: "v1.35.4", To: "v1.36.3"}
	runClauses(t, "upgrade-spares-pods", []clause{
		{"no walk", func(s *script) { s.bench(4, 1, 1); s.podState(20, 0, again); s.beat(90, 0) }, ""},
		{"after the walk", func(s *script) { walkedOn(s); s.podState(70, 0, ends); s.detach(71, "h0") }, Held},
		{"a node whose kubelet is changed", func(s *script) {
			walkedOn(s)
			s.walkStep(20, 25, history.OK, testNode, kubelet)
			s.nodeObject(22, notReady)
			s.nodeObject(24)
		}, Held},
		{"a node whose kubelet was changed", func(s *script) {
			walkedOn(s)
			s.walkStep(20, 25, history.OK, testNode, kubelet)
			s.nodeObject(30, notReady)
		}, Violated},
		{"deleted by the run", func(s *script) { walkedOn(s); s.orders(20, "delete"); s.podState(20.1, 0, ends) }, Held},
		{"a namesake was deleted long before", func(s *script) {
			s.orders(-10, "delete")
			walkedOn(s)
			s.podState(20, 0, ends)
		}, Violated},
		{"a pod that never ran", func(s *script) {
			s.quota(0, 4, 0)
			s.bench(4, 1, 0)
			s.walks(5, 60)
			s.podState(10, 0, onNode)
			s.podState(20, 0, ends)
			s.beat(90, 0)
		}, ""},
	})
	runClauses(t, "swap-in-time", []clause{
		{"never stopped", func(s *script) {
			s.walks(5, 60)
			s.walkStep(10, 40, history.Fail, testNode, kubelet)
			s.beat(90, 0)
		}, ""},
		{"never up again", func(s *script) {
			s.walks(5, 60)
			s.walkStep(10, 40, history.Fail, testNode, kubelet)
			s.component(11, "kubelet@n1", "stopping")
			s.beat(90, 0)
		}, ""},
		{"another step", func(s *script) {
			s.walks(5, 60)
			s.walkStep(10, 40, history.OK, testNode, history.WalkStep{Number: 1, Leg: "upgrade", Do: history.DoDrain})
			s.component(11, "kubelet@n1", "stopping")
			s.component(39, "kubelet@n1", "ready")
			s.beat(90, 0)
		}, ""},
	})
}

// TestVersionsOfTheMoment judges a requirement only while the versions that have it run.
func TestVersionsOfTheMoment(t *testing.T) {
	attacher := func(at float64, version string) func(*script) {
		return func(s *script) {
			s.add(at, history.Event{Source: "component/cell", Key: "csi-attacher@d"}, history.Component{State: "ready", Version: version})
		}
	}
	silent := func(s *script) { // a failure whose code the attacher does not pass on
		s.claim(0, 1)
		s.add(0.1, history.Event{Source: "api/persistentvolumes", Rev: 2, Key: "pv0"}, history.PV{Object: history.Object{Type: "ADDED"}, Driver: testDriver, Handle: "h0"})
		in := history.CSICall{Volume: "h0", NodeID: testNode}
		out := in
		out.Code, out.Message = 8, "full"
		s.csi(10, 0.1, "csi/controller/d", s.op(), "ControllerPublishVolume", history.ClientSide, history.Fail, in, out)
		s.add(10.5, history.Event{Source: "api/volumeattachments", Rev: 30, Key: "va0", Node: testNode}, history.VolumeAttachment{
			Object: history.Object{Type: "MODIFIED"}, Attacher: testDriver, NodeName: testNode, PVName: "pv0", AttachError: "rpc error: code = ResourceExhausted desc = full",
		})
		s.beat(60, 0)
	}
	server := func(at float64, version string) func(*script) {
		return func(s *script) {
			s.add(at, history.Event{Source: "component/cell", Key: "kube-apiserver"}, history.Component{State: "ready", Version: version})
		}
	}
	all := func(parts ...func(*script)) func(*script) {
		return func(s *script) {
			for _, p := range parts {
				p(s)
			}
		}
	}
	runClauses(t, "error-code-faithful", []clause{
		{"before the attacher's upgrade", all(attacher(1, "v4.11.0"), silent, attacher(20, "v4.12.0")), ""},
		{"after it", all(attacher(1, "v4.11.0"), attacher(5, "v4.12.0"), silent), Violated},
		{"after its rollback", all(attacher(1, "v4.12.0"), attacher(5, "v4.11.0"), silent), ""},
		{"before the API server's upgrade", all(attacher(1, "v4.12.0"), server(1, "v1.34.4"), silent, server(20, "v1.35.4")), ""},
		{"between", all(attacher(1, "v4.12.0"), server(1, "v1.34.4"), server(5, "v1.35.4"), silent, server(20, "v1.34.4")), Violated},
	})
}
