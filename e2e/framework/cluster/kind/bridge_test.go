package kind

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/scheme"

	"headroom/drivers"
	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/cluster/kind/sidecar"
	"headroom/e2e/framework/versions"
)

// withDefinitions is the pool of a run that has some drivers, which are named as their definitions.
func withDefinitions(t *testing.T, names ...string) *Cluster {
	t.Helper()
	c := pool(t)
	c.Address, c.Drivers, c.Image, c.Attacher = "10.0.0.2", map[string]string{}, "i:1", "a:1"
	c.dynamic = dynamicfake.NewSimpleDynamicClient(scheme.Scheme)
	for _, name := range names {
		c.Drivers[name] = name
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "controller-" + idOf(name), Annotations: map[string]string{definitionKey: name}}}
		if _, err := c.client.AppsV1().Deployments(namespace).Create(t.Context(), d, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// TestNodesOfOneLimitAreOneSet: each node's driver is given the node's limit, which is in a command, and a set has one.
func TestNodesOfOneLimitAreOneSet(t *testing.T) {
	c := withDefinitions(t, "hostpath", "hostpath-gate")
	for _, n := range []struct {
		driver string
		limit  int64
		set    string
	}{{"hostpath", 3, "3"}, {"hostpath", 5, "5"}, {"hostpath", 3, "3"}, {"hostpath-gate", 3, anySet}, {"hostpath-gate", 5, anySet}} {
		set, def, err := c.putDriver(t.Context(), n.driver, n.limit)
		if err != nil || set != n.set || def.Name != n.driver {
			t.Fatalf("%s with limit %d: want set %q, got %q (error: %v)", n.driver, n.limit, n.set, set, err)
		}
	}
	all, err := c.dynamic.Resource(resources["DaemonSet"]).Namespace(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, o := range all.Items {
		names = append(names, o.GetName())
	}
	id, gated := idOf("hostpath"), idOf("hostpath-gate")
	want := []string{"node-" + id + "-3", "node-" + id + "-5", "node-" + gated + "-true"}
	slices.Sort(want)
	if slices.Sort(names); !slices.Equal(names, want) {
		t.Errorf("want sets %q, got %q", want, names)
	}
	if _, _, err := c.putDriver(t.Context(), "other", 3); err == nil || !strings.Contains(err.Error(), `driver "other" was not added`) {
		t.Errorf("want an error that names the driver, got %v", err)
	}
}

// TestControllerStartsWithTheFirstNode: until one of its nodes serves, there is nobody whom an attacher could ask.
func TestControllerStartsWithTheFirstNode(t *testing.T) {
	c := withDefinitions(t, "hostpath")
	ctx, cancel := context.WithTimeout(t.Context(), 2*pollInterval)
	defer cancel()
	if err := c.startController(ctx, "hostpath", drivers.Start{}); err == nil || !strings.Contains(err.Error(), "want one pod, got 0") {
		t.Errorf("want it to wait for the pod, got %v", err)
	}
	d, err := c.client.AppsV1().Deployments(namespace).Get(t.Context(), "controller-"+idOf("hostpath"), metav1.GetOptions{})
	if err != nil || d.Spec.Replicas == nil || *d.Spec.Replicas != 1 {
		t.Errorf("want one replica, got %+v (error: %v)", d.Spec.Replicas, err)
	}
}

func TestWhatADriverIsToldOnItsNodes(t *testing.T) {
	c := withDefinitions(t)
	c.Drivers["hostpath"], c.Drivers["steady"] = "hostpath", "steady"
	for definition, want := range map[string][]string{
		"hostpath": {"headroom:hostpathlike", "--attach-limit=7", "--endpoint=unix:///csi/$(NODE_NAME).sock", "--nodeid=$(NODE_NAME)", "/headroom/run/kind/drivers/" + idOf("d.test")},
		"steady":   {"headroom:steady", "--mode=node", "--endpoint=unix:///csi/driver.sock", "--backend=http://10.0.0.2:8970", "emptyDir"},
	} {
		text, _, _, err := c.nodeManifest("d.test", definition, 7)
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range want {
			if !strings.Contains(string(text), w) {
				t.Errorf("%s: want %q in\n%s", definition, w, text)
			}
		}
	}
	text, def, err := c.driverManifest(cluster.DriverSpec{Name: "d.test", Definition: "hostpath"}, "/csi.sock")
	if err != nil || def.HasController() || !strings.Contains(string(text), "--nodes=/headroom/run/kind/drivers/"+idOf("d.test")+`"`) ||
		!strings.Contains(string(text), "--node-suffix=/csi.sock") {
		t.Errorf("want a gate that calls the nodes, got (error: %v)\n%s", err, text)
	}
	if _, _, err := c.driverManifest(cluster.DriverSpec{Name: "d.test", Definition: "none"}, ""); err == nil || !strings.Contains(err.Error(), `"none" is not part of this run`) {
		t.Errorf("want an error that names the definition, got %v", err)
	}
}

// TestProvisionerIsBesideDynamicDriversOnly: in the pod, in the image's name and in what the run says of its versions.
func TestProvisionerIsBesideDynamicDriversOnly(t *testing.T) {
	c := withDefinitions(t)
	c.Provisioner = "p:1"
	for definition, want := range map[string]bool{"steady": false, "hostpath-gate": false, "steady-dynamic": true, "create-fails": true} {
		c.Drivers = map[string]string{definition: definition}
		text, _, err := c.driverManifest(cluster.DriverSpec{Name: "d.test", Definition: definition}, ".sock")
		if err != nil || strings.Contains(string(text), "csi-provisioner") != want {
			t.Errorf("%s: want csi-provisioner %t, got (error: %v)\n%s", definition, want, err, text)
		}
		p := &Provider{options: Options{Run: "r", Drivers: c.Drivers}}
		if got := p.Versions(versions.Default())[versions.ProvisionerComponent]; (got == versions.Embedded().Provisioner().String()) != want {
			t.Errorf("%s: want csi-provisioner's version told: %t, got %q", definition, want, got)
		}
	}
}

// TestWaitsForADriverStretch: what waits outlasts the gate, which says why a driver is not ready.
func TestWaitsForADriverStretch(t *testing.T) {
	for _, c := range []struct {
		scale float64
		start drivers.Start
		want  time.Duration
	}{
		{0, drivers.Start{}, readyTimeout + time.Minute}, {1, drivers.Start{Limit: 5 * time.Minute}, readyTimeout + 5*time.Minute},
		{10, drivers.Start{Limit: 30 * time.Second}, readyTimeout + 5*time.Minute},
	} {
		if got := (shape{Scale: c.scale}).driverTimeout(c.start); got != c.want {
			t.Errorf("scale %g, limit %s: want %s, got %s", c.scale, c.start.Limit, c.want, got)
		}
	}
}

// TestWhoIsToBlameForAPod: the driver when it ended, or when its gate says that it is another; nobody but the harness when the gate itself could not serve.
func TestWhoIsToBlameForAPod(t *testing.T) {
	for name, c := range map[string]struct {
		container string
		code      int32
		driver    string
		waits     string // why the driver's container does
	}{
		"driver ended":      {driverContainer, 9, "it ended by itself (Error, exit code 9)", ""},
		"driver is another": {gateContainer, sidecar.CodeStranger, "its gate gave it up\n  last lines of its log:", ""},
		"its image is away": {gateContainer, sidecar.CodeStranger, "", "ErrImagePull"},
		"gate broke":        {gateContainer, 3, "", ""},
		"attacher ended":    {attacherContainer, sidecar.CodeStranger, "", ""},
	} {
		p := pool(t)
		ended := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: c.code, Reason: "Error"}}
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: namespace, Labels: map[string]string{driverLabel: idOf("d.test"), partLabel: nodePart}}, Spec: corev1.PodSpec{NodeName: "c-worker"},
			Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: c.container, LastTerminationState: ended}}},
		}
		if c.waits != "" {
			waiting := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: c.waits}}
			pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{Name: driverContainer, State: waiting})
		}
		if _, err := p.client.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		for what, await := range map[string]func(context.Context) error{
			"for its pod": func(ctx context.Context) error {
				return p.awaitPod(ctx, drivers.Start{}, podsOf(idOf("d.test"), nodePart), &cluster.DriverError{Driver: "d.test", Node: "c-worker"}, "c-worker")
			},
			// It may end when its pod had been ready for a moment.
			"for its registration": func(ctx context.Context) error { return p.awaitRegistered(ctx, drivers.Start{}, "c-worker", "d.test") },
		} {
			ctx, cancel := context.WithTimeout(t.Context(), 3*pollInterval)
			defer cancel()
			var driver *cluster.DriverError
			err := await(ctx)
			if errors.As(err, &driver) != (c.driver != "") || err == nil || !strings.Contains(err.Error(), c.driver) {
				t.Errorf("%s, waiting %s: want the driver blamed with %q, got %v", name, what, c.driver, err)
			}
		}
	}
}

