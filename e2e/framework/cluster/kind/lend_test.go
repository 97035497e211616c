package kind

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"

	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/history"
	"headroom/e2e/framework/versions"
)

// pool is a cluster of two workers, the second with an older kubelet, on a false API server.
func pool(t *testing.T) *Cluster {
	t.Helper()
	c := &Cluster{shape: shape{
		Name: "c", RunDir: t.TempDir(), Workers: []string{"c-worker", "c-worker2"}, Topology: "t",
		Kubelets: map[string]versions.Version{"c-worker": "v1.36.3", "c-worker2": "v1.35.4"},
	}}
	if err := os.MkdirAll(c.dir(), 0o755); err != nil {
		t.Fatal(err)
	}
	client := fake.NewClientset()
	for _, name := range []string{"c-control-plane", "c-worker", "c-worker2"} {
		if _, err := client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := client.StorageV1().CSINodes().Create(t.Context(), &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	c.client = client
	answering(t, c, nil)
	return c
}

// answering makes a cluster's API server answer requests that are for no object: texts by path.
func answering(t *testing.T, c *Cluster, texts map[string]string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, ok := texts[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		_, _ = io.WriteString(w, text) // the reader is gone if this fails
	}))
	t.Cleanup(server.Close)
	clients, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	c.raw = clients.CoreV1().RESTClient()
}

