package workload

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"headroom/e2e/framework/history"
)

// memory is a backend that remembers its volumes.
type memory struct {
	mu      sync.Mutex
	volumes []string
	broken  error
}

func (m *memory) AddVolume(_ context.Context, handle, _, _ string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.broken == nil {
		m.volumes = append(m.volumes, handle)
	}
	return m.broken
}

func (m *memory) RemoveVolume(_ context.Context, handle string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.volumes = slices.DeleteFunc(m.volumes, func(h string) bool { return h == handle })
	return nil
}

func (m *memory) breakWith(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.broken = err
}

func (m *memory) list() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.volumes)
}

const patience = 20 * time.Second

// newTestSet is a set in a cluster that has an API and nothing else.
func newTestSet(t *testing.T) (*Set, *memory, string) {
	t.Helper()
	dir := t.TempDir()
	events, err := history.Create(dir, "run-1", "workload/p1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = events.Close() })
	b := &memory{}
	s := In("ns", fake.NewClientset(), b, events, "s1", "d")
	t.Cleanup(s.endProvisioner)
	return s, b, filepath.Join(dir, "workload/p1.jsonl")
}

func TestProvisioner(t *testing.T) {
	g := NewWithT(t)
	s, backend, file := newTestSet(t)
	ctx := t.Context()
	spec, err := s.claimSpec(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	other := "other"
	for name, class := range map[string]*string{"own": spec.StorageClassName, "foreign": &other, "static": nil} {
		_, err := s.client.CoreV1().PersistentVolumeClaims("ns").Create(ctx, &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: "uid-own"}, Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: class},
		}, metav1.CreateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
	}
	volumes := func() []corev1.PersistentVolume {
		list, err := s.client.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		return list.Items
	}
	g.Eventually(volumes, patience).Should(HaveLen(1))
	pv := volumes()[0]
	g.Expect(backend.list()).To(Equal([]string{pv.Name}))
	g.Expect(pv.Spec.CSI.VolumeHandle).To(Equal(pv.Name))
	g.Expect(pv.Spec.CSI.Driver).To(Equal("d"))
	g.Expect(pv.Spec.ClaimRef.Name).To(Equal("own"))
	g.Consistently(volumes, 3*provisionEvery).Should(HaveLen(1), "a claim that the controller manager has not bound yet gets no second volume")

	pv.Status.Phase = corev1.VolumeReleased
	_, err = s.client.CoreV1().PersistentVolumes().UpdateStatus(ctx, &pv, metav1.UpdateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(volumes, patience).Should(BeEmpty())
	g.Expect(backend.list()).To(HaveLen(1), "what is attached may outlive its object")

	class, err := s.client.StorageV1().StorageClasses().Get(ctx, "s1", metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(class.Provisioner).To(Equal("d"))
	for _, key := range []string{"create storageclass s1", "create persistentvolume " + pv.Name, "delete persistentvolume " + pv.Name} {
		g.Eventually(func() int { // the volume is gone before the provisioner writes that it is
			text, err := os.ReadFile(file)
			g.Expect(err).NotTo(HaveOccurred())
			return bytes.Count(text, []byte(`"key":"`+key+`"`))
		}, patience).Should(Equal(2), "%s: want it on record before and after", key)
	}
}

func TestMissingVolumesAreTheHarnessesOwnFailure(t *testing.T) {
	g := NewWithT(t)
	s, backend, _ := newTestSet(t)
	ctx := t.Context()
	down := errors.New("no backend")
	backend.breakWith(down)
	name, err := s.StatefulSet(ctx, 1, Template{})
	g.Expect(err).NotTo(HaveOccurred())
	class := "s1"
	_, err = s.client.CoreV1().PersistentVolumeClaims("ns").Create(ctx, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "own-0", UID: "u"}, Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &class},
	}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(s.unprovided, patience).Should(MatchError(down))
	err = s.AwaitStatefulSet(ctx, name, 10*time.Millisecond)
	g.Expect(err).To(MatchError(down))
	g.Expect(err).To(MatchError(ContainSubstring(`wait for StatefulSet "` + name + `" within 10ms: want 1 pods ready, got 0 of 0`)))
	backend.breakWith(nil)
	g.Eventually(s.unprovided, patience).Should(Succeed())
}

