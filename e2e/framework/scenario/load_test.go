package scenario

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"headroom/e2e/framework/history"
)

type slowParams struct {
	Hold history.Duration `yaml:"hold"`
	Code string           `yaml:"code,omitempty"`
}

func (p *slowParams) Check() (field, remedy string, err error) {
	if p.Code == "bad" {
		return "code", "write another", errors.New(`no code "bad"`)
	}
	return "", "", nil
}

var catalog = Catalog{
	Faults: map[string]FaultType{
		"slow":   {Targets: []Class{NodeDriver}, New: func() any { return &slowParams{} }},
		"outage": {Targets: []Class{Backend, OnNode}, New: func() any { return &struct{}{} }},
	},
	Invariants: map[string]history.Boundary{"no-stale": history.Kubelet, "within-quota": history.Driver},
	Figures: func(_ string, f Figures) error {
		if f.CacheAge == 1 {
			return errors.New("cacheAge is too little")
		}
		return nil
	},
	Driver: func(name string) error {
		if name != "steady" {
			return fmt.Errorf("no driver %q", name)
		}
		return nil
	},
}

const good = `apiVersion: headroom/v1alpha1
kind: Scenario
metadata:
  name: late-answer
  doc: An old answer lands late.
topology:
  kubernetes: v1.36.3
  nodes:
  - limit: 4
  - {limit: 3, foreign: 1, zone: a}
driver:
  name: steady
  figures: {cacheAge: 1s}
period: 10s
steps:
- pods: {name: web, count: 2, on: node/1}
- wait: {within: 30s, pods: {name: web, are: running}}
- at: 5s
  fault: {id: late, name: slow, target: driver@1, params: {hold: 15s}}
- quota: {node: node/1, limit: 3}
- heal: late
- component: {target: kubelet@1, do: restart, version: v1.35.4}
- patch: {object: csidriver, merge: {spec: {nodeAllocatableUpdatePeriodSeconds: 20}}}
- replace: node/2
- wait: {within: 20s, count: {node: node/1, is: 3}}
- wait: {within: 20s, calls: {target: driver@1, method: NodeGetInfo, more: 2}}
- wait: {within: 20s, process: {target: kube-scheduler, is: up}}
- sleep: 1s
- delete: web
expect:
  invariants:
  - {invariant: no-stale, verdict: violated, versions: ">=1.33 <1.38", atMost: 60s}
  - {invariant: within-quota, verdict: held}
`

func TestLoad(t *testing.T) {
	s, err := Load("f.yaml", []byte(good), catalog)
	if err != nil {
		t.Fatal(err)
	}
	if p, ok := s.Steps[2].Fault.Decoded().(*slowParams); !ok || p.Hold.String() != "15s" {
		t.Errorf("params: got %#v", s.Steps[2].Fault.Decoded())
	}
	if s.Limit != history.Duration(defaultLimit) || s.Shared() || s.Topology.Version("csi-attacher") != "v4.12.0" || s.Topology.Version("kubelet") != "v1.36.3" {
		t.Errorf("got limit %s, shared %t, %q, %q", s.Limit, s.Shared(), s.Topology.Version("csi-attacher"), s.Topology.Version("kubelet"))
	}
	shared := strings.Replace(good, "{target: kubelet@1, do: restart, version: v1.35.4}", "{target: kube-controller-manager, do: pause}", 1)
	if s, err = Load("f.yaml", []byte(shared), catalog); err != nil || !s.Shared() || s.Blinds() {
		t.Errorf("a paused controller manager: want a shared scenario that blinds nobody, got %v, %v", s, err)
	}
	blind := strings.Replace(shared, "kube-controller-manager, do: pause", "etcd, do: pause", 1)
	if s, err = Load("f.yaml", []byte(blind), catalog); err != nil || !s.Shared() || !s.Blinds() {
		t.Errorf("a paused etcd: want a scenario that blinds, got %v, %v", s, err)
	}
}

