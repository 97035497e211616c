package kind

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/cluster/kind/engine"
	"headroom/e2e/framework/entry"
	"headroom/e2e/framework/history"
	"headroom/e2e/framework/scenario"
	"headroom/e2e/framework/versions"
)

// liveEnv asks for the test that makes a cluster: make kind-tests.
const liveEnv = "HEADROOM_KIND_TEST"

func TestMain(m *testing.M) {
	entry.Dispatch() // this binary is what runs in the cluster's pods
	os.Exit(m.Run())
}

// TestLiveComponents stops, pauses and starts each kind of component of a real cluster, and leaves nothing behind.
func TestLiveComponents(t *testing.T) {
	if os.Getenv(liveEnv) == "" {
		t.Skipf("makes a cluster: set %s, or make kind-tests", liveEnv)
	}
	topology, err := LoadTopology(DefaultTopology)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	p, err := New(Options{Run: fmt.Sprintf("test-%d", os.Getpid()), RunDir: dir, Topology: topology, Drivers: map[string]string{"steady": "steady"}, Out: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	made, err := p.Create(t.Context(), scenario.Topology{Kubernetes: versions.Default().Version})
	if err != nil {
		t.Fatal(err)
	}
	c := made.(*Cluster)
	t.Cleanup(func() { destroyed(t, c) })
	for _, node := range append([]string{c.controlPlane()}, c.Workers...) {
		owner, err := engine.Run(t.Context(), "inspect", "--format", `{{index .Config.Labels "headroom.dev/owner"}}`, node)
		if err != nil || owner != "" {
			t.Errorf("node %s: want no owner of its own, which its image would have given it, got %q (error: %v)", node, owner, err)
		}
	}
	other, err := Attach(c.Handle())
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Answers(t.Context()); err != nil {
		t.Errorf("attached: want an answer, got %v", err)
	}
	all, err := other.Components(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		switch {
		case p.ID() == "kube-scheduler":
			exercise(t, p, cluster.Kill)
		case p.ID() == "kubelet@"+c.Workers[0]:
			exercise(t, p, cluster.Terminate)
			if err := p.Start(t.Context(), "v1.35.4"); err == nil || !strings.Contains(err.Error(), "stays at v1.36.3") {
				t.Errorf("%s at another version: want an error that says why not, got %v", p.ID(), err)
			}
		case p.ID() == "node@"+c.Workers[0]:
			try(t, p.ID(), p.Pause, p.Resume)
		}
	}
	states, err := history.Count(c.eventsDir(), history.PrefixComponent+"kind/kube-scheduler", func(e history.Event) bool { return e.Key == "kube-scheduler" })
	if err != nil || states != 6 {
		t.Errorf("want 6 states of kube-scheduler in the history, got %d (error: %v)", states, err)
	}
}

func exercise(t *testing.T, p cluster.Component, how cluster.Signal) {
	t.Helper()
	try(t, p.ID(), p.Pause, p.Resume, func(ctx context.Context) error { return p.Stop(ctx, how) }, func(ctx context.Context) error { return p.Start(ctx, "") })
}

func try(t *testing.T, id string, steps ...func(context.Context) error) {
	t.Helper()
	for i, step := range steps {
		if err := step(t.Context()); err != nil {
			t.Errorf("%s: step %d: %v", id, i+1, err)
		}
	}
}

// destroyed ends the cluster, and looks for what is left of it.
func destroyed(t *testing.T, c *Cluster) {
	ctx := context.Background()
	if err := c.Destroy(ctx); err != nil {
		t.Errorf("destroy: %v", err)
	}
	select {
	case <-c.Done():
	case <-time.After(10 * time.Second):
		t.Error("want Done closed after Destroy")
	}
	for _, list := range [][]string{{"ps", "--all", "--format", "{{.Names}}"}, {"network", "ls", "--format", "{{.Name}}"}} {
		if out, err := engine.Run(ctx, list...); err != nil || strings.Contains(out, c.Name) {
			t.Errorf("docker %s: want nothing of %s, got %q (error: %v)", list[0], c.Name, out, err)
		}
	}
}
