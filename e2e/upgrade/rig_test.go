package upgrade

import (
	"context"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"headroom/e2e/framework/history"
	"headroom/e2e/framework/workload"
	"headroom/fixtures/quota"
)

// rig is a walk on an API with nobody behind it but what the rig does itself: pods run at once, on the node that they ask for or else on the first, and an
// eviction deletes. It has nodes a and b, with a limit each in a real backend that is reached without a network.
type rig struct {
	*testing.T
	*walk
	client *fake.Clientset
	dir    string

	mu sync.Mutex
	// refuse is asked before an eviction.
	refuse func(pod string) error
	// evicted and made are names of pods, in order.
	evicted, made []string
}

// direct reaches a handler without a network, so that virtual time can pass.
type direct struct{ http.Handler }

func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	return w.Result(), r.Context().Err()
}

// nowhere is a backend of volumes that remembers none.
type nowhere struct{}

func (nowhere) AddVolume(context.Context, string, string, string) error { return nil }
func (nowhere) RemoveVolume(context.Context, string) error              { return nil }

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{T: t, client: fake.NewClientset(), dir: t.TempDir(), refuse: func(string) error { return nil }}
	work, err := history.Create(r.dir, "run-1", "workload/p1")
	if err != nil {
		t.Fatal(err)
	}
	truth, err := history.Create(r.dir, "run-1", history.SourceBackend)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = work.Close(), truth.Close() })
	r.client.PrependReactor("create", "pods", r.pod)
	r.client.PrependReactor("list", "pods", r.onNode)
	set := workload.In("ns", r.client, nowhere{}, work, "s1", "d")
	r.walk = testWalk()
	r.Bench.Set, r.Bench.Scope = set, "s1"
	r.Client, r.Quota = r.client, quota.NewControl("http://backend", &http.Client{Transport: direct{quota.NewServer(quota.Options{History: truth}).Control()}})
	r.load = &load{bench: r.Bench, stays: "stays", random: rand.New(rand.NewPCG(1, 1))}
	one := int32(1)
	r.must(r.client.Tracker().Add(&appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "stays", Namespace: set.Namespace()}, Spec: appsv1.StatefulSetSpec{Replicas: &one}, Status: appsv1.StatefulSetStatus{ReadyReplicas: 1},
	}))
	for _, node := range r.Nodes {
		r.must(r.client.Tracker().Add(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}))
		r.must(r.Quota.AddNode(t.Context(), node, quota.NodeConfig{Limit: mostRoom}))
	}
	return r
}

func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// pod runs a pod that is made, and does what an eviction asks for.
func (r *rig) pod(a clienttesting.Action) (bool, runtime.Object, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e, ok := a.(clienttesting.CreateAction).GetObject().(*policyv1.Eviction); ok {
		if err := r.refuse(e.Name); err != nil {
			return true, nil, err
		}
		r.evicted = append(r.evicted, e.Name)
		return true, nil, r.client.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("pods"), a.GetNamespace(), e.Name)
	}
	p := a.(clienttesting.CreateAction).GetObject().(*corev1.Pod)
	p.Spec.NodeName, p.Status.Phase = r.Nodes[0], corev1.PodRunning
	if node := p.Spec.NodeSelector["kubernetes.io/hostname"]; node != "" {
		p.Spec.NodeName = node
	}
	r.made = append(r.made, p.Name)
	return false, nil, nil
}

// pods are the names of the pods that were made, in order.
func (r *rig) pods() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.made)
}

// onNode lists the pods of a node, as the API server does and the false one does not.
func (r *rig) onNode(a clienttesting.Action) (bool, runtime.Object, error) {
	selector := a.(clienttesting.ListAction).GetListRestrictions().Fields
	if selector == nil || selector.Empty() {
		return false, nil, nil
	}
	all, err := r.client.Tracker().List(corev1.SchemeGroupVersion.WithResource("pods"), corev1.SchemeGroupVersion.WithKind("Pod"), a.GetNamespace())
	if err != nil {
		return true, nil, err
	}
	list := all.(*corev1.PodList).DeepCopy()
	list.Items = slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return !selector.Matches(fields.Set{"spec.nodeName": p.Spec.NodeName}) })
	return true, list, nil
}

// onRecord are the keys of what the load and the walk did to the cluster, one for each that is done, such as "evict pod ns/x".
func (r *rig) onRecord() (keys []string) {
	r.Helper()
	events, err := history.NewLive(r.dir).Read(history.Now())
	r.must(err)
	for _, e := range events {
		if e.Phase == history.OK && strings.HasPrefix(e.Source, "workload/") {
			keys = append(keys, e.Key)
		}
	}
	return keys
}

// limit is a node's in the backend.
func (r *rig) limit(node string) int64 {
	r.Helper()
	s, err := r.Quota.State(context.Background())
	r.must(err)
	return s.Nodes[node].Quota.Limit
}

// podOn makes a pod that somebody else made.
func (r *rig) podOn(node, name string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: r.Namespace()}, Spec: corev1.PodSpec{NodeName: node}}
	r.must(r.client.Tracker().Add(p))
	return p
}

// attach makes a VolumeAttachment, and detaches it after a while.
func (r *rig) attach(node, name string, goes time.Duration) {
	va := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.VolumeAttachmentSpec{Attacher: "d", NodeName: node}}
	r.must(r.client.Tracker().Add(va))
	if goes > 0 {
		time.AfterFunc(goes, func() {
			_ = r.client.Tracker().Delete(storagev1.SchemeGroupVersion.WithResource("volumeattachments"), "", name)
		})
	}
}

// counted makes a node's CSINode with the driver's count.
func (r *rig) counted(node string, count int32) {
	csi := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{
		{Name: r.Driver, NodeID: node, Allocatable: &storagev1.VolumeNodeResources{Count: &count}},
	}}}
	if _, err := r.client.StorageV1().CSINodes().Update(context.Background(), csi, metav1.UpdateOptions{}); err != nil {
		r.must(r.client.Tracker().Add(csi))
	}
}

// start lets a part of the load go on until the function that it returns is called, which returns what went wrong.
func (r *rig) start(ctx context.Context, part func(context.Context) error) (end func() error) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- part(ctx) }()
	return func() error {
		cancel()
		return <-done
	}
}
