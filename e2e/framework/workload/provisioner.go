package workload

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// provisionEvery is the time between two looks at the namespace's claims.
const provisionEvery = 250 * time.Millisecond

// provisioner makes volumes for the claims of a set's StorageClass, in the place of an external-provisioner: what is tested is attaching, not making.
type provisioner struct {
	stop context.CancelFunc
	done chan struct{}
	last error // of the last look; the set's lock guards it
}

// class makes the set's StorageClass when it is first asked for, and starts the provisioner unless external-provisioner runs. Volumes are bound at once: a
// claim that waits for its first consumer would be counted by the scheduler under a handle that it makes up.
func (s *Set) class(ctx context.Context) (string, error) {
	s.mu.Lock()
	classed := s.classed
	s.mu.Unlock()
	if classed {
		return s.scope, nil
	}
	mode, policy := storagev1.VolumeBindingImmediate, corev1.PersistentVolumeReclaimRetain
	class := &storagev1.StorageClass{
		ObjectMeta:  metav1.ObjectMeta{Name: s.scope, Labels: map[string]string{ScopeLabel: s.scope}},
		Provisioner: s.driver, VolumeBindingMode: &mode, ReclaimPolicy: &policy,
	}
	if s.Dynamic != nil {
		policy, class.Parameters = corev1.PersistentVolumeReclaimDelete, s.Dynamic.Parameters
	}
	err := s.Record("create", "storageclass", s.scope, "", func() error {
		_, err := s.client.StorageV1().StorageClasses().Create(ctx, class, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return "", fmt.Errorf("make StorageClass %q: %w", s.scope, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.classed = true
	if s.Dynamic == nil {
		life, stop := context.WithCancel(context.WithoutCancel(ctx))
		s.provisioner = &provisioner{stop: stop, done: make(chan struct{})}
		go s.provision(life, s.provisioner)
	}
	return s.scope, nil
}

// provision looks at claims and volumes until ctx ends.
func (s *Set) provision(ctx context.Context, p *provisioner) {
	defer close(p.done)
	for {
		err := errors.Join(s.provideVolumes(ctx), s.reclaimVolumes(ctx))
		if ctx.Err() != nil {
			return
		}
		s.mu.Lock()
		p.last = err
		s.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-time.After(provisionEvery):
		}
	}
}

// provideVolumes makes a volume for each claim that has none.
func (s *Set) provideVolumes(ctx context.Context) error {
	claims, err := s.client.CoreV1().PersistentVolumeClaims(s.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list claims: %w", err)
	}
	var errs []error
	for _, c := range claims.Items {
		if c.Spec.VolumeName != "" || c.DeletionTimestamp != nil || c.Spec.StorageClassName == nil || *c.Spec.StorageClassName != s.scope {
			continue
		}
		if err := s.provideVolume(ctx, &c); err != nil && !apierrors.IsAlreadyExists(err) {
			errs = append(errs, fmt.Errorf("make a volume for claim %q: %w", c.Name, err))
		}
	}
	return errors.Join(errs...)
}

func (s *Set) provideVolume(ctx context.Context, c *corev1.PersistentVolumeClaim) error {
	name := s.scope + "-" + string(c.UID)
	if s.knows(name) {
		return nil // made already; the controller manager binds it
	}
	if err := s.backend.AddVolume(ctx, name, "", ""); err != nil {
		return err
	}
	pv := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{ScopeLabel: s.scope}},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: c.Spec.Resources.Requests, AccessModes: c.Spec.AccessModes, StorageClassName: s.scope,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource:        corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: s.driver, VolumeHandle: name}},
			ClaimRef:                      &corev1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: c.Namespace, Name: c.Name, UID: c.UID},
		},
	}
	err := s.Record("create", "persistentvolume", name, "", func() error {
		_, err := s.client.CoreV1().PersistentVolumes().Create(ctx, pv, metav1.CreateOptions{})
		return err
	})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handles, s.pvs = append(s.handles, name), append(s.pvs, name)
	s.made[name] = true
	return nil
}

func (s *Set) knows(volume string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.made[volume]
}

// reclaimVolumes deletes volumes whose claim is gone. The attacher's finalizer keeps each until it is detached; the backend keeps it until Remove.
func (s *Set) reclaimVolumes(ctx context.Context) error {
	volumes, err := s.client.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{LabelSelector: ScopeLabel + "=" + s.scope})
	if err != nil {
		return fmt.Errorf("list volumes: %w", err)
	}
	var errs []error
	for _, v := range volumes.Items {
		if !s.knows(v.Name) || v.Status.Phase != corev1.VolumeReleased || v.DeletionTimestamp != nil {
			continue
		}
		err := s.Record("delete", "persistentvolume", v.Name, "", func() error {
			return s.client.CoreV1().PersistentVolumes().Delete(ctx, v.Name, metav1.DeleteOptions{})
		})
		if err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("delete volume %q: %w", v.Name, err))
		}
	}
	return errors.Join(errs...)
}

// endProvisioner stops it; what it made stays.
func (s *Set) endProvisioner() {
	s.mu.Lock()
	p := s.provisioner
	s.mu.Unlock()
	if p != nil {
		p.stop()
		<-p.done
	}
}

// unprovided is why claims may have no volume, nil if the provisioner works: then a wait that was in vain is the harness's own failure.
func (s *Set) unprovided() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.provisioner == nil || s.provisioner.last == nil {
		return nil
	}
	return fmt.Errorf("the harness's provisioner: %w", s.provisioner.last)
}