func TestLogsAreThoseOfComponents(t *testing.T) {
	c := pool(t)
	withDriver(t, c, 0)
	if err := c.saveLogs(t.Context(), driverLabel); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{
		"driver@c-worker/d.example.log", "driver-controller@d.example.log", "csi-attacher@d.example.log", "csi-provisioner@d.example.log", "c-worker/node-x/gate.log",
	} {
		if b, err := os.ReadFile(filepath.Join(c.RunDir, "logs", path)); err != nil || len(b) == 0 {
			t.Errorf("want log %s, got %q (error: %v)", path, b, err)
		}
	}
}

const ownDefinition = `apiVersion: headroom/v1alpha1
kind: Driver
name: mine
limit: gate
figures: {minInterval: 1s, cacheAge: 2s, lastGoodLife: 30s}
node:
  command: [./mine, "${ENDPOINT}", "${DRIVER_NAME}", "${NODE_ID}"]
`

func TestDefinitionIsInTheImage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mine.yaml")
	if err := os.WriteFile(path, []byte(ownDefinition), 0o644); err != nil {
		t.Fatal(err)
	}
	c := &Cluster{shape: shape{Drivers: map[string]string{"mine": path, "steady": "steady"}}}
	image, err := c.program()
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, f := range image.Files {
		paths = append(paths, f.Path)
	}
	want := []string{path, filepath.Join(filepath.Dir(path), "mine")}
	for _, name := range drivers.Programs() {
		want = append(want, "/usr/local/bin/headroom:"+name)
	}
	for _, w := range want {
		if !slices.Contains(paths, w) {
			t.Errorf("want %s in the image, got %q", w, paths)
		}
	}
	if slices.Contains(paths, "steady") {
		t.Errorf("want no file of a definition that is built in, got %q", paths)
	}
}

func TestPackable(t *testing.T) {
	for _, name := range []string{"steady", "hostpath", "hostpath-gate"} {
		if err := packable(name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for more, want := range map[string]string{"  env: {X: y}\n": "env", "": "no such file"} {
		path := filepath.Join(t.TempDir(), "mine.yaml")
		if err := os.WriteFile(path, []byte(ownDefinition+more), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := packable(path); err == nil || !strings.Contains(err.Error(), `driver "mine"`) || !strings.Contains(err.Error(), want) {
			t.Errorf("want driver and %q in the error, got %v", want, err)
		}
	}
}