func TestPodsOfTemplates(t *testing.T) {
	g := NewWithT(t)
	s, _, _ := newTestSet(t)
	v, err := s.Volume(t.Context(), VolumeOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	pod, err := s.PodOf(t.Context(), Template{Selector: map[string]string{"l": "1"}, Volumes: []Volume{v}, Ephemeral: 2, Command: "sleep 2; exit 3"})
	g.Expect(err).NotTo(HaveOccurred())
	b, err := json.Marshal(pod.Spec)
	g.Expect(err).NotTo(HaveOccurred())
	for _, want := range []string{
		`"nodeSelector":{"l":"1"}`, `"claimName":"` + v.Claim.Name + `"`, `"name":"scratch-2"`, `"mountPath":"/mnt/scratch-1"`, `"storageClassName":"s1"`,
		`"sleep 2; exit 3"`, `"terminationGracePeriodSeconds":0`,
	} {
		g.Expect(string(b)).To(ContainSubstring(want))
	}
	g.Expect(strings.Count(string(b), `"ephemeral":`)).To(Equal(2))
}

func TestJobThatFailedIsNotWaitedFor(t *testing.T) {
	g := NewWithT(t)
	s, _, _ := newTestSet(t)
	ctx := t.Context()
	name, err := s.Job(ctx, 2, 1, Template{Command: "exit 1"})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(s.AwaitJob(ctx, name, 10*time.Millisecond)).To(MatchError(ContainSubstring("want 2 pods succeeded, got 0, 0 failed, 0 active")))
	job, err := s.client.BatchV1().Jobs("ns").Get(ctx, name, metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{
		Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Reason: "BackoffLimitExceeded",
	})
	_, err = s.client.BatchV1().Jobs("ns").UpdateStatus(ctx, job, metav1.UpdateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	began := time.Now()
	g.Expect(s.AwaitJob(ctx, name, time.Hour)).To(MatchError(ContainSubstring("BackoffLimitExceeded")))
	g.Expect(time.Since(began)).To(BeNumerically("<", time.Minute))
}

func TestRolloutIsWaitedFor(t *testing.T) {
	g := NewWithT(t)
	s, _, _ := newTestSet(t)
	ctx := t.Context()
	name, err := s.Deployment(ctx, 2, Template{})
	g.Expect(err).NotTo(HaveOccurred())
	d, err := s.client.AppsV1().Deployments("ns").Get(ctx, name, metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	d.Status.UpdatedReplicas, d.Status.AvailableReplicas, d.Status.Replicas = 2, 2, 3
	_, err = s.client.AppsV1().Deployments("ns").UpdateStatus(ctx, d, metav1.UpdateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(s.AwaitDeployment(ctx, name, 10*time.Millisecond)).To(MatchError(ContainSubstring("got 2 new, 2 available, 3 in all")))
	d.Status.Replicas = 2
	_, err = s.client.AppsV1().Deployments("ns").UpdateStatus(ctx, d, metav1.UpdateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(s.AwaitDeployment(ctx, name, patience)).To(Succeed())
	g.Expect(s.RollOut(ctx, name)).To(Succeed())
	d, err = s.client.AppsV1().Deployments("ns").Get(ctx, name, metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(d.Spec.Template.Annotations).To(HaveKey("headroom.dev/rollout"))
}

func TestRemoveTakesControllersFirst(t *testing.T) {
	g := NewWithT(t)
	s, backend, _ := newTestSet(t)
	ctx := t.Context()
	_, err := s.Deployment(ctx, 1, Template{Ephemeral: 1})
	g.Expect(err).NotTo(HaveOccurred())
	_, err = s.Volume(ctx, VolumeOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(s.Remove(ctx)).To(Succeed())
	var deleted []string
	for _, a := range s.client.(*fake.Clientset).Actions() {
		if strings.HasPrefix(a.GetVerb(), "delete") {
			deleted = append(deleted, a.GetResource().Resource)
		}
	}
	g.Expect(deleted).To(Equal([]string{
		"deployments", "replicasets", "statefulsets", "jobs", "pods", "storageclasses", "namespaces", "persistentvolumes",
	}))
	g.Expect(backend.list()).To(BeEmpty())
}
