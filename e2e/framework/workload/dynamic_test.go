package workload

import (
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"headroom/e2e/framework/history"
)

// newDynamicSet is a set whose volumes others make.
func newDynamicSet(t *testing.T) (*Set, *memory) {
	s, b, _ := newTestSet(t)
	s.Dynamic = &Dynamic{Parameters: map[string]string{"type": "fast"}}
	return s, b
}

// impatient makes every wait of the set short.
func impatient(s *Set) {
	s.Stretch = func(time.Duration) time.Duration { return 300 * time.Millisecond }
}

// bind makes a volume for a claim as external-provisioner and the controller manager do.
func bind(t *testing.T, s *Set, claim, volume string) {
	t.Helper()
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: volume, Finalizers: []string{"kept"}}, Spec: corev1.PersistentVolumeSpec{
		StorageClassName: s.scope, PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "d", VolumeHandle: "id-" + volume}},
	}}
	if _, err := s.client.CoreV1().PersistentVolumes().Create(t.Context(), pv, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	claims := s.client.CoreV1().PersistentVolumeClaims("ns")
	c, err := claims.Get(t.Context(), claim, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c.Spec.VolumeName, c.Status.Phase = volume, corev1.ClaimBound
	if _, err := claims.Update(t.Context(), c, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// tell writes an event as external-provisioner does.
func tell(t *testing.T, s *Set, namespace, object, reason, message string) {
	t.Helper()
	e := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{GenerateName: "e", Name: object + reason + message[:1], Namespace: namespace},
		InvolvedObject: corev1.ObjectReference{Name: object}, Reason: reason, Message: message, LastTimestamp: metav1.Now(),
	}
	if _, err := s.client.CoreV1().Events(namespace).Create(t.Context(), e, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestDynamicVolume(t *testing.T) {
	g := NewWithT(t)
	s, backend := newDynamicSet(t)
	made := make(chan Volume, 1)
	go func() {
		v, err := s.Volume(t.Context(), VolumeOptions{})
		if err != nil {
			t.Error(err)
		}
		made <- v
	}()
	g.Eventually(func() error {
		_, err := s.client.CoreV1().PersistentVolumeClaims("ns").Get(t.Context(), "s1-vol-1", metav1.GetOptions{})
		return err
	}, patience).Should(Succeed())
	bind(t, s, "s1-vol-1", "pvc-1")
	v := <-made
	g.Expect(v.Handle).To(Equal("id-pvc-1"))
	g.Expect(v.Claim.Spec.VolumeName).To(Equal("pvc-1"))
	class, err := s.client.StorageV1().StorageClasses().Get(t.Context(), "s1", metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(class.Parameters).To(HaveKeyWithValue("type", "fast"))
	g.Expect(*class.ReclaimPolicy).To(Equal(corev1.PersistentVolumeReclaimDelete))
	g.Expect(s.provisioner).To(BeNil())
	g.Expect(backend.list()).To(BeEmpty(), "the driver makes it known there")

	static, err := s.Volume(t.Context(), VolumeOptions{Zone: "b"})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(backend.list()).To(Equal([]string{static.Handle}), "what a claim cannot ask for is made beforehand")
}

// TestWhoMadeNoVolume shows whom a claim without a volume is blamed on.
func TestWhoMadeNoVolume(t *testing.T) {
	for name, c := range map[string]struct {
		reason, message string
		boundary        history.Boundary
		want            []string
	}{
		"it fails": {reasonCreateFailed, `failed to provision volume: rpc error: code = Internal desc = no array`, history.Driver,
			[]string{`CreateVolume of driver "d" fails`, "no array", "try: ", "driver-controller@d.log"}},
		"it hangs": {reasonCreateFailed, `failed: rpc error: code = DeadlineExceeded desc = context deadline exceeded`, history.Driver,
			[]string{`CreateVolume of driver "d" does not answer within 10s`, "try: "}},
		"the provisioner's own": {reasonCreateFailed, `error generating accessibility requirements`, history.Provisioner,
			[]string{"external-provisioner says", "volumes.parameters", "csi-provisioner@d.log"}},
		"nothing said": {"ExternalProvisioning", "waiting for a volume", history.Provisioner, []string{"tells of no CreateVolume that failed", "csi-provisioner@d.log"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s, _ := newDynamicSet(t)
			impatient(s)
			tell(t, s, "ns", "s1-vol-1", c.reason, c.message)
			_, err := s.Volume(t.Context(), VolumeOptions{})
			var made *ProvisionError
			g.Expect(errors.As(err, &made)).To(BeTrue(), "got %v", err)
			g.Expect(made.Boundary).To(Equal(c.boundary))
			for _, want := range append(c.want, `claim "s1-vol-1"`) {
				g.Expect(err.Error()).To(ContainSubstring(want))
			}
			set, err := s.StatefulSet(t.Context(), 1, Template{})
			g.Expect(err).NotTo(HaveOccurred())
			err = s.AwaitStatefulSet(t.Context(), set, 10*time.Millisecond)
			g.Expect(errors.As(err, &made)).To(BeTrue(), "pods that wait for it: got %v", err)
		})
	}
}

func TestReclaim(t *testing.T) {
	g := NewWithT(t)
	s, backend := newDynamicSet(t)
	g.Expect(s.Reclaim(t.Context())).To(Succeed(), "nothing was made")
	_, err := s.claimSpec(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	claims := s.client.CoreV1().PersistentVolumeClaims("ns")
	_, err = claims.Create(t.Context(), &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "c"}}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	bind(t, s, "c", "pvc-1")
	g.Expect(backend.AddVolume(t.Context(), "id-pvc-1", "", "")).To(Succeed())
	impatient(s)

	var stays *ProvisionError
	err = s.Reclaim(t.Context())
	g.Expect(errors.As(err, &stays)).To(BeTrue(), "got %v", err)
	g.Expect(stays.Boundary).To(Equal(history.Provisioner))
	g.Expect(err).To(MatchError(ContainSubstring(`want no volume left 300ms after its claim, got 1, such as "pvc-1"`)))
	tell(t, s, "default", "pvc-1", reasonDeleteFailed, "rpc error: code = Internal desc = stuck")
	err = s.Reclaim(t.Context())
	g.Expect(errors.As(err, &stays)).To(BeTrue(), "got %v", err)
	g.Expect(stays.Boundary).To(Equal(history.Driver))
	g.Expect(err).To(MatchError(ContainSubstring(`DeleteVolume of driver "d" fails: rpc error: code = Internal desc = stuck`)))

	g.Expect(s.Remove(t.Context())).To(MatchError(ContainSubstring("stuck")))
	pvs, err := s.client.CoreV1().PersistentVolumes().List(t.Context(), metav1.ListOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(pvs.Items).To(BeEmpty(), "the next spec must not find it")
	g.Expect(backend.list()).To(BeEmpty())
	var patched []string
	collections := 0
	for _, a := range s.client.(*fake.Clientset).Actions() {
		if p, ok := a.(clienttesting.PatchAction); ok {
			patched = append(patched, p.GetName()+" "+string(p.GetPatch()))
		}
		if a.Matches("delete-collection", "persistentvolumeclaims") {
			collections++
		}
	}
	g.Expect(patched).To(Equal([]string{`pvc-1 {"metadata":{"finalizers":null}}`}))
	g.Expect(collections).To(Equal(3), "claims go each time")
}
