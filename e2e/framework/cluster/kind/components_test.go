package kind

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/history"
	"headroom/e2e/framework/versions"
)

// withDriver puts a driver's two pods into the pool, as its kubelets report them.
func withDriver(t *testing.T, c *Cluster, restarts int32) {
	t.Helper()
	status := func(name string) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: name, ContainerID: "containerd://id-" + name, Ready: true, RestartCount: restarts}
	}
	containers := []corev1.Container{{Name: driverContainer}, {Name: gateContainer}, {Name: attacherContainer}, {Name: provisionerContainer}}
	for part, node := range map[string]string{nodePart: "c-worker", controllerPart: "c-control-plane"} {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Name: part + "-x", Namespace: namespace, Labels: map[string]string{partLabel: part, driverLabel: "1"}, Annotations: map[string]string{driverNameKey: "d.example"},
			},
			Spec:   corev1.PodSpec{NodeName: node, Containers: containers},
			Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{status(driverContainer), status(attacherContainer), status(provisionerContainer)}},
		}
		if restarts == 0 {
			if _, err := c.client.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		} else if _, err := c.client.CoreV1().Pods(namespace).Update(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
			t.Error(err)
		}
	}
}

func part(t *testing.T, c *Cluster, id string) cluster.Component {
	t.Helper()
	all, err := c.Components(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, p := range all {
		if p.ID() == id {
			return p
		}
		ids = append(ids, p.ID())
	}
	t.Fatalf("want a component %q, got %q", id, ids)
	return nil
}

func TestDriversAreKeptAliveByTheirKubelet(t *testing.T) {
	c := pool(t)
	withDriver(t, c, 0)
	asked := falseDocker(t, "true")
	for id, told := range map[string]string{
		"driver@c-worker/d.example":   "exec c-worker ctr --namespace k8s.io tasks kill --signal SIGKILL id-driver",
		"driver-controller@d.example": "exec c-control-plane ctr --namespace k8s.io tasks kill --signal SIGKILL id-driver",
		"csi-attacher@d.example":      "exec c-control-plane ctr --namespace k8s.io tasks kill --signal SIGKILL id-attacher",
		"csi-provisioner@d.example":   "exec c-control-plane ctr --namespace k8s.io tasks kill --signal SIGKILL id-provisioner",
	} {
		p := part(t, c, id)
		var unsupported *cluster.UnsupportedError
		for name, err := range map[string]error{"stop": p.Stop(t.Context(), cluster.Kill), "another release": p.Start(t.Context(), "2")} {
			if !errors.As(err, &unsupported) || !strings.Contains(err.Error(), id) {
				t.Errorf("%s of %s: want an UnsupportedError that names it, got %v", name, id, err)
			}
		}
		done := make(chan error, 1)
		go func() { done <- cluster.Restart(t.Context(), p, cluster.Kill) }()
		awaitAsked(t, asked, told)
		select {
		case err := <-done:
			t.Fatalf("%s: want it to wait for the kubelet, got %v", id, err)
		default:
		}
		withDriver(t, c, 1)
		if err := <-done; err != nil {
			t.Errorf("restart of %s: %v", id, err)
		}
		withDriver(t, c, -1) // as if it had never been
		for name, do := range map[string]error{"pause": p.Pause(t.Context()), "resume": p.Resume(t.Context())} {
			if do != nil {
				t.Errorf("%s of %s: %v", name, id, do)
			}
		}
	}
	states, err := history.Count(c.eventsDir(), history.PrefixComponent+"kind/driver-c-worker-d.example", func(e history.Event) bool {
		return e.Key == "driver@c-worker/d.example" && e.Node == "c-worker"
	})
	if err != nil || states != 4 {
		t.Errorf("want stopping, ready, paused and resumed of the driver in the history, got %d states (error: %v)", states, err)
	}
}

// awaitAsked waits until the engine was given a command.
func awaitAsked(t *testing.T, asked, command string) {
	t.Helper()
	err := poll(t.Context(), "the engine", func() error {
		b, err := os.ReadFile(asked)
		if err == nil && !strings.Contains(string(b), command) {
			err = errors.New("not asked yet: " + command)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestComponentsHaveOneVersion: another is refused before anything is asked of the node, and their own is none.
func TestComponentsHaveOneVersion(t *testing.T) {
	c := pool(t)
	c.Kubernetes, c.Etcd = "v1.36.3", "v3.6.16"
	asked := falseDocker(t, "true")
	given, giveUp := context.WithCancel(t.Context())
	giveUp()
	for _, id := range []string{"kube-apiserver", "etcd", "kubelet@c-worker2", "node@c-worker"} {
		var unsupported *cluster.UnsupportedError
		if err := part(t, c, id).Start(given, "v1.34.4"); !errors.As(err, &unsupported) || !strings.Contains(err.Error(), id+" stays at ") {
			t.Errorf("%s at another version: want an UnsupportedError that names it, got %v", id, err)
		}
	}
	if b, err := os.ReadFile(asked); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("want the engine not asked, got %q (error: %v)", b, err)
	}
	ready := corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "etcd-c-control-plane", Namespace: metav1.NamespaceSystem}, Status: ready}
	if _, err := c.client.CoreV1().Pods(pod.Namespace).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, v := range []versions.Version{"", "v3.6.16"} {
		if err := part(t, c, "etcd").Start(t.Context(), v); err != nil {
			t.Errorf("etcd at %q: want it started, got %v", v, err)
		}
	}
}

// TestComponentsWithoutAPIServer: what is stopped must be found, to be started again.
func TestComponentsWithoutAPIServer(t *testing.T) {
	c := pool(t)
	nobody, err := kubernetes.NewForConfig(&rest.Config{Host: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	c.client = nobody
	part(t, c, "kube-apiserver")
}

func TestVersionsAreRecorded(t *testing.T) {
	c := pool(t)
	c.Kubernetes, c.Etcd = "v1.36.3", "v3.6.16"
	if err := c.recordAll(); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]string{"etcd": "v3.6.16", "kube-apiserver": "v1.36.3", "kubelet@c-worker": "v1.36.3", "kubelet@c-worker2": "v1.35.4"} {
		n, err := history.Count(c.eventsDir(), history.PrefixComponent+"kind/"+strings.ReplaceAll(id, "@", "-"), func(e history.Event) bool {
			var b history.Component
			return e.Key == id && e.Decode(&b) == nil && b.State == "ready" && b.Version == want
		})
		if err != nil || n != 1 {
			t.Errorf("want %s ready at %s once, got %d times (error: %v)", id, want, n, err)
		}
	}
}

func TestMetricsComeThroughTheAPIServer(t *testing.T) {
	c := pool(t)
	answering(t, c, map[string]string{
		"/api/v1/namespaces/kube-system/pods/https:kube-scheduler-c-control-plane:10259/proxy/metrics": "flushed 1\n",
		"/api/v1/nodes/c-worker/proxy/metrics":                                                         history.MetricRejections + `{reason="VolumeAttachmentLimitExceeded"} 2` + "\n",
		"/api/v1/nodes/c-worker2/proxy/metrics":                                                        "Unauthorized",
	})
	if text, err := c.Metrics(t.Context(), "kube-scheduler"); err != nil || string(text) != "flushed 1\n" {
		t.Errorf("want the scheduler's metrics, got %q (error: %v)", text, err)
	}
	if _, err := c.Metrics(t.Context(), "etcd"); err == nil || !strings.Contains(err.Error(), `"etcd"`) {
		t.Errorf("want an error that names the component, got %v", err)
	}
	if err := c.readRejections(t.Context(), "c-worker"); err != nil {
		t.Error(err)
	}
	n, err := history.Count(c.eventsDir(), history.PrefixMetric+"kind/c-worker", func(e history.Event) bool {
		var m history.Metric
		return e.Key == "kubelet@c-worker" && e.Decode(&m) == nil && m.Value == 2 && m.Labels["reason"] == history.RejectionReason
	})
	if err != nil || n != 1 {
		t.Errorf("want one reading of 2 rejections, got %d (error: %v)", n, err)
	}
	if err := c.readRejections(t.Context(), "c-worker2"); err == nil || !strings.Contains(err.Error(), "c-worker2") {
		t.Errorf("an answer that is no metrics: want an error that names the node, got %v", err)
	}
	if err := c.readRejections(t.Context(), "c-control-plane"); err != nil {
		t.Errorf("a kubelet that does not answer: want no reading and no error, got %v", err)
	}
}

func TestSetSocket(t *testing.T) {
	c := pool(t)
	asked := falseDocker(t, "true")
	for _, there := range []bool{false, true} {
		if err := c.SetSocket(t.Context(), "c-worker", "d.example", "registration", there); err != nil {
			t.Error(err)
		}
	}
	const path, hidden = "/var/lib/kubelet/plugins_registry/d.example-reg.sock", "/var/lib/kubelet/plugins/d.example/csi.sock.registration"
	b, err := os.ReadFile(asked)
	if err != nil {
		t.Fatal(err)
	}
	move := "exec c-worker /bin/sh -c " + moveSocket + " "
	if want := move + path + " " + hidden + "\n" + move + hidden + " " + path + "\n"; string(b) != want {
		t.Errorf("want\n%sgot\n%s", want, b)
	}
	if err := c.SetSocket(t.Context(), "c-worker", "d.example", "door", false); err == nil || !strings.Contains(err.Error(), `"door"`) {
		t.Errorf("want an error that names the socket, got %v", err)
	}
}