func TestReserveLendsAllOrNone(t *testing.T) {
	c := pool(t)
	first, err := c.Reserve(t.Context(), []cluster.NodeSpec{{}})
	if err != nil || len(first) != 1 || first[0] != "c-worker" {
		t.Fatalf("want the first worker, got %q (error: %v)", first, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*pollInterval)
	defer cancel()
	var env *cluster.EnvironmentError
	if _, err := c.Reserve(ctx, []cluster.NodeSpec{{}, {}}); !errors.As(err, &env) || !strings.Contains(err.Error(), "wait for 2 free workers") {
		t.Fatalf("two of two while one is lent: want to wait in vain, got %v", err)
	}
	// What waited in vain took nothing.
	second, err := c.Reserve(t.Context(), []cluster.NodeSpec{{}})
	if err != nil || second[0] != "c-worker2" {
		t.Fatalf("want the second worker, got %q (error: %v)", second, err)
	}
	got := make(chan []string, 1)
	go func() {
		names, err := c.Reserve(t.Context(), []cluster.NodeSpec{{}, {}})
		if err != nil {
			t.Error(err)
		}
		got <- names
	}()
	for _, name := range []string{"c-worker", "c-worker2"} {
		select {
		case names := <-got:
			t.Fatalf("want to wait until both are free, got %q", names)
		case <-time.After(2 * pollInterval):
		}
		if err := c.RemoveNode(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	if names := <-got; len(names) != 2 {
		t.Errorf("want both workers, got %q", names)
	}
}

// TestReserveIsFair: who needs one worker does not pass who waits for two, though one is free.
func TestReserveIsFair(t *testing.T) {
	c := pool(t)
	held, err := c.Reserve(t.Context(), []cluster.NodeSpec{{}})
	if err != nil {
		t.Fatal(err)
	}
	reserve := func(n int) <-chan []string {
		got := make(chan []string, 1)
		go func() {
			names, err := c.Reserve(t.Context(), make([]cluster.NodeSpec, n))
			if err != nil {
				t.Error(err)
			}
			got <- names
		}()
		return got
	}
	two := reserve(2)
	awaitQueue(t, c)
	one := reserve(1)
	select {
	case names := <-one:
		t.Fatalf("want it to wait behind who needs two, got %q", names)
	case <-time.After(3 * pollInterval):
	}
	if err := c.RemoveNode(t.Context(), held[0]); err != nil {
		t.Fatal(err)
	}
	names := <-two
	if len(names) != 2 {
		t.Fatalf("want both workers, got %q", names)
	}
	if err := c.RemoveNode(t.Context(), names[1]); err != nil {
		t.Fatal(err)
	}
	if got := <-one; len(got) != 1 || got[0] != names[1] {
		t.Errorf("want worker %q, got %q", names[1], got)
	}
}

// awaitQueue waits until somebody is first in the queue for workers.
func awaitQueue(t *testing.T, c *Cluster) {
	t.Helper()
	queue, err := os.Open(filepath.Join(c.dir(), "lend.queue"))
	if err != nil {
		t.Fatal(err)
	}
	defer queue.Close()
	err = poll(t.Context(), "the queue", func() error {
		switch err := unix.Flock(int(queue.Fd()), unix.LOCK_SH|unix.LOCK_NB); {
		case errors.Is(err, unix.EWOULDBLOCK):
			return nil
		case err != nil:
			return err
		}
		return errors.Join(errors.New("nobody is first"), unix.Flock(int(queue.Fd()), unix.LOCK_UN))
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestReserveByKubelet(t *testing.T) {
	names, err := pool(t).Reserve(t.Context(), []cluster.NodeSpec{{Kubelet: "v1.35.4"}, {Kubelet: "v1.36.3"}})
	if err != nil || strings.Join(names, " ") != "c-worker2 c-worker" {
		t.Errorf("want the workers in the order of their kubelets, got %q (error: %v)", names, err)
	}
}

func TestReserveSkipsWhatCanNeverBe(t *testing.T) {
	for name, specs := range map[string][]cluster.NodeSpec{"it takes 3 nodes": {{}, {}, {}}, "zones": {{Zone: "a"}}} {
		var unsupported *cluster.UnsupportedError
		if _, err := pool(t).Reserve(t.Context(), specs); !errors.As(err, &unsupported) || !strings.Contains(err.Error(), name) {
			t.Errorf("want an UnsupportedError that says %q, got %v", name, err)
		}
	}
}

func TestRemoveNodeTakesOnlyOurLabelsOff(t *testing.T) {
	c := pool(t)
	if _, err := c.Reserve(t.Context(), []cluster.NodeSpec{{}}); err != nil {
		t.Fatal(err)
	}
	if err := c.label(t.Context(), "c-worker", map[string]any{"headroom.dev/scope": "p1-1", driverNode + "x": "true", "other/label": "kept"}); err != nil {
		t.Fatal(err)
	}
	if err := c.RemoveNode(t.Context(), "c-worker"); err != nil {
		t.Fatal(err)
	}
	n, err := c.client.CoreV1().Nodes().Get(t.Context(), "c-worker", metav1.GetOptions{})
	if err != nil || len(n.Labels) != 1 || n.Labels["other/label"] != "kept" {
		t.Errorf("want the other label only, got %v (error: %v)", n.Labels, err)
	}
}

// TestRemoveNodeLeavesAFreeWorkerAlone: whoever has put labels on it, no spec of ours has it.
func TestRemoveNodeLeavesAFreeWorkerAlone(t *testing.T) {
	c := pool(t)
	labels := map[string]any{"headroom.dev/scope": "p1-1", driverNode + "x": "true"}
	if err := c.label(t.Context(), "c-worker", labels); err != nil {
		t.Fatal(err)
	}
	if err := c.RemoveNode(t.Context(), "c-worker"); err != nil {
		t.Fatal(err)
	}
	n, err := c.client.CoreV1().Nodes().Get(t.Context(), "c-worker", metav1.GetOptions{})
	if err != nil || len(n.Labels) != len(labels) {
		t.Errorf("want labels %v kept, got %v (error: %v)", labels, n.Labels, err)
	}
	if err := c.RemoveNode(t.Context(), "c-worker9"); err != nil {
		t.Errorf("a worker that is not there: want no error, got %v", err)
	}
}

// TestRemoveNodeReadsRejections: what the kubelet has counted by the end of the spec that had it.
func TestRemoveNodeReadsRejections(t *testing.T) {
	c := pool(t)
	answering(t, c, map[string]string{"/api/v1/nodes/c-worker/proxy/metrics": history.MetricRejections + `{reason="VolumeAttachmentLimitExceeded"} 3` + "\n"})
	if _, err := c.Reserve(t.Context(), []cluster.NodeSpec{{}}); err != nil {
		t.Fatal(err)
	}
	if err := c.RemoveNode(t.Context(), "c-worker"); err != nil {
		t.Fatal(err)
	}
	n, err := history.Count(c.eventsDir(), history.PrefixMetric+"kind/c-worker", func(e history.Event) bool {
		var m history.Metric
		return e.Decode(&m) == nil && m.Value == 3
	})
	if err != nil || n != 1 {
		t.Errorf("want one reading of 3 rejections, got %d (error: %v)", n, err)
	}
}

// TestAddNodeAwaitsRegistration: a driver whose pod is ready is none yet to its kubelet. That it never is, is the driver's failure, but for a caller that gave up:
// that says nothing of the driver.
func TestAddNodeAwaitsRegistration(t *testing.T) {
	for what, gaveUp := range map[string]bool{"in time": false, "its caller gave up": true} {
		c := withDefinitions(t, "steady")
		readyPod(t, c, "steady", nodePart, "c-worker")
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if gaveUp {
				cancel()
			}
			var driver *cluster.DriverError
			err := c.AddNode(ctx, cluster.NodeSpec{Name: "c-worker", Limit: 3, Drivers: []string{"steady"}})
			if err == nil || !strings.Contains(err.Error(), `want driver "steady" in CSINode "c-worker"`) || errors.As(err, &driver) == gaveUp {
				t.Errorf("%s: want the driver blamed: %t, got %v", what, !gaveUp, err)
			}
			if env := (*cluster.EnvironmentError)(nil); errors.As(err, &env) != gaveUp {
				t.Errorf("%s: want an EnvironmentError: %t, got %v", what, gaveUp, err)
			}
		})
		n := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "c-worker"}, Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: "steady"}}}}
		if _, err := c.client.StorageV1().CSINodes().Update(t.Context(), n, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := c.AddNode(t.Context(), cluster.NodeSpec{Name: "c-worker", Limit: 3, Drivers: []string{"steady"}}); err != nil {
			t.Errorf("a driver that is registered: want no error, got %v", err)
		}
	}
}

