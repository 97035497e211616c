package local

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"headroom/fixtures/quota"
)

// createVolume makes a volume in the backend, with its PersistentVolume and claim.
func (t *testCluster) createVolume(ctx context.Context, name string) error {
	if err := t.quota.AddVolume(ctx, name, quota.VolumeConfig{}); err != nil {
		return err
	}
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{
		Capacity: size, AccessModes: modes, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
		PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: testDriver, VolumeHandle: name}},
	}}
	class := ""
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: modes, Resources: corev1.VolumeResourceRequirements{Requests: size}, StorageClassName: &class, VolumeName: name,
	}}
	if _, err := t.client.CoreV1().PersistentVolumes().Create(ctx, pv, metav1.CreateOptions{}); err != nil {
		return err
	}
	_, err := t.client.CoreV1().PersistentVolumeClaims("default").Create(ctx, claim, metav1.CreateOptions{})
	return err
}

// createPod makes a pod that runs for ever on the node, with the claim's volume unless that is "". It waits for the service account that pods need.
func (t *testCluster) createPod(ctx context.Context, name, node, claim string) (*corev1.Pod, error) {
	zero := int64(0)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{
		NodeSelector:                  map[string]string{corev1.LabelHostname: node},
		TerminationGracePeriodSeconds: &zero,
		Containers:                    []corev1.Container{{Name: "main", Image: "pause"}},
	}}
	if claim != "" {
		source := corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}
		pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: source}}
		pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/v"}}
	}
	var made *corev1.Pod
	var final error
	err := eventually(ctx, func(ctx context.Context) error {
		made, final = t.client.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{})
		if apierrors.IsForbidden(final) {
			return final // no service account yet
		}
		return nil
	})
	return made, errors.Join(err, final)
}

func (t *testCluster) pod(ctx context.Context, name string) (*corev1.Pod, error) {
	return t.client.CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{})
}

func (t *testCluster) awaitRunning(ctx context.Context, name string) error {
	return eventually(ctx, func(ctx context.Context) error {
		p, err := t.pod(ctx, name)
		if err == nil && (p.Status.Phase != corev1.PodRunning || p.Status.ContainerStatuses[0].State.Running == nil) {
			err = fmt.Errorf("pod %q: want it running, got %s %+v", name, p.Status.Phase, p.Status.Conditions)
		}
		return err
	})
}
