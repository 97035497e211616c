package kind

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"headroom/drivers"
	"headroom/drivers/pods"
	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/cluster/kind/archive"
	"headroom/e2e/framework/history"
	"headroom/e2e/framework/scenario"
	"headroom/e2e/framework/versions"
	"headroom/fixtures/quota"
)

// TestLivePods runs a driver by its author's manifests on a real cluster: it registers behind the gate, restarts, and leaves nothing. Then what a cluster
// alone can refuse of manifests is told as whose it is.
func TestLivePods(t *testing.T) {
	p := live(t, "pods", os.Stderr)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := withManifests(t, archive.File{Path: "/usr/local/bin/headroom", From: self}, archive.File{Path: "/usr/local/bin/headroom:steady", Link: "headroom"})
	p.options.Drivers = map[string]string{"steady-pods": path, "hostpath-pods": hostpathPods(t, self)}
	made, err := p.Create(t.Context(), scenario.Topology{Kubernetes: versions.Default().Version})
	if err != nil {
		t.Fatal(err)
	}
	c := made.(*Cluster)
	t.Cleanup(func() { destroyed(t, c) })
	worker := c.Workers[0]
	try(t, "quota", func(ctx context.Context) error {
		return quota.NewControl(c.Backend()).AddNode(ctx, worker, quota.NodeConfig{Limit: 3})
	})
	for definition, limit := range map[string]string{"steady-pods": "backend's", "hostpath-pods": "gate's"} {
		t.Run(definition, func(t *testing.T) {
			name := "d." + definition + ".test"
			if _, err := c.Reserve(t.Context(), []cluster.NodeSpec{{}}); err != nil {
				t.Fatal(err)
			}
			try(t, "driver", func(ctx context.Context) error {
				return c.AddDriver(ctx, cluster.DriverSpec{Name: name, Definition: definition})
			}, func(ctx context.Context) error {
				return c.AddNode(ctx, cluster.NodeSpec{Name: worker, Drivers: []string{name}})
			}, func(ctx context.Context) error {
				return cluster.Restart(ctx, part(t, c, "driver@"+worker+"/"+name), cluster.Kill)
			}, func(ctx context.Context) error {
				return cluster.Restart(ctx, part(t, c, "csi-attacher@"+name), cluster.Kill)
			}, func(ctx context.Context) error { return c.RemoveNode(ctx, worker) }, func(ctx context.Context) error { return c.RemoveDriver(ctx, name) })
			answers, err := history.Count(c.eventsDir(), history.PrefixCSI+worker, func(e history.Event) bool {
				var call history.CSICall
				return e.Key == "NodeGetInfo" && e.Phase == history.OK && e.Decode(&call) == nil && call.Driver == name && call.MaxVolumes != nil && *call.MaxVolumes == 3
			})
			if err != nil || answers == 0 {
				t.Errorf("want NodeGetInfo answered with the %s limit, 3, in the history, got %d such answers (error: %v)", limit, answers, err)
			}
			for _, r := range pods.ClusterScoped() {
				left, err := c.dynamic.Resource(r).List(t.Context(), metav1.ListOptions{LabelSelector: driverLabel})
				if err != nil || len(left.Items) > 0 {
					t.Errorf("want no %s left of the driver, got %d (error: %v)", r.Resource, len(left.Items), err)
				}
			}
		})
	}
	t.Run("refusals", func(t *testing.T) { refusePods(t, c, path) })
}

// hostpathPods is the built-in definition of csi-driver-host-path's manifests, with an image in which its stand-in goes by its name.
func hostpathPods(t *testing.T, self string) string {
	t.Helper()
	const built, image = "../../../../drivers", "hostpathplugin.tar"
	dir := t.TempDir()
	text, err := os.ReadFile(filepath.Join(built, "hostpath-pods.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "hostpath-pods.yaml")
	if err := errors.Join(os.WriteFile(path, append(text, "  images: ["+image+"]\n"...), 0o644), os.CopyFS(filepath.Join(dir, "manifests"), os.DirFS(filepath.Join(built, "manifests")))); err != nil {
		t.Fatal(err)
	}
	saveImage(t, filepath.Join(dir, image), archive.Image{
		Ref: "registry.k8s.io/sig-storage/hostpathplugin:v1.17.1", Entrypoint: []string{"headroom:hostpathlike"},
		Files: []archive.File{{Path: "/usr/local/bin/headroom", From: self}, {Path: "/usr/local/bin/headroom:hostpathlike", Link: "headroom"}},
	})
	return path
}

// refusePods has a real cluster refuse what only it can.
func refusePods(t *testing.T, c *Cluster, path string) {
	manifest := filepath.Join(filepath.Dir(path), "deploy", "driver.yaml")
	good, err := os.ReadFile(manifest)
	if err != nil {
		t.Fatal(err)
	}
	load := func(from, to string) *drivers.Definition {
		text := strings.Replace(string(good), from, to, 1)
		if text == string(good) {
			t.Fatalf("case changes nothing: %q is not in the manifest", from)
		}
		if err := os.WriteFile(manifest, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		def, err := drivers.Load(path)
		if err != nil {
			t.Fatal(err)
		}
		return def
	}
	steps := newSteps(os.Stderr)
	var input *cluster.InputError
	err = c.tryOne(t.Context(), steps, "steady-pods", load("metadata: {labels: {app: steady-node}}", "metadata: {labels: {app: another}}"))
	if !errors.As(err, &input) || !strings.Contains(err.Error(), "driver.yaml:6: DaemonSet/steady-node: the API server refuses it: ") || !strings.Contains(err.Error(), "selector") {
		t.Errorf("a selector that selects nothing: want an InputError with the server's words, got %v", err)
	}
	var env *cluster.EnvironmentError
	err = c.tryOne(t.Context(), steps, "steady-pods", load("headroom.test/steady:1", "registry.invalid/steady:2"))
	if !errors.As(err, &env) || !strings.Contains(err.Error(), `"registry.invalid/steady:2" on node`) || !strings.Contains(env.Remedy, "pods.images") {
		t.Errorf("an image of no registry: want an EnvironmentError that names it, got %v", err)
	}
	load("--mode=controller", "--mode=nonsense")
	var driver *cluster.DriverError
	err = c.AddDriver(t.Context(), cluster.DriverSpec{Name: "crash.pods.test", Definition: "steady-pods"})
	if !errors.As(err, &driver) || !strings.Contains(err.Error(), "it ended by itself") || !strings.Contains(err.Error(), "nonsense") {
		t.Errorf("a driver that ends: want a DriverError with the end of its log, got %v", err)
	}
	left, err := c.client.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{LabelSelector: driverLabel})
	if err != nil || slices.ContainsFunc(left.Items, func(n corev1.Namespace) bool { return n.DeletionTimestamp == nil }) {
		t.Errorf("want every driver's namespace gone, or going, got %v (error: %v)", left, err)
	}
}
