package workload

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	e2epod "k8s.io/kubernetes/test/e2e/framework/pod"
	admissionapi "k8s.io/pod-security-admission/api"
)

// Template is what pods look like.
type Template struct {
	// Selector are labels that the node must carry.
	Selector map[string]string
	// Volumes are used by every pod of the template: pods of one node share them.
	Volumes []Volume
	// Ephemeral is how many generic ephemeral volumes each pod has.
	Ephemeral int
	// Command is what the container does, in the words that the fake runtime understands ("sleep 2; exit 0"). Empty runs until the pod is deleted.
	Command string
}

// next is a new name in the set.
func (s *Set) next(kind string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count++
	return fmt.Sprintf("%s-%s-%d", s.scope, kind, s.count)
}

// pod makes a pod of the template, without a name.
func (s *Set) pod(ctx context.Context, t Template) (*corev1.Pod, error) {
	var claims []*corev1.PersistentVolumeClaim
	for _, v := range t.Volumes {
		claims = append(claims, v.Claim)
	}
	pod := e2epod.MakePod(s.namespace, t.Selector, claims, admissionapi.LevelPrivileged, t.Command)
	pod.GenerateName = ""
	pod.Labels = map[string]string{ScopeLabel: s.scope}
	pod.Spec.TerminationGracePeriodSeconds = new(int64)
	if t.Ephemeral == 0 {
		return pod, nil
	}
	spec, err := s.claimSpec(ctx)
	for i := range t.Ephemeral {
		name := fmt.Sprintf("scratch-%d", i+1)
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{
				ObjectMeta: metav1.ObjectMeta{Labels: pod.Labels}, Spec: spec,
			}},
		}})
		c := &pod.Spec.Containers[0]
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: "/mnt/" + name})
	}
	return pod, err
}

// claimSpec is a claim for which the set's provisioner, or external-provisioner, makes a volume.
func (s *Set) claimSpec(ctx context.Context) (corev1.PersistentVolumeClaimSpec, error) {
	class, err := s.class(ctx)
	return corev1.PersistentVolumeClaimSpec{
		StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: *resource.NewQuantity(1<<20, resource.BinarySI)}},
	}, err
}

// PodOf makes a pod of the template.
func (s *Set) PodOf(ctx context.Context, t Template) (*corev1.Pod, error) {
	pod, err := s.pod(ctx, t)
	if err != nil {
		return nil, err
	}
	pod.Name = s.next("pod")
	err = s.Record("create", "pod", s.namespace+"/"+pod.Name, "", func() (err error) {
		pod, err = s.client.CoreV1().Pods(s.namespace).Create(ctx, pod, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("make pod %q: %w", pod.Name, err)
	}
	return pod, nil
}
