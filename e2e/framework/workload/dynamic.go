package workload

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"headroom/e2e/framework/history"
)

// Dynamic says that external-provisioner makes the volumes of claims, and deletes them.
type Dynamic struct {
	// Parameters are those of the StorageClass.
	Parameters map[string]string
}

const (
	// provisionTimeout bounds the time from a claim to its volume: external-provisioner gives CreateVolume 10 s, and asks again after 1 s, 2 s, 4 s and so on.
	provisionTimeout = 60 * time.Second
	// reclaimTimeout bounds the time from the end of all claims to that of their volumes, which goes the same way.
	reclaimTimeout = 60 * time.Second
	// dynamicEvery is the time between two looks at claims or volumes.
	dynamicEvery = 100 * time.Millisecond
)

// Reasons of the events by which external-provisioner tells what failed.
const (
	reasonCreateFailed = "ProvisioningFailed"
	reasonDeleteFailed = "VolumeFailedDelete"
)

// ProvisionError is a claim that got no volume, or a volume that was not deleted after its claim.
type ProvisionError struct {
	// Boundary is the driver, whose call failed, or external-provisioner, which made none.
	Boundary history.Boundary
	Err      error
}

func (e *ProvisionError) Error() string { return e.Err.Error() }
func (e *ProvisionError) Unwrap() error { return e.Err }

// claimed makes a claim and waits for the volume that external-provisioner makes for it.
func (s *Set) claimed(ctx context.Context, name string) (Volume, error) {
	spec, err := s.claimSpec(ctx)
	if err != nil {
		return Volume{}, err
	}
	claims := s.client.CoreV1().PersistentVolumeClaims(s.namespace)
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{ScopeLabel: s.scope}}, Spec: spec}
	err = s.Record("create", "persistentvolumeclaim", s.namespace+"/"+name, "", func() error {
		claim, err = claims.Create(ctx, claim, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return Volume{}, fmt.Errorf("make claim %q: %w", name, err)
	}
	within := s.stretched(provisionTimeout)
	var last error
	err = wait.PollUntilContextTimeout(ctx, dynamicEvery, within, true, func(ctx context.Context) (bool, error) {
		c, err := claims.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			if ctx.Err() == nil {
				last = err
			}
			return false, nil
		}
		claim, last = c, nil
		return c.Status.Phase == corev1.ClaimBound && c.Spec.VolumeName != "", nil
	})
	if err != nil {
		return Volume{}, fmt.Errorf("wait for claim %q within %s: want it Bound, got %q: %w", name, within, claim.Status.Phase, errors.Join(err, last, s.unmade(ctx)))
	}
	pv, err := s.client.CoreV1().PersistentVolumes().Get(ctx, claim.Spec.VolumeName, metav1.GetOptions{})
	if err != nil {
		return Volume{}, fmt.Errorf("read the volume of claim %q: %w", name, err)
	}
	if pv.Spec.CSI == nil {
		return Volume{}, fmt.Errorf("volume %q of claim %q: want one of driver %q, got none of CSI", pv.Name, name, s.driver)
	}
	return Volume{Claim: claim, Handle: pv.Spec.CSI.VolumeHandle}, nil
}

// unmade is why a claim of the set has no volume, nil when all have one or Headroom makes them itself. It looks at the API, also after ctx has ended.
func (s *Set) unmade(ctx context.Context) error {
	if s.Dynamic == nil || s.namespace == "" {
		return nil
	}
	ctx = context.WithoutCancel(ctx)
	claims, err := s.client.CoreV1().PersistentVolumeClaims(s.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list claims: %w", err)
	}
	for _, c := range claims.Items {
		if c.Spec.VolumeName == "" && c.DeletionTimestamp == nil && c.Spec.StorageClassName != nil && *c.Spec.StorageClassName == s.scope {
			return s.blame(ctx, fmt.Sprintf("claim %q has no volume", c.Name), "CreateVolume", s.namespace, c.Name, reasonCreateFailed)
		}
	}
	return nil
}

