package upgrade

import (
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"headroom/e2e/framework/versions"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing with them")

func options(change func(*Options)) Options {
	o := Options{From: "v1.34.4", To: "v1.36.3", Nodes: 4, Canaries: 1, Bake: 2 * time.Minute, Again: true, Controller: true, Seed: 42}
	if change != nil {
		change(&o)
	}
	return o
}

func TestGolden(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"walk":                 nil,
		"another-seed":         func(o *Options) { o.Seed = 7 },
		"no-rollback":          func(o *Options) { o.RollbackAfter, o.Again = -1, false },
		"rollback-from-drain":  func(o *Options) { o.RollbackAfter, o.Again = 7, false },
		"rollback-at-the-end":  func(o *Options) { o.RollbackAfter, o.Again, o.Nodes = 16, false, 2 },
		"no-controller":        func(o *Options) { o.Controller, o.RollbackAfter, o.Again = false, -1, false },
		"attacher-and-one-hop": func(o *Options) { o.From, o.To, o.Nodes, o.RollbackAfter, o.Again = "v1.36.3", "v1.37.2", 2, -1, false },
	} {
		t.Run(name, func(t *testing.T) {
			steps, err := options(change).Steps()
			if err != nil {
				t.Fatal(err)
			}
			path, got := filepath.Join("testdata", name+".txt"), Text(steps)
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("%s differs; run with -update to accept\n--- want\n%s--- got\n%s", path, want, got)
			}
		})
	}
}

// cluster is what runs, step by step.
type cluster struct {
	components map[string]versions.Version // control plane and attacher
	kubelets   map[string]versions.Version // by node
	drivers    map[string]versions.Version
	drained    map[string]bool
	period     bool
}

func newCluster(o Options) *cluster {
	from, _ := versions.Lookup(o.From)
	c := &cluster{components: from.Of().Versions(), kubelets: map[string]versions.Version{}, drivers: map[string]versions.Version{}, drained: map[string]bool{}}
	if o.Controller {
		c.drivers[controller] = oldDriver
	}
	for i := range o.Nodes {
		c.kubelets[nodeName(i)], c.drivers[nodeName(i)] = o.From, oldDriver
	}
	return c
}

// do carries a step out on paper and returns what is wrong with it; "" for nothing.
func (c *cluster) do(s Step) string {
	switch s.Do {
	case Swap:
		place := c.components
		if strings.HasPrefix(s.Target, "node/") {
			place = c.kubelets
			if s.From.MinorOf() != s.To.MinorOf() && !c.drained[s.Target] {
				return "a kubelet changes its minor version under running pods"
			}
		}
		if place[s.Target] != s.From {
			return "it does not run at " + s.From.String()
		}
		place[s.Target] = s.To
	case Drain, Uncordon:
		if c.drained[s.Target] == (s.Do == Drain) {
			return "it is so already"
		}
		c.drained[s.Target] = s.Do == Drain
	case Driver:
		if c.drivers[s.Target] != s.From {
			return "the driver is not of release " + s.From.String()
		}
		c.drivers[s.Target] = s.To
	case SetPeriod, UnsetPeriod:
		if c.period == (s.Do == SetPeriod) {
			return "it is so already"
		}
		c.period = s.Do == SetPeriod
	case Bake:
		if s.For <= 0 {
			return "no time"
		}
	default:
		return "unknown action"
	}
	return c.check()
}

// check returns what the skew policy has against what runs.
func (c *cluster) check() string {
	for _, kubelet := range c.kubelets {
		all := versions.Combination{
			APIServer: c.components["kube-apiserver"], ControllerManager: c.components["kube-controller-manager"], Scheduler: c.components["kube-scheduler"], Kubelet: kubelet,
		}
		if err := versions.Embedded().Skew.Check(all); err != nil {
			return err.Error()
		}
	}
	return ""
}

// TestEveryStepIsSupported walks every plan on paper: each step does something, and what runs after it is supported.
func TestEveryStepIsSupported(t *testing.T) {
	known := versions.Embedded().Known()
	walks := 0
	for _, from := range known {
		for _, to := range known {
			if from.Compare(to) >= 0 || to.Minor()-from.Minor() > versions.Embedded().Skew.Kubelet {
				continue
			}
			for seed := range int64(40) {
				o := options(func(o *Options) { o.From, o.To, o.Seed, o.Canaries = from, to, seed, 1+int(seed)%3 })
				steps, err := o.Steps()
				if err != nil {
					t.Fatalf("%s to %s: %v", from, to, err)
				}
				walks++
				c, before := newCluster(o), newCluster(o)
				for i, s := range steps {
					if s.Number != i+1 {
						t.Fatalf("step %d has number %d", i+1, s.Number)
					}
					if wrong := c.do(s); wrong != "" {
						t.Fatalf("%s to %s, seed %d: step %s: %s\n%s", from, to, seed, s, wrong, Text(steps))
					}
					if last := i+1 == len(steps) || steps[i+1].Leg != s.Leg; last && s.Leg == "rollback" && !same(c, before) {
						t.Fatalf("%s to %s, seed %d: after the rollback: want %+v, got %+v", from, to, seed, before, c)
					}
				}
				for node, v := range c.kubelets {
					if v != to || c.drivers[node] != newDriver || c.drained[node] {
						t.Fatalf("%s to %s, seed %d: %s ends at %s, driver %s, drained %t", from, to, seed, node, v, c.drivers[node], c.drained[node])
					}
				}
				if !c.period || c.components["kube-apiserver"] != to {
					t.Fatalf("%s to %s, seed %d: want the period set and the API server upgraded, got %+v", from, to, seed, c)
				}
			}
		}
	}
	if walks < 100 {
		t.Errorf("want many walks, got %d", walks)
	}
}

