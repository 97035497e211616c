package workload

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	e2edebug "k8s.io/kubernetes/test/e2e/framework/debug"
)

// detachTimeout bounds the wait for the product to let go of the set's volumes.
const detachTimeout = 60 * time.Second

// Dump writes the namespace's events and pods to the spec's output.
func (s *Set) Dump(ctx context.Context) {
	if s.namespace != "" {
		e2edebug.DumpAllNamespaceInfo(ctx, s.client, s.namespace)
	}
}

// Remove deletes controllers and pods first, waits until their volumes are detached, and then deletes the rest. It goes on after an error; the error tells all.
func (s *Set) Remove(ctx context.Context) error {
	if s.namespace == "" {
		return nil
	}
	errs := []error{s.removePods(ctx)}
	s.endProvisioner()
	if s.Dynamic != nil {
		errs = append(errs, s.Reclaim(ctx), s.forceReclaim(ctx))
	}
	if s.classed {
		errs = append(errs, s.client.StorageV1().StorageClasses().Delete(ctx, s.scope, metav1.DeleteOptions{}))
	}
	errs = append(errs, s.client.CoreV1().Namespaces().Delete(ctx, s.namespace, metav1.DeleteOptions{}))
	for _, pv := range s.pvs {
		errs = append(errs, s.client.CoreV1().PersistentVolumes().Delete(ctx, pv, metav1.DeleteOptions{}))
	}
	for _, handle := range s.handles {
		errs = append(errs, s.backend.RemoveVolume(ctx, handle))
	}
	for i, err := range errs {
		if apierrors.IsNotFound(err) {
			errs[i] = nil
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("remove the workload of %s: %w", s.scope, err)
	}
	return nil
}

// removePods deletes controllers and pods, and waits until the volumes are detached.
func (s *Set) removePods(ctx context.Context) error {
	var errs []error
	now := int64(0)
	if s.controlled {
		errs = append(errs, s.removeControllers(ctx))
	}
	errs = append(errs, s.client.CoreV1().Pods(s.namespace).DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &now}, metav1.ListOptions{}))
	return errors.Join(append(errs, s.awaitDetached(ctx))...)
}

// removeControllers deletes what would make pods again.
func (s *Set) removeControllers(ctx context.Context) error {
	policy := metav1.DeletePropagationBackground
	o, all := metav1.DeleteOptions{PropagationPolicy: &policy}, metav1.ListOptions{}
	return errors.Join(
		s.client.AppsV1().Deployments(s.namespace).DeleteCollection(ctx, o, all), s.client.AppsV1().ReplicaSets(s.namespace).DeleteCollection(ctx, o, all),
		s.client.AppsV1().StatefulSets(s.namespace).DeleteCollection(ctx, o, all), s.client.BatchV1().Jobs(s.namespace).DeleteCollection(ctx, o, all),
	)
}

func (s *Set) awaitDetached(ctx context.Context) error {
	var left int
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, detachTimeout, true, func(ctx context.Context) (bool, error) {
		own, err := s.Attachments(ctx)
		if err != nil {
			return false, nil // asked again; the time-out tells if it goes on
		}
		left = len(own)
		return left == 0, nil
	})
	if err != nil {
		return fmt.Errorf("wait for volumes of driver %q to be detached: want none, got %d after %s: %w", s.driver, left, detachTimeout, err)
	}
	return nil
}