func TestWorkerThatDoesNotComeCleanStaysLent(t *testing.T) {
	const driver = "d.example"
	for want, leave := range map[string]func(*Cluster) error{
		`want it gone from CSINode "c-worker", got "d.example"`: func(c *Cluster) error {
			n := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "c-worker"}, Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: driver}}}}
			_, err := c.client.StorageV1().CSINodes().Update(t.Context(), n, metav1.UpdateOptions{})
			return err
		},
		"want no pod of it, got 1": func(c *Cluster) error {
			readyPod(t, c, driver, nodePart, "c-worker")
			return nil
		},
		"kubelet of node c-worker: ": func(c *Cluster) error {
			answering(t, c, map[string]string{"/api/v1/nodes/c-worker/proxy/metrics": "Unauthorized"})
			return nil
		},
	} {
		c := pool(t)
		if _, err := c.Reserve(t.Context(), []cluster.NodeSpec{{}}); err != nil {
			t.Fatal(err)
		}
		if err := c.label(t.Context(), "c-worker", map[string]any{driverNode + idOf(driver): "true"}); err != nil {
			t.Fatal(err)
		}
		if err := leave(c); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if strings.HasPrefix(want, "want ") {
			cancel() // nothing comes of waiting
		}
		err := c.RemoveNode(ctx, "c-worker")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error that says %q, got %v", want, err)
		}
		free, err := c.free(t.Context())
		if err != nil || len(free) != 1 || free[0].Name != "c-worker2" {
			t.Errorf("%s: want the other worker free only, got %v (error: %v)", want, free, err)
		}
	}
}