func TestEncodeReadsBack(t *testing.T) {
	s, err := Load("f.yaml", []byte(good), catalog)
	if err != nil {
		t.Fatal(err)
	}
	text, err := s.Encode()
	if err != nil {
		t.Fatal(err)
	}
	again, err := Load("g.yaml", text, catalog)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	second, err := again.Encode()
	if err != nil || string(second) != string(text) {
		t.Errorf("want the same again (%v), got\n%s\nafter\n%s", err, second, text)
	}
	if !reflect.DeepEqual(again.Expect, s.Expect) || again.Steps[2].Fault.Target != s.Steps[2].Fault.Target {
		t.Errorf("want %+v, got %+v", s.Expect, again.Expect)
	}
}

func TestTwoHundredStepsAreData(t *testing.T) {
	s, err := Load("f.yaml", []byte(good), catalog)
	if err != nil {
		t.Fatal(err)
	}
	s.Steps = nil
	for i := range 100 {
		id := fmt.Sprintf("f%d", i)
		s.Steps = append(s.Steps, Step{Fault: &Fault{ID: id, Name: "outage", Target: Target{Class: OnNode, Node: 1 + i%2}}}, Step{Heal: id})
	}
	text, err := s.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if again, err := Load("f.yaml", text, catalog); err != nil || len(again.Steps) != 200 {
		t.Errorf("want 200 steps, got %v", err)
	}
}

