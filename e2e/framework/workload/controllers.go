package workload

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
)

// appLabel tells the pods of one controller from those of another.
const appLabel = "headroom.dev/app"

// podTemplate is the template as controllers want it.
func (s *Set) podTemplate(ctx context.Context, name string, t Template, policy corev1.RestartPolicy) (corev1.PodTemplateSpec, *metav1.LabelSelector, error) {
	pod, err := s.pod(ctx, t)
	if err != nil {
		return corev1.PodTemplateSpec{}, nil, err
	}
	pod.Labels[appLabel] = name
	pod.Spec.RestartPolicy = policy
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: pod.Labels}, Spec: pod.Spec},
		&metav1.LabelSelector{MatchLabels: map[string]string{appLabel: name}}, nil
}

func (s *Set) meta(name string) metav1.ObjectMeta {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.controlled = true
	return metav1.ObjectMeta{Name: name, Namespace: s.namespace, Labels: map[string]string{ScopeLabel: s.scope}}
}

// StatefulSet makes a StatefulSet; each of its pods has a claim of its own, which outlives the pod, beside the template's volumes. Pods start at once.
func (s *Set) StatefulSet(ctx context.Context, replicas int32, t Template) (string, error) {
	name := s.next("set")
	template, selector, err := s.podTemplate(ctx, name, t, corev1.RestartPolicyAlways)
	if err != nil {
		return "", err
	}
	spec, err := s.claimSpec(ctx)
	if err != nil {
		return "", err
	}
	c := &template.Spec.Containers[0]
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "own", MountPath: "/mnt/own"})
	set := &appsv1.StatefulSet{ObjectMeta: s.meta(name), Spec: appsv1.StatefulSetSpec{
		Replicas: &replicas, Selector: selector, Template: template, ServiceName: name, PodManagementPolicy: appsv1.ParallelPodManagement,
		VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{
			ObjectMeta: metav1.ObjectMeta{Name: "own", Labels: map[string]string{ScopeLabel: s.scope}}, Spec: spec,
		}},
	}}
	return name, s.Record("create", "statefulset", s.namespace+"/"+name, "", func() error {
		_, err := s.client.AppsV1().StatefulSets(s.namespace).Create(ctx, set, metav1.CreateOptions{})
		return err
	})
}

// Deployment makes a Deployment that makes all new pods before it takes old ones away.
func (s *Set) Deployment(ctx context.Context, replicas int32, t Template) (string, error) {
	name := s.next("deployment")
	template, selector, err := s.podTemplate(ctx, name, t, corev1.RestartPolicyAlways)
	if err != nil {
		return "", err
	}
	surge, unavailable := intstr.FromString("100%"), intstr.FromInt32(0)
	d := &appsv1.Deployment{ObjectMeta: s.meta(name), Spec: appsv1.DeploymentSpec{
		Replicas: &replicas, Selector: selector, Template: template,
		Strategy: appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType, RollingUpdate: &appsv1.RollingUpdateDeployment{
			MaxSurge: &surge, MaxUnavailable: &unavailable,
		}},
	}}
	return name, s.Record("create", "deployment", s.namespace+"/"+name, "", func() error {
		_, err := s.client.AppsV1().Deployments(s.namespace).Create(ctx, d, metav1.CreateOptions{})
		return err
	})
}

// RollOut changes a Deployment's template, so that every pod is replaced.
func (s *Set) RollOut(ctx context.Context, name string) error {
	patch := fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{"headroom.dev/rollout":%q}}}}}`, s.next("rollout"))
	return s.Record("patch", "deployment", s.namespace+"/"+name, "", func() error {
		_, err := s.client.AppsV1().Deployments(s.namespace).Patch(ctx, name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
		return err
	})
}

// Job makes a Job whose pods are never started again in place.
func (s *Set) Job(ctx context.Context, completions, parallelism int32, t Template) (string, error) {
	name := s.next("job")
	template, _, err := s.podTemplate(ctx, name, t, corev1.RestartPolicyNever)
	if err != nil {
		return "", err
	}
	job := &batchv1.Job{ObjectMeta: s.meta(name), Spec: batchv1.JobSpec{Completions: &completions, Parallelism: &parallelism, Template: template}}
	return name, s.Record("create", "job", s.namespace+"/"+name, "", func() error {
		_, err := s.client.BatchV1().Jobs(s.namespace).Create(ctx, job, metav1.CreateOptions{})
		return err
	})
}

// AwaitStatefulSet waits until all pods of a StatefulSet run.
func (s *Set) AwaitStatefulSet(ctx context.Context, name string, within time.Duration) error {
	return s.awaitController(ctx, "StatefulSet", name, within, func(ctx context.Context) (string, bool, error) {
		set, err := s.client.AppsV1().StatefulSets(s.namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return "", false, err
		}
		want := *set.Spec.Replicas
		return fmt.Sprintf("want %d pods ready, got %d of %d", want, set.Status.ReadyReplicas, set.Status.Replicas),
			set.Status.ObservedGeneration >= set.Generation && set.Status.ReadyReplicas == want, nil
	})
}

// AwaitDeployment waits until all pods of a Deployment are of its newest template and run, and none is left of another.
func (s *Set) AwaitDeployment(ctx context.Context, name string, within time.Duration) error {
	return s.awaitController(ctx, "Deployment", name, within, func(ctx context.Context) (string, bool, error) {
		d, err := s.client.AppsV1().Deployments(s.namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return "", false, err
		}
		want, st := *d.Spec.Replicas, d.Status
		return fmt.Sprintf("want %d pods new and available, and no other, got %d new, %d available, %d in all", want, st.UpdatedReplicas, st.AvailableReplicas, st.Replicas),
			st.ObservedGeneration >= d.Generation && st.UpdatedReplicas == want && st.AvailableReplicas == want && st.Replicas == want, nil
	})
}

// AwaitJob waits until a Job is complete. It gives up at once when the Job has failed.
func (s *Set) AwaitJob(ctx context.Context, name string, within time.Duration) error {
	return s.awaitController(ctx, "Job", name, within, func(ctx context.Context) (string, bool, error) {
		job, err := s.client.BatchV1().Jobs(s.namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return "", false, err
		}
		for _, c := range job.Status.Conditions {
			if c.Type == batchv1.JobFailed && c.Status == corev1.ConditionTrue {
				return "", false, fmt.Errorf("%w: %s: %s", errEnded, c.Reason, c.Message)
			}
		}
		return fmt.Sprintf("want %d pods succeeded, got %d, %d failed, %d active", *job.Spec.Completions, job.Status.Succeeded, job.Status.Failed, job.Status.Active),
			job.Status.CompletionTime != nil, nil
	})
}

// errEnded marks what no waiting changes.
var errEnded = errors.New("it has failed")

// awaitController asks until look is done. What look says is in the error, with the error of the last try that failed, and with why volumes are missing
// where the harness is to blame.
func (s *Set) awaitController(
	ctx context.Context, kind, name string, within time.Duration, look func(context.Context) (string, bool, error),
) error {
	var state string
	var last error
	err := wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, within, true, func(ctx context.Context) (bool, error) {
		said, done, err := look(ctx)
		switch {
		case errors.Is(err, errEnded):
			return false, err
		case err != nil:
			if ctx.Err() == nil {
				last = err
			}
			return false, nil
		}
		state, last = said, nil
		return done, nil
	})
	if err == nil {
		return nil
	}
	return fmt.Errorf("wait for %s %q within %s: %s: %w", kind, name, within, state, errors.Join(err, last, s.unprovided(), s.unmade(ctx)))
}