// blame is a ProvisionError about an object. Of a call that failed external-provisioner writes an event with the answer: then it is the driver that fails.
func (s *Set) blame(ctx context.Context, what, call, namespace, object, reason string) error {
	events, err := s.client.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("%s; list events: %w", what, err)
	}
	var told *corev1.Event
	for i, e := range events.Items {
		if e.InvolvedObject.Name == object && e.Reason == reason && (told == nil || told.LastTimestamp.Time.Before(e.LastTimestamp.Time)) {
			told = &events.Items[i]
		}
	}
	switch {
	case told == nil:
		return &ProvisionError{history.Provisioner, fmt.Errorf("%s, and external-provisioner tells of no %s that failed\n  try: its log, logs/csi-provisioner@%s.log", what, call, s.driver)}
	case strings.Contains(told.Message, "code = DeadlineExceeded"):
		return &ProvisionError{history.Driver, fmt.Errorf("%s: %s of driver %q does not answer within 10s, after which external-provisioner gives up (%s)\n"+
			"  try: the driver's log, logs/driver-controller@%s.log; for a debugger, a driver with static volumes", what, call, s.driver, told.Message, s.driver)}
	case strings.Contains(told.Message, "rpc error:"):
		return &ProvisionError{history.Driver, fmt.Errorf("%s: %s of driver %q fails: %s\n  try: the driver's log, logs/driver-controller@%s.log; volumes.parameters of its definition",
			what, call, s.driver, told.Message, s.driver)}
	}
	return &ProvisionError{history.Provisioner, fmt.Errorf("%s: external-provisioner says: %s\n  try: its log, logs/csi-provisioner@%s.log; volumes.parameters of the driver's definition",
		what, told.Message, s.driver)}
}

// Reclaim deletes pods and claims, and waits until external-provisioner has deleted the volumes. One that stays is a *ProvisionError. It does nothing where
// Headroom makes the volumes itself, and nothing the second time.
func (s *Set) Reclaim(ctx context.Context) error {
	if s.Dynamic == nil || s.namespace == "" {
		return nil
	}
	s.mu.Lock()
	classed := s.classed
	s.mu.Unlock()
	if !classed {
		return nil
	}
	if err := s.removePods(ctx); err != nil {
		return err
	}
	claims := s.client.CoreV1().PersistentVolumeClaims(s.namespace)
	if err := claims.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		return fmt.Errorf("delete claims: %w", err)
	}
	within := s.stretched(reclaimTimeout)
	var left []corev1.PersistentVolume
	var last error
	err := wait.PollUntilContextTimeout(ctx, dynamicEvery, within, true, func(ctx context.Context) (bool, error) {
		found, err := s.provisioned(ctx)
		if err != nil {
			if ctx.Err() == nil {
				last = err
			}
			return false, nil
		}
		left, last = found, nil
		return len(left) == 0, nil
	})
	switch {
	case err == nil:
		return nil
	case len(left) == 0:
		return fmt.Errorf("wait for volumes to be deleted: %w", errors.Join(err, last))
	}
	pv := left[0]
	what := fmt.Sprintf("want no volume left %s after its claim, got %d, such as %q", within, len(left), pv.Name)
	return s.blame(context.WithoutCancel(ctx), what, "DeleteVolume", metav1.NamespaceDefault, pv.Name, reasonDeleteFailed)
}

// provisioned lists the PersistentVolumes that external-provisioner made for the set, and remembers their handles.
func (s *Set) provisioned(ctx context.Context) ([]corev1.PersistentVolume, error) {
	all, err := s.client.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list volumes: %w", err)
	}
	var own []corev1.PersistentVolume
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, pv := range all.Items {
		if pv.Spec.StorageClassName != s.scope || pv.Spec.CSI == nil {
			continue
		}
		own = append(own, pv)
		if !s.made[pv.Name] {
			s.made[pv.Name] = true
			s.handles = append(s.handles, pv.Spec.CSI.VolumeHandle)
		}
	}
	return own, nil
}

// forceReclaim takes away the PersistentVolumes that are left, whatever keeps them, so that the next specs do not find them. In the backend the volumes go by
// their handles.
func (s *Set) forceReclaim(ctx context.Context) error {
	left, err := s.provisioned(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, pv := range left {
		_, err := s.client.CoreV1().PersistentVolumes().Patch(ctx, pv.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		errs = append(errs, err, s.client.CoreV1().PersistentVolumes().Delete(ctx, pv.Name, metav1.DeleteOptions{}))
	}
	for i, err := range errs {
		if apierrors.IsNotFound(err) {
			errs[i] = nil
		}
	}
	return errors.Join(errs...)
}
