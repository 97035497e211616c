package kind

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/cluster/kind/engine"
	"headroom/e2e/framework/entry"
	"headroom/e2e/framework/history"
	"headroom/e2e/framework/scenario"
	"headroom/e2e/framework/versions"
	"headroom/fixtures/quota"
)

// liveEnv asks for the test that makes a cluster: make kind-tests.
const liveEnv = "HEADROOM_KIND_TEST"

func TestMain(m *testing.M) {
	entry.Dispatch() // this binary is what runs in the cluster's pods
	os.Exit(m.Run())
}

// live is a provider of clusters of one worker. It skips the test where nobody asked for a cluster.
func live(t *testing.T, run string, out io.Writer) *Provider {
	t.Helper()
	if os.Getenv(liveEnv) == "" {
		t.Skipf("makes a cluster: set %s, or make kind-tests", liveEnv)
	}
	topology, err := LoadTopology(DefaultTopology)
	if err != nil {
		t.Fatal(err)
	}
	p, err := New(Options{
		Run: fmt.Sprintf("%s-%d", run, os.Getpid()), RunDir: t.TempDir(), Topology: topology, Out: out,
		Drivers: map[string]string{"steady": "steady", "hostpath-gate": "hostpath-gate", "steady-dynamic": "steady-dynamic"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// canceller ends a context when the text that it waits for is written.
type canceller struct {
	text   string
	cancel context.CancelFunc
	io.Writer
}

func (c canceller) Write(b []byte) (int, error) {
	if strings.Contains(string(b), c.text) {
		c.cancel()
	}
	return c.Writer.Write(b)
}

// TestLiveHalfMade gives up while the control plane starts: a half-made cluster is removed.
func TestLiveHalfMade(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	p := live(t, "half", canceller{"node containers", cancel, os.Stderr})
	c, err := p.Create(ctx, scenario.Topology{Kubernetes: versions.Default().Version})
	var env *cluster.EnvironmentError
	if c != nil || !errors.As(err, &env) || !errors.Is(err, context.Canceled) {
		t.Errorf("want an EnvironmentError because it was cancelled, got %v", err)
	}
	gone(t, clusterName(p.options.Run))
}

// TestLiveComponents stops, pauses and starts each kind of component of a real cluster, puts each kind of driver on it, and leaves nothing behind.
func TestLiveComponents(t *testing.T) {
	p := live(t, "test", os.Stderr)
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
	reachService(t, c)
	driver := addDriver(t, other)
	all, err := other.Components(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var restarted []string
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
		case strings.HasSuffix(p.ID(), driver):
			try(t, p.ID(), p.Pause, p.Resume, func(ctx context.Context) error { return cluster.Restart(ctx, p, cluster.Kill) })
			restarted = append(restarted, p.ID())
		}
	}
	if len(restarted) != 3 {
		t.Errorf("want the driver on its node, its controller and its attacher restarted, got %q", restarted)
	}
	for _, err := range []error{other.RemoveNode(t.Context(), c.Workers[0]), other.RemoveDriver(t.Context(), driver)} {
		if err != nil {
			t.Error(err)
		}
	}
	if text, err := c.Metrics(t.Context(), "kube-scheduler"); err != nil || !strings.Contains(string(text), "scheduler_") {
		t.Errorf("want the scheduler's metrics, got %.100q (error: %v)", text, err)
	}
	readings, err := history.Count(c.eventsDir(), history.PrefixMetric+"kind/"+c.Workers[0], func(e history.Event) bool { return e.Key == "kubelet@"+c.Workers[0] })
	if err != nil || readings != 1 {
		t.Errorf("want one reading of the kubelet's metrics, from when the driver left its node, got %d (error: %v)", readings, err)
	}
	states, err := history.Count(c.eventsDir(), history.PrefixComponent+"kind/kube-scheduler", func(e history.Event) bool { return e.Key == "kube-scheduler" })
	if err != nil || states != 7 {
		t.Errorf("want 7 states of kube-scheduler in the history, got %d (error: %v)", states, err)
	}
	bridged(t, other)
	provisioned(t, other)
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
	gone(t, c.Name)
}

// gone looks for what is left of a cluster.
func gone(t *testing.T, name string) {
	t.Helper()
	for _, list := range [][]string{{"ps", "--all", "--format", "{{.Names}}"}, {"network", "ls", "--format", "{{.Name}}"}} {
		if out, err := engine.Run(context.Background(), list...); err != nil || strings.Contains(out, name) {
			t.Errorf("docker %s: want nothing of %s, got %q (error: %v)", list[0], name, out, err)
		}
	}
}

// reachService asks the one Service that every cluster has, which is the API server, and the cluster's DNS for its address.
func reachService(t *testing.T, c *Cluster) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), readyTimeout)
	defer cancel()
	address := func(namespace, name string) string {
		s, err := c.client.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return s.Spec.ClusterIP
	}
	api, dns := address(metav1.NamespaceDefault, "kubernetes"), address(metav1.NamespaceSystem, "kube-dns")
	for what, command := range map[string][]string{
		"a Service's address to lead somewhere": {"curl", "--insecure", "--fail", "--silent", "--show-error", "--max-time", "5", "https://" + api + "/readyz"},
		"a Service's name to have an address":   {"busybox", "nslookup", "-type=a", "kubernetes.default.svc.cluster.local", dns},
	} {
		err := poll(ctx, what, func() error {
			out, err := engine.Run(ctx, append([]string{"exec", c.Workers[0]}, command...)...)
			if err == nil && command[0] == "busybox" && !strings.Contains(out, api) {
				err = fmt.Errorf("want %s in the answer, got %q", api, out)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// addDriver puts a driver on the first worker.
func addDriver(t *testing.T, c *Cluster) (name string) {
	t.Helper()
	name, worker := "d.live.test", c.Workers[0]
	ctx := t.Context()
	lent, err := c.Reserve(ctx, []cluster.NodeSpec{{}})
	if err == nil && lent[0] != worker {
		err = fmt.Errorf("want worker %s lent, got %q", worker, lent)
	}
	for _, step := range []func() error{
		func() error { return quota.NewControl(c.Backend()).AddNode(ctx, worker, quota.NodeConfig{Limit: 3}) },
		func() error { return c.AddDriver(ctx, cluster.DriverSpec{Name: name, Definition: "steady"}) },
		func() error { return c.AddNode(ctx, cluster.NodeSpec{Name: worker, Drivers: []string{name}}) },
	} {
		if err == nil {
			err = step()
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return name
}
