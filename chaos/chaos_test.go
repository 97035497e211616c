package chaos

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientfake "k8s.io/client-go/kubernetes/fake"

	"headroom/drivers/gate"
	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/history"
	"headroom/e2e/framework/scenario"
	"headroom/e2e/framework/versions"
	"headroom/fixtures/quota"
)

var update = flag.Bool("update", false, "write the faults into docs/writing-a-scenario.md anew")

// TestDocs holds the table of faults in the documentation to the faults.
func TestDocs(t *testing.T) {
	const file, head = "../docs/writing-a-scenario.md", "|---|---|---|\n"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, after, found := strings.Cut(string(text), head)
	if !found {
		t.Fatalf("%s: want a table of faults", file)
	}
	var rows strings.Builder
	for _, name := range Names() {
		f, _ := Find(name)
		var targets []string
		for _, c := range f.Targets {
			targets = append(targets, string(c))
		}
		fmt.Fprintf(&rows, "| `%s` | %s | %s |\n", name, strings.Join(targets, ", "), f.Doc)
	}
	if *update {
		if err := os.WriteFile(file, []byte(before+head+rows.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if after != rows.String() {
		t.Errorf("%s: the table is not what the faults say: run go test ./chaos -run TestDocs -update", file)
	}
}

// TestEveryFaultIsPlayed holds fixtures/scenarios/faults-*.yaml, which show on a cluster that each fault bites and heals, to the faults.
func TestEveryFaultIsPlayed(t *testing.T) {
	var text strings.Builder
	for _, name := range []string{"quota", "driver", "network", "processes", "shared", "version"} {
		b, err := os.ReadFile("../fixtures/scenarios/faults-" + name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		var s struct {
			Steps []struct {
				Fault *struct{ Name string }
			}
		}
		if err := yaml.Unmarshal(b, &s); err != nil {
			t.Fatal(err)
		}
		for _, step := range s.Steps {
			if step.Fault != nil {
				text.WriteString(step.Fault.Name + "\n")
			}
		}
	}
	for _, name := range Names() {
		if !strings.Contains("\n"+text.String(), "\n"+name+"\n") {
			t.Errorf("fault %q is in none of fixtures/scenarios/faults-*.yaml", name)
		}
	}
}

// rig is a target on a real backend without a cluster.
func rig(t *testing.T, class scenario.Class) Target {
	t.Helper()
	server := httptest.NewServer(quota.NewServer(quota.Options{}).Control())
	t.Cleanup(server.Close)
	c := quota.NewControl(server.URL, nil)
	for _, node := range []string{"n1", "n2"} {
		if err := c.AddNode(t.Context(), node, quota.NodeConfig{Limit: 4, Foreign: 1}); err != nil {
			t.Fatal(err)
		}
	}
	to := Target{Target: scenario.Target{Class: class}, Nodes: []string{"n1", "n2"}, Driver: "d", Quota: c, Cluster: &fakeCluster{}}
	if class != scenario.Backend {
		to.Target.Node = 1
	}
	return to
}

func inject(t *testing.T, name string, to Target, params any) Heal {
	t.Helper()
	f, ok := Find(name)
	if !ok {
		t.Fatalf("no fault %q", name)
	}
	if params == nil {
		params = f.New()
	}
	heal, err := f.Inject(t.Context(), to, rand.New(rand.NewPCG(1, 2)), params)
	if err != nil {
		t.Fatal(err)
	}
	return heal
}

func state(t *testing.T, to Target) map[string]quota.NodeState {
	t.Helper()
	s, err := to.Quota.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s.Nodes
}

func TestQuotaFaultsBiteAndHeal(t *testing.T) {
	two, six := int64(2), int64(6)
	for name, c := range map[string]struct {
		fault  string
		class  scenario.Class
		params any
		bites  func(map[string]quota.NodeState) bool
	}{
		"drop":         {"quota-drop", scenario.OnNode, &moveParams{To: &two}, func(n map[string]quota.NodeState) bool { return n["n1"].Quota.Limit == 2 }},
		"random drop":  {"quota-drop", scenario.OnNode, nil, func(n map[string]quota.NodeState) bool { return n["n1"].Quota.Limit < 4 }},
		"raise":        {"quota-raise", scenario.OnNode, &moveParams{To: &six}, func(n map[string]quota.NodeState) bool { return n["n1"].Quota.Limit == 6 }},
		"random raise": {"quota-raise", scenario.OnNode, nil, func(n map[string]quota.NodeState) bool { return n["n1"].Quota.Limit > 4 }},
		"foreign":      {"foreign-attachment", scenario.OnNode, &foreignParams{Count: 2}, func(n map[string]quota.NodeState) bool { return n["n1"].Quota.Foreign == 3 }},
		"flap":         {"quota-flap", scenario.OnNode, &flapParams{To: 1, Every: 1e9}, func(n map[string]quota.NodeState) bool { return n["n1"].Quota.Limit == 1 }},
		"slow":         {"quota-outage", scenario.OnNode, &outageParams{Mode: quota.Slow, Delay: 1e9}, func(n map[string]quota.NodeState) bool { return n["n1"].Fault != nil }},
		"answers lost": {"network-half", scenario.OnNode, nil, func(n map[string]quota.NodeState) bool {
			return n["n1"].Fault.Mode == quota.NoAnswer && n["n2"].Fault == nil
		}},
		"requests lost": {"network-half", scenario.Backend, &halfParams{Lost: lostRequests}, func(n map[string]quota.NodeState) bool {
			return n["n1"].Fault.Mode == quota.Hang && n["n2"].Fault.Mode == quota.Hang
		}},
		"outage": {"quota-outage", scenario.Backend, nil, func(n map[string]quota.NodeState) bool { return n["n1"].Fault != nil && n["n2"].Fault != nil }},
		"outage of one": {"quota-outage", scenario.OnNode, &outageParams{Mode: quota.Hang}, func(n map[string]quota.NodeState) bool {
			return n["n1"].Fault.Mode == quota.Hang && n["n2"].Fault == nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			to := rig(t, c.class)
			heal := inject(t, c.fault, to, c.params)
			if now := state(t, to); !c.bites(now) {
				t.Errorf("it does not bite: %+v", now)
			}
			if err := heal(t.Context()); err != nil {
				t.Fatal(err)
			}
			if n := state(t, to)["n1"]; n.Quota.Limit != 4 || n.Quota.Foreign != 1 || n.Fault != nil {
				t.Errorf("it does not heal: %+v", n)
			}
		})
	}
}

func TestLimitsMoveTheRightWay(t *testing.T) {
	four := int64(4)
	for _, name := range []string{"quota-drop", "quota-raise"} {
		f, _ := Find(name)
		if _, err := f.Inject(t.Context(), rig(t, scenario.OnNode), rand.New(rand.NewPCG(1, 2)), &moveParams{To: &four}); err == nil {
			t.Errorf("%s from 4 to 4: want an error, got none", name)
		}
	}
}

// TestGarbageOfEachKind holds what the kinds of garbage change.
func TestGarbageOfEachKind(t *testing.T) {
	other := "other-than-n1"
	for name, c := range map[string]struct {
		params garbageParams
		id     *string
		key    string
	}{
		"another node": {garbageParams{NodeID: "other"}, &other, ""},
		"no node":      {garbageParams{NodeID: "empty"}, new(string), ""},
		"topology":     {garbageParams{Topology: "other"}, nil, "headroom.test/elsewhere"},
	} {
		fake := &fakeCluster{}
		inject(t, "csi-garbage", Target{Target: scenario.Target{Class: scenario.NodeDriver, Node: 1}, Nodes: []string{"n1"}, Driver: "d", Cluster: fake}, &c.params)
		got := fake.rule
		if (got.NodeID == nil) != (c.id == nil) || got.NodeID != nil && *got.NodeID != *c.id || got.TopologyKey != c.key || got.MaxVolumes != nil {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}

func TestToggleGoesThereAndBackUntilItIsHealed(t *testing.T) {
	var mu sync.Mutex
	var seen []string
	enough := make(chan struct{})
	note := func(what string) func(context.Context) error {
		return func(context.Context) error {
			mu.Lock()
			defer mu.Unlock()
			if seen = append(seen, what); len(seen) == 4 {
				close(enough)
			}
			return nil
		}
	}
	heal, err := toggle(t.Context(), time.Nanosecond, note("there"), note("back"))
	if err != nil {
		t.Fatal(err)
	}
	<-enough
	if err := heal(t.Context()); err != nil {
		t.Fatal(err)
	}
	last := len(seen) - 1
	for i, got := range seen[:last] {
		if want := []string{"there", "back"}[i%2]; got != want {
			t.Errorf("turn %d: want %s, got %s", i, want, got)
		}
	}
	if seen[last] != "back" {
		t.Errorf("want the healing to go back last, got %q", seen)
	}
}

func TestToggleSaysWhatFailed(t *testing.T) {
	broken := errors.New("no backend")
	fail := func(context.Context) error { return broken }
	if _, err := toggle(t.Context(), time.Hour, fail, fail); !errors.Is(err, broken) {
		t.Errorf("want the first turn's error, got %v", err)
	}
	turn, failed := 0, make(chan struct{})
	back := func(context.Context) error {
		if turn++; turn == 1 {
			close(failed)
			return broken
		}
		return nil
	}
	heal, err := toggle(t.Context(), time.Nanosecond, healed, back)
	if err != nil {
		t.Fatal(err)
	}
	<-failed
	if err := heal(t.Context()); !errors.Is(err, broken) {
		t.Errorf("want the healing to say that the flap stopped, got %v", err)
	}
}

// TestNodeReplace holds that the Node comes back under another UID with what a user wrote of it, and that healing restarts the kubelet.
func TestNodeReplace(t *testing.T) {
	client := clientfake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "old", Labels: map[string]string{"a": "b"}}})
	c := &fakeCluster{}
	to := Target{Target: scenario.Target{Class: scenario.OnNode, Node: 1}, Nodes: []string{"n1"}, Driver: "d", Cluster: c, Client: client,
		Record: func(verb, resource, name, writer string, do func() error) error {
			_ = c.note("record %s %s %s %s", verb, resource, name, writer)
			return do()
		}}
	heal := inject(t, "node-replace", to, nil)
	node, err := client.CoreV1().Nodes().Get(t.Context(), "n1", metav1.GetOptions{})
	if err != nil || node.UID == "old" || node.Labels["a"] != "b" {
		t.Errorf("want a new Node with the old one's labels, got %+v (%v)", node, err)
	}
	if err := heal(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(c.calls, "; "), "record replace node n1 headroom-admin; stop kubelet@n1 TERM; start kubelet@n1"; got != want {
		t.Errorf("want %q, got %q", want, got)
	}
}

// reporting is a cluster whose CSINode n1 has a count of driver d.
func reporting(count int32) *clientfake.Clientset {
	return clientfake.NewClientset(&storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{
		{Name: "d", NodeID: "n1", Allocatable: &storagev1.VolumeNodeResources{Count: &count}},
	}}})
}

// TestDriverRollback holds the order of what it does, that the limit falls in between, and that healing waits for the dead release's lease.
func TestDriverRollback(t *testing.T) {
	to := rig(t, scenario.NodeDriver)
	to.Client = reporting(2)
	two, lease := int64(2), 300*time.Millisecond
	began := time.Now()
	heal := inject(t, "driver-rollback", to, &rollbackParams{To: &two, Lease: history.Duration(lease)})
	if got := state(t, to)["n1"].Quota.Limit; got != two {
		t.Errorf("want the limit at %d, got %d", two, got)
	}
	if err := heal(t.Context()); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < lease {
		t.Errorf("healed after %s: want it to wait for the lease of %s", took, lease)
	}
	if got := state(t, to)["n1"].Quota.Limit; got != 4 {
		t.Errorf("want the limit at 4 again, got %d", got)
	}
	want := "stop driver@n1/d TERM; start driver@n1/d 2; register n1 d false; stop driver@n1/d KILL; start driver@n1/d 1; register n1 d false"
	if got := strings.Join(to.Cluster.(*fakeCluster).calls, "; "); got != want {
		t.Errorf("want %q, got %q", want, got)
	}
}

// TestDriverRollbackThatCannotBe leaves the release and the limit that it found.
func TestDriverRollbackThatCannotBe(t *testing.T) {
	to := rig(t, scenario.NodeDriver)
	f, _ := Find("driver-rollback")
	nine := int64(9)
	if _, err := f.Inject(t.Context(), to, nil, &rollbackParams{To: &nine}); err == nil || !strings.Contains(err.Error(), "wrong side") {
		t.Errorf("a limit that rises: want an error, got %v", err)
	}
	if got := state(t, to)["n1"].Quota.Limit; got != 4 {
		t.Errorf("want the limit at 4 still, got %d", got)
	}
	if got := strings.Join(to.Cluster.(*fakeCluster).calls, "; "); !strings.HasSuffix(got, "start driver@n1/d 1; register n1 d false") {
		t.Errorf("want the older release back, got %q", got)
	}
	ended, end := context.WithCancel(t.Context())
	to = rig(t, scenario.NodeDriver)
	to.Client = reporting(1)
	one := int64(1)
	heal, err := f.Inject(t.Context(), to, nil, &rollbackParams{To: &one, Lease: history.Duration(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	if end(); !errors.Is(heal(ended), context.Canceled) {
		t.Error("want a healing that is cut short to say so")
	}
	to = rig(t, scenario.NodeDriver)
	to.Client = reporting(1)
	gone := make(chan struct{})
	to.Cluster.(*fakeCluster).done = gone
	if heal, err = f.Inject(t.Context(), to, nil, &rollbackParams{To: &one, Lease: history.Duration(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	close(gone)
	if err := heal(t.Context()); err == nil || !strings.Contains(err.Error(), "the cluster has ended") {
		t.Errorf("want no waiting for a lease in a cluster that is gone, got %v", err)
	}
}

// fakeCluster records what the faults ask of a cluster.
type fakeCluster struct {
	cluster.Cluster
	calls []string
	rule  gate.Rule
	done  chan struct{}
}

func (c *fakeCluster) Done() <-chan struct{} { return c.done }

func (c *fakeCluster) note(format string, args ...any) error {
	c.calls = append(c.calls, fmt.Sprintf(format, args...))
	return nil
}

func (c *fakeCluster) AddRule(_ context.Context, node, driver string, rule gate.Rule) (string, error) {
	c.rule = rule
	return "7", c.note("rule %s %s", node, driver)
}

func (c *fakeCluster) RemoveRule(_ context.Context, node, driver, id string) error {
	return c.note("unrule %s %s %s", node, driver, id)
}

func (c *fakeCluster) SetSocket(_ context.Context, node, driver, socket string, there bool) error {
	return c.note("socket %s %s %s %t", node, driver, socket, there)
}

func (c *fakeCluster) Register(_ context.Context, node, driver string, surge bool) error {
	return c.note("register %s %s %t", node, driver, surge)
}

func (c *fakeCluster) SetEndpoint(_ context.Context, component, mode string) error {
	return c.note("endpoint %s %s", component, mode)
}

func (c *fakeCluster) OtherVersions() error { return nil }

func (c *fakeCluster) SetLatency(_ context.Context, component string, latency time.Duration) error {
	return c.note("latency %s %s", component, latency)
}

func (c *fakeCluster) Components(context.Context) ([]cluster.Component, error) {
	var all []cluster.Component
	for _, id := range []string{"kubelet@n1", "kube-scheduler", "kube-apiserver", "driver@n1/d", "csi-attacher@d"} {
		all = append(all, &fakeProcess{id: id, c: c})
	}
	return all, nil
}

type fakeProcess struct {
	cluster.Component
	id string
	c  *fakeCluster
}

func (p *fakeProcess) ID() string { return p.id }
func (p *fakeProcess) Stop(_ context.Context, how cluster.Signal) error {
	return p.c.note("stop %s %s", p.id, how)
}
func (p *fakeProcess) Start(_ context.Context, v versions.Version) error {
	return p.c.note("%s", strings.TrimSpace("start "+p.id+" "+v.String()))
}
func (p *fakeProcess) Version() versions.Version {
	if strings.HasPrefix(p.id, "csi-attacher") {
		return "v4.12.0"
	}
	return "v1.36.3"
}
func (p *fakeProcess) Pause(context.Context) error  { return p.c.note("pause %s", p.id) }
func (p *fakeProcess) Resume(context.Context) error { return p.c.note("resume %s", p.id) }

func TestClusterFaultsAskAndTakeBack(t *testing.T) {
	for name, c := range map[string]struct {
		fault  string
		class  scenario.Class
		params any
		want   string
	}{
		"kill":                {"component-kill", scenario.Kubelet, nil, "stop kubelet@n1 KILL; start kubelet@n1"},
		"pause":               {"component-pause", scenario.Scheduler, nil, "pause kube-scheduler; resume kube-scheduler"},
		"restart":             {"component-restart", scenario.Attacher, nil, "stop csi-attacher@d TERM; start csi-attacher@d"},
		"driver":              {"driver-restart", scenario.NodeDriver, &driverRestartParams{Kill: true, Register: true}, "stop driver@n1/d KILL; start driver@n1/d; register n1 d false"},
		"surge":               {"driver-surge", scenario.NodeDriver, nil, "register n1 d true; register n1 d false"},
		"registration delay":  {"registration-delay", scenario.NodeDriver, nil, "socket n1 d registration false; register n1 d false"},
		"unlink":              {"socket-unlink", scenario.NodeDriver, nil, "socket n1 d csi false; socket n1 d csi true"},
		"cut":                 {"network-cut", scenario.Kubelet, nil, "endpoint kubelet@n1 refuse; endpoint kubelet@n1 pass"},
		"half, answers":       {"network-half", scenario.Kubelet, nil, "endpoint kubelet@n1 no-answer; endpoint kubelet@n1 pass"},
		"half, requests":      {"network-half", scenario.Attacher, &halfParams{Lost: lostRequests}, "endpoint csi-attacher@d no-request; endpoint csi-attacher@d pass"},
		"network flap":        {"network-flap", scenario.Scheduler, &networkFlapParams{Every: 3600e9}, "endpoint kube-scheduler refuse; endpoint kube-scheduler pass"},
		"detach lag":          {"detach-lag", scenario.DriverController, nil, "rule  d; unrule  d 7"},
		"latency":             {"network-latency", scenario.Kubelet, &latencyParams{By: 3e9}, "latency kubelet@n1 3s; latency kubelet@n1 0s"},
		"version down":        {"version-swap", scenario.Kubelet, nil, "stop kubelet@n1 TERM; start kubelet@n1 v1.35.4; stop kubelet@n1 TERM; start kubelet@n1 v1.36.3"},
		"version up":          {"version-swap", scenario.Attacher, &swapParams{Minors: 1}, "stop csi-attacher@d TERM; start csi-attacher@d v4.13.0; stop csi-attacher@d TERM; start csi-attacher@d v4.12.0"},
		"version of a server": {"version-swap", scenario.APIServer, nil, "stop kube-apiserver BRIEF; start kube-apiserver v1.35.4; stop kube-apiserver BRIEF; start kube-apiserver v1.36.3"},
		"rule":                {"csi-slow", scenario.NodeDriver, &slowParams{By: 1e9}, "rule n1 d; unrule n1 d 7"},
	} {
		t.Run(name, func(t *testing.T) {
			fake := &fakeCluster{}
			to := Target{Target: scenario.Target{Class: c.class, Node: 1}, Nodes: []string{"n1"}, Driver: "d", Cluster: fake}
			if c.class == scenario.DriverController {
				to.Target.Node = 0
			}
			f, _ := Find(c.fault)
			if err := f.Supports(fake); err != nil {
				t.Fatal(err)
			}
			heal := inject(t, c.fault, to, c.params)
			if err := heal(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(fake.calls, "; "); got != c.want {
				t.Errorf("want %q, got %q", c.want, got)
			}
		})
	}
}

func TestGateFaultsMakeRules(t *testing.T) {
	minus := int64(-1)
	for name, c := range map[string]struct {
		params any
		want   gate.Rule
	}{
		"csi-slow":          {&slowParams{Method: "NodeGetInfo", Times: 2, By: 3e9}, gate.Rule{Method: "NodeGetInfo", Times: 2, Delay: 3e9}},
		"csi-error":         {&errorParams{Code: "RESOURCE_EXHAUSTED", Message: "m"}, gate.Rule{Code: codes.ResourceExhausted, Message: "m"}},
		"csi-garbage":       {&garbageParams{MaxVolumes: &minus}, gate.Rule{Method: "NodeGetInfo", MaxVolumes: &minus}},
		"detach-lag":        {&lagParams{By: 5e9}, gate.Rule{Method: "ControllerUnpublishVolume", Delay: 5e9}},
		"slow-stale-answer": {&staleAnswerParams{Hold: 4e9, Times: 1}, gate.Rule{Method: "NodeGetInfo", Times: 1, Hold: 4e9}},
	} {
		fake := &fakeCluster{}
		inject(t, name, Target{Target: scenario.Target{Class: scenario.NodeDriver, Node: 1}, Nodes: []string{"n1"}, Driver: "d", Cluster: fake}, c.params)
		got := fake.rule
		if (got.MaxVolumes == nil) != (c.want.MaxVolumes == nil) || got.MaxVolumes != nil && *got.MaxVolumes != *c.want.MaxVolumes {
			t.Errorf("%s: want max volumes %v, got %v", name, c.want.MaxVolumes, got.MaxVolumes)
		}
		got.MaxVolumes, c.want.MaxVolumes = nil, nil
		if got != c.want {
			t.Errorf("%s: want %+v, got %+v", name, c.want, got)
		}
	}
}

func TestParamsAreChecked(t *testing.T) {
	negative := int64(-1)
	for field, p := range map[string]scenario.Checked{
		"to": &moveParams{To: &negative}, "count": &foreignParams{}, "mode": &outageParams{Mode: "broken"},
		"operations": &outageParams{Mode: quota.Hang, Operations: []quota.Operation{"got"}}, "socket": &unlinkParams{Socket: "tcp"}, "by": &slowParams{},
		"code": &errorParams{Code: "OK"}, "hold": &staleAnswerParams{}, "verb": &WriterParams{Verb: "put"},
		"delay": &outageParams{Mode: quota.Slow}, "nodeID": &garbageParams{NodeID: "none"}, "topology": &garbageParams{Topology: "none"},
		"resourceVersion": &WriterParams{Verb: VerbPatch, ResourceVersion: "new"}, "every": &WriterParams{Verb: VerbPatch, ResourceVersion: VersionOld},
	} {
		if got, remedy, err := p.Check(); got != field || err == nil || remedy == "" {
			t.Errorf("%T: want a mistake in %q with a remedy, got %q, %v, %q", p, field, got, err, remedy)
		}
	}
	for want, p := range map[string]scenario.Checked{
		"mode": &cutParams{Mode: "pass"}, "lost": &halfParams{Lost: "both"}, "minors": &swapParams{Minors: 2}, "every": &networkFlapParams{}, "by": &lagParams{}, "to": &flapParams{To: -1}, "": &garbageParams{},
	} {
		if field, remedy, err := p.Check(); field != want || err == nil || remedy == "" {
			t.Errorf("%T: want a mistake in %q with a remedy, got %q, %v", p, want, field, err)
		}
	}
	if field, _, err := (&latencyParams{}).Check(); field != "by" || err == nil {
		t.Errorf("network-latency: want a mistake in by, got %q, %v", field, err)
	}
	for _, name := range Names() {
		f, _ := Find(name)
		if _, ok := f.New().(scenario.Checked); ok && slices.Contains([]string{"stale-writer", "quota-outage", "network-cut", "network-half", "socket-unlink"}, name) {
			if _, _, err := f.New().(scenario.Checked).Check(); err != nil {
				t.Errorf("%s: want defaults that are right, got %v", name, err)
			}
		}
	}
}

func TestNoNeighbour(t *testing.T) {
	if _, err := neighbour(versions.Embedded(), scenario.Kubelet, "v1.32.13", -1); err == nil || !strings.Contains(err.Error(), "-1 minor from it; known: [v1.32.13 ") {
		t.Errorf("below the oldest: want what there is, got %v", err)
	}
}

// TestSupports holds that a cluster without the means says so before anything is injected.
func TestSupports(t *testing.T) {
	var bare struct{ cluster.Cluster }
	for _, name := range []string{"csi-slow", "driver-rollback", "driver-surge", "network-cut", "network-half", "network-latency", "version-swap"} {
		f, _ := Find(name)
		if err := f.Supports(bare); err == nil || !strings.Contains(err.Error(), "this cluster has no ") {
			t.Errorf("%s: want what the cluster lacks, got %v", name, err)
		}
	}
	f, _ := Find("quota-drop")
	if _, err := f.Inject(t.Context(), Target{}, nil, &none{}); err == nil || !strings.Contains(err.Error(), "want parameters of type") {
		t.Errorf("parameters of another fault: want an error, got %v", err)
	}
}