// same compares clusters, for which a node that was uncordoned is as one that never was drained.
func same(a, b *cluster) bool {
	for _, d := range a.drained {
		if d {
			return false
		}
	}
	return reflect.DeepEqual(a.components, b.components) && reflect.DeepEqual(a.kubelets, b.kubelets) && reflect.DeepEqual(a.drivers, b.drivers) && a.period == b.period
}

// TestPaperSeesMistakes breaks plans on purpose: what the walk above looks for is found.
func TestPaperSeesMistakes(t *testing.T) {
	o := options(func(o *Options) { o.RollbackAfter, o.Again = -1, false })
	steps, err := o.Steps()
	if err != nil {
		t.Fatal(err)
	}
	broken := func(edit func([]Step) []Step) string {
		c := newCluster(o)
		for _, s := range edit(append([]Step(nil), steps...)) {
			if wrong := c.do(s); wrong != "" {
				return wrong
			}
		}
		return ""
	}
	find := func(do Action, target string) int {
		for i, s := range steps {
			if s.Do == do && strings.HasPrefix(s.Target, target) {
				return i
			}
		}
		t.Fatalf("no step %s %s", do, target)
		return 0
	}
	for want, edit := range map[string]func([]Step) []Step{
		"kubelet must not be newer than kube-apiserver": func(s []Step) []Step { // nodes first
			i := find(Drain, "node/")
			return append(append(append([]Step{}, s[i:i+3]...), s[:i]...), s[i+3:]...)
		},
		"under running pods": func(s []Step) []Step { i := find(Drain, "node/"); return append(s[:i], s[i+1:]...) },
		"it does not run at": func(s []Step) []Step { i := find(Swap, "kube-apiserver"); return append(s[:i+1], s[i:]...) },
		"kube-scheduler may be up to 1 minor version older": func(s []Step) []Step {
			i := find(Swap, "kube-scheduler")
			return append(s[:i], s[i+1:]...)
		},
	} {
		if got := broken(edit); !strings.Contains(got, want) {
			t.Errorf("want %q, got %q", want, got)
		}
	}
	if got := broken(func(s []Step) []Step { return s }); got != "" {
		t.Errorf("the plan itself: got %q", got)
	}
}

func TestRollbackIsLabelled(t *testing.T) {
	steps, err := options(nil).Steps()
	if err != nil {
		t.Fatal(err)
	}
	labelled := 0
	for _, s := range steps {
		if s.Unsupported != "" {
			labelled++
			if s.Leg != "rollback" || s.Target != "kube-apiserver" {
				t.Errorf("step %s: only the way back of the API server is unsupported", s)
			}
		}
	}
	if labelled == 0 {
		t.Errorf("want a label, got\n%s", Text(steps))
	}
}

func TestBadOptions(t *testing.T) {
	for _, c := range []struct {
		change func(*Options)
		want   string
	}{
		{func(o *Options) { o.From, o.To = o.To, o.From }, "upgrade from v1.36.3 to v1.34.4: want a newer version to upgrade to"},
		{func(o *Options) { o.To = o.From }, "want a newer version"},
		{func(o *Options) { o.To = "v1.40.0" }, `kubernetes version "v1.40.0" is not known; known: v1.32.13`},
		{func(o *Options) { o.From, o.To = "v1.32.13", "v1.37.2" }, "would be more than 3 minor versions behind; upgrade to v1.35.4 first"},
		{func(o *Options) { o.Nodes = 0 }, "0 nodes: want 1 to 50"},
		{func(o *Options) { o.Nodes = 51 }, "51 nodes: want 1 to 50"},
		{func(o *Options) { o.Canaries = 0 }, "0 canary nodes"},
		{func(o *Options) { o.Canaries = 5 }, "5 canary nodes: want 1 to the number of nodes, 4"},
		{func(o *Options) { o.Bake = 0 }, "bake for 0s"},
		{func(o *Options) { o.RollbackAfter = -1 }, "upgrade again without a rollback"},
		{func(o *Options) { o.RollbackAfter = 1000 }, "rollback after step 1000: the upgrade has"},
	} {
		steps, err := options(c.change).Steps()
		if err == nil || !strings.Contains(err.Error(), c.want) || steps != nil {
			t.Errorf("want an error with %q, got %v and %d steps", c.want, err, len(steps))
		}
	}
}

func TestSeedsDiffer(t *testing.T) {
	plans := map[string]bool{}
	for seed := range int64(20) {
		steps, err := options(func(o *Options) { o.Seed = seed }).Steps()
		if err != nil {
			t.Fatal(err)
		}
		again, err := options(func(o *Options) { o.Seed = seed }).Steps()
		if err != nil || Text(again) != Text(steps) {
			t.Errorf("seed %d: two plans differ (%v)", seed, err)
		}
		plans[Text(steps)] = true
	}
	if len(plans) < 10 {
		t.Errorf("want seeds to differ, got %d plans of 20", len(plans))
	}
}

// TestSkippedMinor plans with a table that lacks a release between the two.
func TestSkippedMinor(t *testing.T) {
	table := versions.Embedded()
	table.Kubernetes = slices.DeleteFunc(slices.Clone(table.Kubernetes), func(r versions.Release) bool { return r.Version.Minor() == 35 })
	_, err := hops(table, "v1.34.4", "v1.36.3")
	const want = "kube-apiserver must be upgraded one minor version at a time, not 2 (Kubernetes version skew policy); kind-configs/versions.yaml has no release in between"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("want %q, got %v", want, err)
	}
	if through, err := options(nil).Through(); err != nil || !slices.Equal(through, []versions.Version{"v1.35.4", "v1.36.3"}) {
		t.Errorf("want the way over v1.35.4 to v1.36.3, got %v (%v)", through, err)
	}
}
