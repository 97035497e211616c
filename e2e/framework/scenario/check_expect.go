package scenario

import (
	"maps"
	"slices"
	"strings"

	"headroom/e2e/framework/history"
	"headroom/e2e/framework/strict"
	"headroom/e2e/framework/versions"
)

func (c *checker) podsAre(at string, p *PodsAre) {
	c.known(at+".name", p.Name)
	if !slices.Contains(PodStates, p.Are) {
		c.Fail(at+".are", "write one of these", "want one of %v, got %q", PodStates, p.Are)
	}
	if p.Count < 0 {
		c.Fail(at+".count", "write 1 or more", "%d pods", p.Count)
	}
}

func (c *checker) expect() {
	e := c.s.Expect
	if len(e.Invariants)+len(e.Pods) == 0 {
		c.Fail("expect", "name an invariant with its verdict, or a state of pods", "it expects nothing, so nothing could fail")
	}
	for i := range e.Pods {
		c.podsAre(strict.At("expect.pods", i), &e.Pods[i])
	}
	seen := map[string]bool{}
	for i, v := range e.Invariants {
		at := strict.At("expect.invariants", i)
		if seen[v.Invariant] {
			c.Fail(at+".invariant", "remove one of the two", "%q is expected twice", v.Invariant)
		}
		seen[v.Invariant] = true
		c.verdict(at, v)
	}
}

// components maps a boundary to the component whose version counts for it; a driver has none.
var components = map[history.Boundary]string{
	history.Attacher: "csi-attacher", history.Provisioner: "csi-provisioner", history.Kubelet: "kubelet", history.Scheduler: "kube-scheduler", history.APIServer: "kube-apiserver",
	history.ControllerManager: "kube-controller-manager",
}

func (c *checker) verdict(at string, v Verdict) {
	boundary, known := c.catalog.Invariants[v.Invariant]
	if !known {
		c.Fail(at+".invariant", "correct the name", "unknown invariant %q; known: %s", v.Invariant, strings.Join(slices.Sorted(maps.Keys(c.catalog.Invariants)), ", "))
		return
	}
	if v.Verdict != Held && v.Verdict != Violated {
		c.Fail(at+".verdict", "write one of these", "want %s or %s, got %q", Held, Violated, v.Verdict)
	}
	if v.Versions == "" {
		return
	}
	component := components[boundary]
	version := c.s.Topology.Version(component)
	if component == "" {
		c.Fail(at+".versions", "remove it", "%q judges the %s, which has no version", v.Invariant, boundary)
		return
	}
	switch in, err := versions.Within(v.Versions, version.String()); {
	case err != nil:
		c.Fail(at+".versions", `write "all", or terms such as ">=1.33 <1.38"`, "%v", err)
	case !in:
		c.Fail(at+".versions", "widen the range, or change the topology", "%q excludes the %s %s of the topology, so it could never be met", v.Versions, component, version)
	}
}

// Blinds says whether the scenario stops what the observers of the cluster look through, which leaves gaps in the history of everything that plays on it.
func (s *Scenario) Blinds() bool { return s.acts(APIServer, Etcd) }

// acts says whether a step or a fault acts on one of the classes.
func (s *Scenario) acts(on ...Class) bool {
	for _, step := range s.Steps {
		if step.Component != nil && slices.Contains(on, step.Component.Target.Class) || step.Fault != nil && slices.Contains(on, step.Fault.Target.Class) {
			return true
		}
	}
	return false
}

// Shared says whether the scenario must have the cluster for itself: it says so, or it touches what scenarios on one cluster have in common.
func (s *Scenario) Shared() bool { return s.Alone || s.acts(shared...) }
