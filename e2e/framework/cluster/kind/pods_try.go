package kind

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"headroom/drivers"
	"headroom/drivers/pods"
	"headroom/e2e/framework/cluster"
)

// trial is the id and the name of a driver that is never started.
const trial = "trial"

// pullTimeout bounds the wait for nodes to pull a driver's images.
const pullTimeout = 10 * time.Minute

// tryPods looks whether the manifests of definitions can be applied, and has the nodes pull their images, before any spec needs them: a spec would count the
// time as the driver's, and each would fail anew.
func (c *Cluster) tryPods(ctx context.Context, s *steps) error {
	all, err := c.podDefinitions()
	if err != nil {
		return err
	}
	for name, def := range all {
		if err := s.step("its manifests", func() error { return c.tryOne(ctx, s, name, def) }); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) tryOne(ctx context.Context, s *steps, definition string, def *drivers.Definition) (err error) {
	r, err := c.renderPods(ctx, trial, trial, definition)
	if err != nil {
		return err
	}
	for _, what := range r.Replaced {
		s.say("not applied: %s", what)
	}
	defer func() { err = errors.Join(err, c.removeTrial(context.WithoutCancel(ctx))) }()
	if err := c.dryRun(ctx, r.Objects); err != nil {
		return err
	}
	pulled, err := def.PulledImages()
	if err != nil || len(pulled) == 0 {
		return err
	}
	for _, o := range r.Objects {
		if k := o.GetKind(); o.File != "" && (k == "ServiceAccount" || k == "Secret") {
			if err := c.createObject(ctx, o, nil); err != nil {
				return err
			}
		}
	}
	return c.pull(ctx, r.Objects, pulled)
}

// dryRun makes the namespace, and asks the API server of all other objects whether it would take them.
func (c *Cluster) dryRun(ctx context.Context, objects []pods.Object) error {
	if err := c.createObject(ctx, objects[0], nil); err != nil {
		return err
	}
	var errs []error
	for _, o := range objects[1:] {
		errs = append(errs, c.createObject(ctx, o, []string{metav1.DryRunAll}))
	}
	return errors.Join(errs...)
}

// removeTrial takes the trial's namespace away, and waits until it is gone: the run's history would see it go otherwise.
func (c *Cluster) removeTrial(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	none := int64(0)
	names := c.client.CoreV1().Namespaces()
	errs := []error{
		c.client.CoreV1().Pods(namespaceOf(trial)).DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &none}, metav1.ListOptions{}),
		unlessGone(names.Delete(ctx, namespaceOf(trial), metav1.DeleteOptions{})),
	}
	return errors.Join(append(errs, poll(ctx, "the trial's namespace to be gone", func() error {
		_, err := names.Get(ctx, namespaceOf(trial), metav1.GetOptions{})
		if err == nil {
			return errors.New("it is still there")
		}
		return unlessGone(err)
	}))...)
}

// pull has every node pull the images, with the rights of the workloads that name them. The pods run nothing.
func (c *Cluster) pull(ctx context.Context, objects []pods.Object, images []string) error {
	for _, o := range objects {
		spec, ok := podSpecOf(o)
		if !ok {
			continue
		}
		var wanted []string
		for _, container := range slices.Concat(spec.InitContainers, spec.Containers) {
			if slices.Contains(images, container.Image) && !slices.Contains(wanted, container.Image) {
				wanted = append(wanted, container.Image)
			}
		}
		if len(wanted) == 0 {
			continue
		}
		for _, node := range append([]string{c.controlPlane()}, c.Workers...) {
			if err := c.makePuller(ctx, o, spec, node, wanted); err != nil {
				return err
			}
		}
	}
	ctx, cancel := context.WithTimeout(ctx, pullTimeout)
	defer cancel()
	return poll(ctx, "the nodes to pull the driver's images", func() error {
		all, err := c.client.CoreV1().Pods(namespaceOf(trial)).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range all.Items {
			if err := pullState(&all.Items[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

// podSpecOf is the pods' of a workload.
func podSpecOf(o pods.Object) (corev1.PodSpec, bool) {
	var w struct {
		Spec struct {
			Template struct {
				Spec corev1.PodSpec `json:"spec"`
			} `json:"template"`
		} `json:"spec"`
	}
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &w)
	return w.Spec.Template.Spec, err == nil && len(w.Spec.Template.Spec.Containers) > 0
}

// makePuller makes a pod that has a node pull images. Its command is in none of them: no container starts, and each is pulled for.
func (c *Cluster) makePuller(ctx context.Context, o pods.Object, spec corev1.PodSpec, node string, images []string) error {
	off := false
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "pull-"}, Spec: corev1.PodSpec{
		NodeName: node, RestartPolicy: corev1.RestartPolicyNever, HostNetwork: true, ServiceAccountName: spec.ServiceAccountName, ImagePullSecrets: spec.ImagePullSecrets,
		AutomountServiceAccountToken: &off, EnableServiceLinks: &off, Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
	}}
	for i, image := range images {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{
			Name: fmt.Sprintf("image-%d", i), Image: image, ImagePullPolicy: corev1.PullIfNotPresent, Command: []string{"/headroom/pull-only"},
		})
	}
	// The service account may be one that the namespace gets by itself, a little later.
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	return poll(ctx, "a pod that pulls the images of "+o.String(), func() error {
		_, err := c.client.CoreV1().Pods(namespaceOf(trial)).Create(ctx, pod, metav1.CreateOptions{})
		if apierrors.IsInvalid(err) {
			return &permanent{refused(o, err)}
		}
		return err
	})
}

// pullState is nil once all images of a pod are on its node. An image that cannot be pulled is no failure of the driver, which never ran: its name may be wrong or
// its registry out of reach, and a node cannot tell these apart for sure.
func pullState(pod *corev1.Pod) error {
	if len(pod.Status.ContainerStatuses) < len(pod.Spec.Containers) {
		return fmt.Errorf("pod %s on node %s is %s", pod.Name, pod.Spec.NodeName, pod.Status.Phase)
	}
	for _, s := range pod.Status.ContainerStatuses {
		w := s.State.Waiting
		if w == nil {
			continue
		}
		switch w.Reason {
		case "", "ContainerCreating", "PodInitializing":
			return fmt.Errorf("node %s pulls image %s", pod.Spec.NodeName, s.Image)
		case "InvalidImageName":
			return &permanent{&cluster.InputError{Err: fmt.Errorf("image %q: %s", s.Image, w.Message), Remedy: "correct its name in the driver's manifests"}}
		case "ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "RegistryUnavailable", "ImageInspectError":
			return &permanent{&cluster.EnvironmentError{
				Op: fmt.Sprintf("pull the driver's image %q on node %s", s.Image, pod.Spec.NodeName), Err: fmt.Errorf("%s: %s", w.Reason, w.Message),
				Remedy: "give it in pods.images as an archive (docker save), correct its name in the manifests, or give the nodes a registry that has it",
			}}
		}
	}
	return nil
}
