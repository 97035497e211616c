// Package workload makes the pods and volumes that put load on a driver, and waits for them.
//
// Contract: everything lies in one namespace of its own, uses volumes that exist in the quota backend, and is recorded in the history before and
// after each write. Remove takes it all away again. The Kubernetes e2e framework does the waiting and builds the objects; its global state is
// confined to this package.
//
// Volumes come in two ways. Volume makes one beforehand: a volume in the backend, a PersistentVolume, and a claim bound to it. Claims that Kubernetes
// makes itself (of a StatefulSet, of a generic ephemeral volume) name the set's StorageClass, and a small provisioner of the set's own does the same for
// each as it appears. It deletes a PersistentVolume once its claim is gone; in the backend volumes stay until Remove. Where the driver has dynamic
// volumes, external-provisioner runs in its place, and plain volumes are claims of the StorageClass too.
//
// It makes no claims: whether a pod should run is the caller's business.
package workload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubernetes/test/e2e/framework"
	e2epod "k8s.io/kubernetes/test/e2e/framework/pod"
	e2epv "k8s.io/kubernetes/test/e2e/framework/pv"
	admissionapi "k8s.io/pod-security-admission/api"

	"headroom/e2e/framework/history"
)

// ScopeLabel marks every object of one spec, so that observers know whose it is.
const ScopeLabel = "headroom.dev/scope"

// Backend is where volumes must exist before they can be attached.
type Backend interface {
	AddVolume(ctx context.Context, handle, zone, secret string) error
	RemoveVolume(ctx context.Context, handle string) error
}

// Set is one spec's workload.
type Set struct {
	// Stretch says what a wait may take; nil leaves it as it is.
	Stretch func(time.Duration) time.Duration
	// Dynamic is not nil where external-provisioner makes the volumes of claims; set it before the first of them.
	Dynamic *Dynamic

	client    kubernetes.Interface
	backend   Backend
	events    *history.Writer
	scope     string
	driver    string
	namespace string

	mu      sync.Mutex
	count   int
	pvs     []string
	handles []string
	made    map[string]bool // by the provisioner, or external-provisioner
	// classed says that the StorageClass was made.
	classed bool
	// controlled says that there are pods that controllers would make again.
	controlled  bool
	provisioner *provisioner // nil until a claim needs it, and with Dynamic
}

