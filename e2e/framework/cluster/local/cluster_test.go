package local

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"headroom/e2e/framework/cluster"
)

var steady = map[string]string{"steady": "steady"}

// TestCluster is the life of one cell, in order.
func TestCluster(t *testing.T) {
	c := testBinaries(t)
	dir := filepath.Join(t.TempDir(), "run")
	cell := newTestCluster(t, dir, c, steady, "bare")
	if err := cell.addTestDriver(t.Context(), "steady", "n1", "n2"); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		name string
		f    func(*testing.T, *testCluster)
	}{
		{"components", testComponents}, {"attach", testAttach}, {"preflight", testPreflight}, {"scheduler", testScheduler}, {"kubelet", testKubelet}, {"node", testRemoveNode},
		{"mistakes", testMistakes},
	} {
		if !t.Run(step.name, func(t *testing.T) { step.f(t, cell) }) {
			return
		}
	}
	were := descendants(t, cell.life.pid)
	began := time.Now()
	if err := cell.Destroy(t.Context()); err != nil {
		t.Errorf("destroy: %v", err)
	}
	took := time.Since(began)
	t.Logf("destroyed in %.2fs", took.Seconds())
	if took > 5*time.Second {
		t.Errorf("destroy: want at most 2s on an idle machine and 5s on any, it took %s", took)
	}
	wantNothingLeft(t, dir, were)
	wantClosed(t, dir)
	if err := cell.Destroy(t.Context()); err != nil {
		t.Errorf("destroy again: %v", err)
	}
}