func TestLoadRefuses(t *testing.T) {
	for _, c := range []struct{ name, old, new, want string }{
		{"version", "headroom/v1alpha1", "headroom/v2", `f.yaml:1: apiVersion: want "headroom/v1alpha1", got "headroom/v2" (remedy: write headroom/v1alpha1)`},
		{"kind", "kind: Scenario", "kind: Driver", `f.yaml:2: kind: want "Scenario"`},
		{"name", "name: late-answer", "name: Late_Answer", `f.yaml:4: metadata.name: want at most 32`},
		{"unknown field", "  doc:", "  docs:", `f.yaml:5: metadata.docs: unknown field "docs"`},
		{"duplicate key", "period: 10s", "period: 10s\nperiod: 10s", `f.yaml:15: period: duplicate key`},
		{"unknown version", "kubernetes: v1.36.3", "kubernetes: v1.20.0", `f.yaml:7: topology.kubernetes: kubernetes version "v1.20.0" is not known; known: v1.32.13`},
		{"unknown component", "  nodes:", "  components: {kubelets: v1.35.4}\n  nodes:", `topology.components.kubelets: unknown component "kubelets"`},
		{"kubelet too old", "  nodes:", "  components: {kubelet: v1.32.13}\n  nodes:",
			`topology.components: kubelet v1.32.13 with kube-apiserver v1.36.3 is not supported: kubelet may be up to 3 minor versions older`},
		{"scheduler too new", "  nodes:", "  components: {kube-scheduler: v1.37.2}\n  nodes:", `kube-scheduler must not be newer than kube-apiserver`},
		{"unknown attacher", "  nodes:", "  components: {csi-attacher: v4.9.0}\n  nodes:",
			`topology.components.csi-attacher: external-attacher version "v4.9.0" is not known; known: v4.11.0`},
		{"gate that is not there", "  nodes:", "  gates: {kubelet: {None: true}}\n  nodes:", `topology.gates.kubelet.None: kubelet v1.36.3 has no feature gate "None"`},
		{"locked gate", "  nodes:", "  gates: {kubelet: {MutableCSINodeAllocatableCount: false}}\n  nodes:", `locked to true and would exit`},
		{"unknown provisioner", "  nodes:", "  components: {csi-provisioner: v5.1.0}\n  nodes:",
			`topology.components.csi-provisioner: external-provisioner version "v5.1.0" is not known; known: v5.3.0`},
		{"gates of nothing", "  nodes:", "  gates: {etcd: {}}\n  nodes:", `topology.gates.etcd: unknown component`},
		{"no nodes", "nodes:\n  - limit: 4\n  - {limit: 3, foreign: 1, zone: a}", "nodes: []", `f.yaml:8: topology.nodes: want 1 to 50 nodes, got 0`},
		{"foreign", "foreign: 1", "foreign: -1", `f.yaml:10: topology.nodes[1].foreign: -1 foreign attachments`},
		{"driver", "name: steady", "name: nobody", `f.yaml:12: driver.name: no driver "nobody"`},
		{"long names", "name: steady", "name: a-driver-whose-name-is-forty-letters-long", `f.yaml:4: metadata.name: with driver "a-driver-whose-name-is-forty-letters-long" it is 4 characters too long`},
		{"impossible figures", "cacheAge: 1s", "cacheAge: 1ns", `f.yaml:13: driver.figures: cacheAge is too little (remedy: raise the one`},
		{"negative step", "cacheAge: 1s", "step: -1", `f.yaml:13: driver.figures.step: -1 volumes`},
		{"figures", "cacheAge: 1s", "cacheAge: 1", `f.yaml:13: driver.figures.cacheAge: 1 has no unit (remedy: write the unit, such as 1s)`},
		{"short period", "period: 10s", "period: 9s", `f.yaml:14: period: want whole seconds, at least 10s, got 9s`},
		{"long limit", "period: 10s", "period: 10s\nlimit: 2h", `f.yaml:15: limit: want at most 30m0s, got 2h0m0s`},
		{"no steps", good[strings.Index(good, "steps:"):strings.Index(good, "expect:")], "steps: []\n", `steps: want 1 to 1000 steps, got 0`},
		{"two in one step", "- heal: late", "- heal: late\n  delete: web", `steps[4]: want exactly one of pods, delete`},
		{"none in a step", "- heal: late", "- at: 9s", `steps[4]: want exactly one of`},
		{"back in time", "- heal: late", "- at: 4s\n  heal: late", `steps[4].at: 4s is before the 5s of an earlier step`},
		{"unit-less time", "- at: 5s", "- at: 5", `steps[2].at: 5 has no unit`},
		{"node 3 of 2", "on: node/1", "on: node/3", `f.yaml:16: steps[0].pods.on: "node/3" is node 3 of 2 (remedy: name a node that there is`},
		{"not a target", "on: node/1", "on: n1", `f.yaml:16: steps[0].pods.on: target "n1": want one of node/1, csinode/1`},
		{"wrong separator", "target: driver@1", "target: driver/1", `target "driver/1": want the number of a node, such as "driver@1"`},
		{"number of none", "target: kube-scheduler,", "target: kube-scheduler@1,", `target "kube-scheduler@1": want "kube-scheduler", which belongs to no node`},
		{"wrong class", "target: driver@1, params", "target: kubelet@1, params", `steps[2].fault.target: want driver@1, got "kubelet@1"`},
		{"unknown fault", "name: slow", "name: slaw", `f.yaml:19: steps[2].fault.name: unknown fault "slaw"; known: outage, slow (remedy: correct the name)`},
		{"unknown parameter", "hold: 15s", "holt: 15s", `f.yaml:19: steps[2].fault.params.holt: unknown field "holt"; known: hold, code`},
		{"wrong parameter", "hold: 15s", "hold: 15s, code: bad", `steps[2].fault.params.code: no code "bad" (remedy: write another)`},
		{"heal of the unknown", "- heal: late", "- heal: early", `steps[4].heal: no fault has the id "early"; there are: ["late"]`},
		{"heal before inject", "- at: 5s\n", "- heal: late\n- at: 5s\n", `steps[2].heal: fault "late" is injected only by step 4`},
		{"healed twice", "- heal: late", "- heal: late\n- heal: late", `steps[5].heal: fault "late" is healed already`},
		{"injected twice", "- heal: late", "- fault: {id: late, name: outage, target: backend}", `steps[4].fault: fault "late" of step 3 is still active`},
		{"unknown pods", "pods: {name: web, are: running}", "pods: {name: wob, are: running}", `steps[1].wait.pods.name: no pods "wob" here; there are: ["web"]`},
		{"deleted pods", "- sleep: 1s", "- delete: web", `steps[12].delete: no pods "web" here`},
		{"pods twice", "- sleep: 1s", "- pods: {name: web}", `there are pods "web" already`},
		{"state", "are: running", "are: fine", `steps[1].wait.pods.are: want one of [running`},
		{"count", "is: 3}", "is: many}", `want a count of 0 or more, "absent" or "no-entry", got "many"`},
		{"quota of nothing", "node: node/1, limit: 3", "node: node/1", `steps[3].quota: it changes nothing`},
		{"action", "do: restart", "do: reboot", `steps[5].component.do: want one of [start stop`},
		{"version of a pause", "do: restart", "do: pause", `steps[5].component.version: only start and restart`},
		{"wait for ever", "within: 20s, process", "within: 0s, process", `wait.within: want more than 0, got 0s`},
		{"version of what is gone", "process: {target: kube-scheduler, is: up}", "process: {target: kube-scheduler, is: exited, version: v1.36.3}",
			`only processes of kube-apiserver, kube-controller-manager, kube-scheduler, kubelet, csi-attacher that are up have a version`},
		{"unknown version of a process", "process: {target: kube-scheduler, is: up}", "process: {target: csi-attacher, is: up, version: v1.36.3}",
			`process.version: external-attacher version "v1.36.3" is not known`},
		{"wait for nothing", ", process: {target: kube-scheduler, is: up}", "", `wait: want exactly one of count, pods, calls, process, got none`},
		{"empty patch", "merge: {spec: {nodeAllocatableUpdatePeriodSeconds: 20}}", "merge: {}", `the patch changes nothing`},
		{"replace", "replace: node/2", "replace: kubelet@2", `steps[7].replace: want node/1, csidriver, got "kubelet@2"`},
		{"remove", "replace: node/2", "remove: kubelet@2", `steps[7].remove: want node/1, csinode/1, csidriver, got "kubelet@2"`},
		{"ephemeral", "count: 2, on", "ephemeral: -1, on", `steps[0].pods.ephemeral: -1 ephemeral volumes`},
		{"nothing expected", good[strings.Index(good, "expect:"):], "expect: {}\n", `expect: it expects nothing`},
		{"unknown invariant", "invariant: no-stale,", "invariant: no-state,", `expect.invariants[0].invariant: unknown invariant "no-state"; known: no-stale, within-quota`},
		{"verdict", "verdict: held", "verdict: hold", `expect.invariants[1].verdict: want held or violated, got "hold"`},
		{"excluded", ">=1.33 <1.38", "<1.33", `expect.invariants[0].versions: "<1.33" excludes the kubelet v1.36.3 of the topology`},
		{"range", ">=1.33 <1.38", "new", `expect.invariants[0].versions: version range "new"`},
		{"range of a driver", "within-quota, verdict: held", `within-quota, verdict: held, versions: all`, `judges the driver, which has no version`},
		{"expected twice", "invariant: within-quota", "invariant: no-stale", `"no-stale" is expected twice`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if strings.Count(good, c.old) == 0 {
				t.Fatalf("nothing to replace: %q", c.old)
			}
			s, err := Load("f.yaml", []byte(strings.Replace(good, c.old, c.new, 1)), catalog)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "remedy: ") && !strings.Contains(c.want, "want") {
				t.Errorf("want an error with %q and a remedy, got: %v", c.want, err)
			}
			if s != nil {
				t.Error("a refused scenario must not be returned")
			}
		})
	}
}

func TestLoadListsAllProblems(t *testing.T) {
	text := strings.NewReplacer("node/1, limit: 3", "node/7, limit: 3", "name: slow", "name: slaw", "heal: late", "heal: never").Replace(good)
	_, err := Load("f.yaml", []byte(text), catalog)
	for _, want := range []string{"f.yaml:19: ", "f.yaml:20: ", "f.yaml:21: "} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want a problem at %q, got: %v", want, err)
		}
	}
}

func FuzzLoad(f *testing.F) {
	f.Add([]byte(good))
	f.Add([]byte("apiVersion: headroom/v1alpha1\nkind: Scenario\nmetadata: {name: a, doc: b}\ntopology: {nodes: [{limit: 1}]}\nsteps: [{}]\nexpect: {}"))
	f.Add([]byte("steps: [{wait: {within: 1s, count: {node: node/1, is: -1}}}]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Load("f.yaml", data, catalog)
		if err != nil {
			return
		}
		text, err := s.Encode()
		if err != nil {
			t.Fatalf("a scenario that loads must encode: %v", err)
		}
		if _, err := Load("f.yaml", text, catalog); err != nil {
			t.Errorf("want what was encoded to load, got %v from\n%s", err, text)
		}
	})
}