// New makes the namespace, with its default ServiceAccount, and returns an empty set for volumes of driver.
func New(ctx context.Context, client kubernetes.Interface, backend Backend, events *history.Writer, scope, driver string) (*Set, error) {
	framework.TestContext.VerifyServiceAccount = true
	labels := map[string]string{ScopeLabel: scope, admissionapi.EnforceLevelLabel: string(admissionapi.LevelPrivileged)}
	s := In("", client, backend, events, scope, driver)
	err := s.Record("create", "namespace", scope, "", func() error {
		ns, err := framework.CreateTestingNS(ctx, scope, client, labels)
		if ns != nil {
			s.namespace = ns.Name
		}
		return err
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make a namespace for %s: %w", scope, err), s.Remove(context.WithoutCancel(ctx)))
	}
	return s, nil
}

// In is an empty set in a namespace that is there already.
func In(namespace string, client kubernetes.Interface, backend Backend, events *history.Writer, scope, driver string) *Set {
	return &Set{client: client, backend: backend, events: events, scope: scope, driver: driver, namespace: namespace, made: map[string]bool{}}
}

// Namespace is where the set's objects are.
func (s *Set) Namespace() string { return s.namespace }

// Record writes a workload event before and after do. writer is the API user when do writes an object that belongs to the product; else empty.
func (s *Set) Record(verb, resource, name, writer string, do func() error) error {
	s.mu.Lock()
	s.count++
	op := s.scope + "/" + strconv.Itoa(s.count)
	s.mu.Unlock()
	body := history.Workload{Verb: verb, Resource: resource, Name: name, Writer: writer}
	event := history.Event{Phase: history.Invoke, Op: op, Scope: s.scope, Key: verb + " " + resource + " " + name, Body: history.Encode(body)}
	s.events.Write(event)
	err := do()
	switch status := apierrors.APIStatus(nil); {
	case err == nil:
		event.Phase = history.OK
	case errors.As(err, &status) && status.Status().Code >= 400 && status.Status().Code < 500:
		event.Phase = history.Fail
	default:
		event.Phase = history.Unknown // the write may have been done
	}
	if err != nil {
		body.Error = err.Error()
		event.Body = history.Encode(body)
	}
	s.events.Write(event)
	return err
}

// Volume is a claim with a volume behind it.
type Volume struct {
	Claim  *corev1.PersistentVolumeClaim
	Handle string
}

// VolumeOptions change what a volume is; the zero value is a plain volume that attaches anywhere.
type VolumeOptions struct {
	// Handle is the CSI volume handle; empty means a new one.
	Handle string
	// Unknown leaves the volume out of the backend, which then answers that there is none.
	Unknown bool
	// Driver is the CSI driver of the volume; empty means the set's. The volumes of another are for the scheduler to look at: nobody attaches them.
	Driver string
	// Zone binds the volume to nodes of the zone, in the backend.
	Zone string
	// Secret is what the backend demands; Offered is the token that the volume's publish secret offers. No Secret object is made when both are empty.
	Secret, Offered string
}

// Volume makes a volume in the backend, a PersistentVolume and a claim bound to it. With Dynamic a plain volume is a claim that external-provisioner makes
// one for.
func (s *Set) Volume(ctx context.Context, o VolumeOptions) (Volume, error) {
	name := s.next("vol")
	if s.Dynamic != nil && o == (VolumeOptions{}) {
		return s.claimed(ctx, name)
	}
	if o.Handle == "" {
		o.Handle = name
	}
	if !o.Unknown {
		if err := s.backend.AddVolume(ctx, o.Handle, o.Zone, o.Secret); err != nil {
			return Volume{}, fmt.Errorf("make volume %q in the backend: %w", o.Handle, err)
		}
		s.mu.Lock()
		s.handles = append(s.handles, o.Handle)
		s.mu.Unlock()
	}
	class := ""
	claim := e2epv.MakePersistentVolumeClaim(e2epv.PersistentVolumeClaimConfig{Name: name, StorageClassName: &class}, s.namespace)
	claim.Labels = map[string]string{ScopeLabel: s.scope}
	claim.Spec.VolumeName = name
	source := &corev1.CSIPersistentVolumeSource{Driver: cmp.Or(o.Driver, s.driver), VolumeHandle: o.Handle}
	if o.Secret != "" || o.Offered != "" {
		if err := s.secret(ctx, name, o.Offered); err != nil {
			return Volume{}, err
		}
		source.ControllerPublishSecretRef = &corev1.SecretReference{Namespace: s.namespace, Name: name}
	}
	pv := e2epv.MakePersistentVolume(e2epv.PersistentVolumeConfig{
		Labels: map[string]string{ScopeLabel: s.scope}, Prebind: claim, PVSource: corev1.PersistentVolumeSource{CSI: source},
	})
	pv.GenerateName, pv.Name = "", name
	err := s.Record("create", "persistentvolume", name, "", func() error {
		_, err := s.client.CoreV1().PersistentVolumes().Create(ctx, pv, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return Volume{}, fmt.Errorf("make volume %q: %w", name, err)
	}
	s.mu.Lock()
	s.pvs = append(s.pvs, name)
	s.mu.Unlock()
	err = s.Record("create", "persistentvolumeclaim", s.namespace+"/"+name, "", func() error {
		claim, err = s.client.CoreV1().PersistentVolumeClaims(s.namespace).Create(ctx, claim, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return Volume{}, fmt.Errorf("make claim %q: %w", name, err)
	}
	return Volume{Claim: claim, Handle: o.Handle}, nil
}

func (s *Set) secret(ctx context.Context, name, token string) error {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{ScopeLabel: s.scope}}, StringData: map[string]string{"token": token}}
	err := s.Record("create", "secret", s.namespace+"/"+name, "", func() error {
		_, err := s.client.CoreV1().Secrets(s.namespace).Create(ctx, secret, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("make secret %q: %w", name, err)
	}
	return nil
}

// Pod makes a pod that uses the volumes and runs until it is deleted, on a node that carries all labels of selector.
func (s *Set) Pod(ctx context.Context, selector map[string]string, volumes ...Volume) (*corev1.Pod, error) {
	return s.PodOf(ctx, Template{Selector: selector, Volumes: volumes})
}

// DeletePod deletes a pod and waits until it is gone.
func (s *Set) DeletePod(ctx context.Context, name string) error {
	return s.Record("delete", "pod", s.namespace+"/"+name, "", func() error {
		return e2epod.DeletePodWithWaitByName(ctx, s.client, name, s.namespace)
	})
}

// AwaitRunning waits until a pod runs. It gives up at once when the pod has ended instead.
func (s *Set) AwaitRunning(ctx context.Context, pod *corev1.Pod, within time.Duration) error {
	within = s.stretched(within)
	err := e2epod.WaitTimeoutForPodRunningInNamespace(ctx, s.client, pod.Name, pod.Namespace, within)
	return s.explain(ctx, err, pod, "to run", within)
}

// AwaitFailed waits until a pod is Failed for a reason. It gives up at once when the pod has ended otherwise.
func (s *Set) AwaitFailed(ctx context.Context, pod *corev1.Pod, reason string, within time.Duration) error {
	within = s.stretched(within)
	err := e2epod.WaitForPodFailedReason(ctx, s.client, pod, reason, within)
	return s.explain(ctx, err, pod, "to be Failed with reason "+reason, within)
}

func (s *Set) stretched(d time.Duration) time.Duration {
	if s.Stretch == nil {
		return d
	}
	return s.Stretch(d)
}

// explain adds what the pod looks like to an error of a wait.
func (s *Set) explain(ctx context.Context, err error, pod *corev1.Pod, want string, within time.Duration) error {
	if err == nil {
		return nil
	}
	// The first line says what was waited for; the others print the whole pod.
	reason, _, _ := strings.Cut(err.Error(), "\n")
	if missing := errors.Join(s.unprovided(), s.unmade(ctx)); missing != nil {
		return fmt.Errorf("wait for pod %q %s: want it within %s: %s: %w", pod.Name, want, within, reason, missing)
	}
	p, getErr := s.client.CoreV1().Pods(pod.Namespace).Get(context.WithoutCancel(ctx), pod.Name, metav1.GetOptions{})
	if getErr != nil {
		return fmt.Errorf("wait for pod %q %s: want it within %s: %s: %w", pod.Name, want, within, reason, getErr)
	}
	return fmt.Errorf("wait for pod %q %s: want it within %s, got phase %s, reason %q, node %q, %s (%s)", pod.Name, want, within, p.Status.Phase,
		p.Status.Reason, p.Spec.NodeName, conditions(p), reason)
}

func conditions(p *corev1.Pod) string {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return fmt.Sprintf("unschedulable (%s)", c.Message)
		}
	}
	return fmt.Sprintf("message %q", p.Status.Message)
}

// Attachments lists the VolumeAttachments of the set's driver.
func (s *Set) Attachments(ctx context.Context) ([]storagev1.VolumeAttachment, error) {
	all, err := s.client.StorageV1().VolumeAttachments().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list VolumeAttachments: %w", err)
	}
	var own []storagev1.VolumeAttachment
	for _, va := range all.Items {
		if va.Spec.Attacher == s.driver {
			own = append(own, va)
		}
	}
	return own, nil
}