func testComponents(t *testing.T, cell *testCluster) {
	all, err := cell.Components(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, c := range all {
		ids = append(ids, c.ID())
		if kind := kindOf(c.ID()); cell.options.Versions[kind] != c.Version() {
			t.Errorf("%s: want version %q, got %q", c.ID(), cell.options.Versions[kind], c.Version())
		}
	}
	want := []string{
		"quota", "etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "node-agent@bare", "kubelet@bare",
		"driver-controller@" + testDriver, "csi-attacher@" + testDriver,
		"node-agent@n1", "kubelet@n1", "driver@n1/" + testDriver, "node-agent@n2", "kubelet@n2", "driver@n2/" + testDriver,
	}
	slices.Sort(ids)
	slices.Sort(want)
	if !slices.Equal(ids, want) {
		t.Errorf("components: want %q, got %q", want, ids)
	}
	for id, pid := range cell.pids(t) {
		if pid == 0 {
			t.Errorf("%s: want it running", id)
		}
	}
}

// Another process reaches the cell through its run directory and its port.
func testAttach(t *testing.T, cell *testCluster) {
	other, err := Attach(t.Context(), Options{RunDir: cell.options.RunDir}, cell.Handle())
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := other.Components(t.Context())
	if err != nil || len(theirs) != len(cell.pids(t)) {
		t.Errorf("components of the attached cluster: got %d, %v", len(theirs), err)
	}
	if got, want := other.RESTConfig(), cell.RESTConfig(); got.Host != want.Host || string(got.KeyData) != string(want.KeyData) {
		t.Errorf("attached configuration: want that of the maker, got host %s", got.Host)
	}
	if err := other.Destroy(t.Context()); err == nil {
		t.Error("destroy an attached cluster: want an error")
	}
	if _, err := Attach(t.Context(), Options{RunDir: t.TempDir()}, cell.Handle()); err == nil {
		t.Error("attach where there is no cell: want an error")
	}
}

// testScheduler stops, starts, pauses and resumes a component.
func testScheduler(t *testing.T, cell *testCluster) {
	const id = "kube-scheduler"
	scheduler := cell.component(t, id)
	before := cell.pids(t)
	must := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	must("stop", scheduler.Stop(t.Context(), cluster.Terminate))
	must("stop again", scheduler.Stop(t.Context(), cluster.Terminate))
	if err := scheduler.Pause(t.Context()); err == nil || !strings.Contains(err.Error(), "does not run") {
		t.Errorf("pause what is stopped: got %v", err)
	}
	pod, err := cell.createPod(t.Context(), "unplaced", "n1", "")
	must("create a pod", err)
	stopped := cell.pids(t)
	must("start", scheduler.Start(t.Context(), ""))
	after := cell.pids(t)
	if before[id] == 0 || stopped[id] != 0 || after[id] == 0 || after[id] == before[id] {
		t.Errorf("pids of %s: want one, none, another; got %d, %d, %d", id, before[id], stopped[id], after[id])
	}
	for _, pids := range []map[string]int{before, stopped, after} {
		delete(pids, id)
	}
	if !maps.Equal(before, stopped) || !maps.Equal(before, after) {
		t.Errorf("other components: want them untouched, got %v, %v, %v", before, stopped, after)
	}
	if err := scheduler.Start(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "runs already") {
		t.Errorf("start what runs: got %v", err)
	}
	must("run the pod", cell.awaitRunning(t.Context(), pod.Name))

	paused := func() bool { return cell.find(t, "/kube-scheduler ").state == 'T' }
	must("pause", scheduler.Pause(t.Context()))
	await(t, "the pause", paused)
	must("resume", scheduler.Resume(t.Context()))
	await(t, "the resumption", func() bool { return !paused() })
	_, err = cell.createPod(t.Context(), "placed", "n1", "")
	must("create a pod", err)
	must("run the second pod", cell.awaitRunning(t.Context(), "placed"))
}

// testKubelet kills a kubelet under a pod with a volume: the pod and its mounts stay, and the next kubelet looks after them.
func testKubelet(t *testing.T, cell *testCluster) {
	ctx := t.Context()
	if err := cell.createVolume(ctx, "vol"); err != nil {
		t.Fatal(err)
	}
	if _, err := cell.createPod(ctx, "keeps", "n1", "vol"); err != nil {
		t.Fatal(err)
	}
	if err := cell.awaitRunning(ctx, "keeps"); err != nil {
		t.Fatal(err)
	}
	before, err := cell.pod(ctx, "keeps")
	if err != nil {
		t.Fatal(err)
	}
	agent := func() int { return cell.find(t, "/kubelet ", "--hostname-override n1 ").pid }
	volume := "/volumes/kubernetes.io~csi/vol/mount"
	mounted := mounts(t, agent(), volume)
	if len(mounted) != 1 {
		t.Fatalf("mounts of the volume: want 1, got %v", mounted)
	}
	kubelet := cell.component(t, "kubelet@n1")
	if err := kubelet.Stop(ctx, cluster.Kill); err != nil {
		t.Fatal(err)
	}
	if err := kubelet.Start(ctx, ""); err != nil {
		t.Fatal(err)
	}
	if err := cell.awaitCount(ctx, "n1", testLimit); err != nil {
		t.Fatal(err)
	}
	if got := mounts(t, agent(), volume); !slices.Equal(got, mounted) {
		t.Errorf("mounts after the restart: want %v, got %v", mounted, got)
	}
	// A pod that is new shows that the kubelet works again, and with it that what it said of the old one is from after the restart.
	if _, err := cell.createPod(ctx, "later", "n1", ""); err != nil {
		t.Fatal(err)
	}
	if err := cell.awaitRunning(ctx, "later"); err != nil {
		t.Fatal(err)
	}
	after, err := cell.pod(ctx, "keeps")
	if err != nil {
		t.Fatal(err)
	}
	was, is := before.Status.ContainerStatuses[0], after.Status.ContainerStatuses[0]
	if after.Status.Phase != corev1.PodRunning || is.ContainerID != was.ContainerID || is.RestartCount != 0 ||
		!is.State.Running.StartedAt.Equal(&was.State.Running.StartedAt) {
		t.Errorf("pod after the restart: want the same container running, got %s %+v, before %+v", after.Status.Phase, is, was)
	}
	zero := int64(0)
	if err := cell.client.CoreV1().Pods("default").Delete(ctx, "keeps", metav1.DeleteOptions{GracePeriodSeconds: &zero}); err != nil {
		t.Fatal(err)
	}
	if err := eventually(ctx, func(ctx context.Context) error {
		left, err := cell.client.StorageV1().VolumeAttachments().List(ctx, metav1.ListOptions{})
		if still := mounts(t, agent(), volume); err == nil && len(left.Items)+len(still) > 0 {
			err = fmt.Errorf("want neither attachment nor mount, got %d and %v", len(left.Items), still)
		}
		return err
	}); err != nil {
		t.Errorf("after the pod: %v", err)
	}
}

func testRemoveNode(t *testing.T, cell *testCluster) {
	if err := errors.Join(cell.RemoveNode(t.Context(), "n2"), cell.RemoveNode(t.Context(), "n2")); err != nil {
		t.Fatal(err)
	}
	if _, err := cell.client.CoreV1().Nodes().Get(t.Context(), "n2", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("node n2: want it gone, got %v", err)
	}
	for id := range cell.pids(t) {
		if strings.Contains(id, "@n2") {
			t.Errorf("%s is left", id)
		}
	}
}

func testMistakes(t *testing.T, cell *testCluster) {
	ctx := t.Context()
	for _, c := range []struct {
		err  error
		want string
	}{
		{cell.AddNode(ctx, cluster.NodeSpec{Name: "n1"}), `add node "n1": it exists`},
		{cell.AddNode(ctx, cluster.NodeSpec{Name: "n9", Drivers: []string{"nobody"}}), `driver "nobody" was not added`},
		{cell.AddDriver(ctx, cluster.DriverSpec{Name: testDriver, Definition: "steady"}), "it exists"},
		{cell.AddDriver(ctx, cluster.DriverSpec{Name: "x.test", Definition: "unknown"}), `"unknown" is not part of this run`},
		{cell.SetEndpoint(ctx, "kube-scheduler", "slow"), `want one of ["pass" "refuse"`},
		{cell.SetEndpoint(ctx, "etcd", "hang"), `"etcd" has no endpoint of its own`},
		{cell.SetLatency(ctx, "kube-scheduler", -time.Second), "endpoint latency -1s: want 0 or more"},
		{cell.SetLatency(ctx, "etcd", time.Second), `"etcd" has no endpoint of its own`},
		{cell.component(t, "kubelet@n1").Start(ctx, "v1.0.0"), "no source of other versions"},
		{(&component{cluster: cell.Cluster, status: componentStatus{ID: "kubelet@n7"}}).Pause(ctx), `no component "kubelet@n7"`},
		{(&component{cluster: cell.Cluster, status: componentStatus{ID: "driver@n1/x"}}).Pause(ctx), `no component "driver@n1/x" on node "n1"`},
		{cell.RemoveDriver(ctx, "x.test"), ""},
	} {
		if c.want == "" && c.err != nil || c.want != "" && (c.err == nil || !strings.Contains(c.err.Error(), c.want)) {
			t.Errorf("want %q, got %v", c.want, c.err)
		}
	}
}
