package kind

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"headroom/drivers"
	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/cluster/kind/sidecar"
	"headroom/fixtures/manifests"
)

// driverLabel marks a driver's pods, driverNode the nodes that shall run it.
const (
	driverLabel = "headroom.dev/driver"
	driverNode  = "driver.headroom.dev/"
)

// Containers of a driver's pods. A failure of the driver's own is the driver's, and so is the gate's when it says so; no other is.
const (
	driverContainer      = "driver"
	gateContainer        = "gate"
	attacherContainer    = "attacher"
	provisionerContainer = "provisioner"
)

// idOf is short, where a driver's name may have 63 characters.
func idOf(driver string) string {
	sum := sha256.Sum256([]byte(driver))
	return hex.EncodeToString(sum[:5])
}

// Backend reaches the quota backend's control interface through the run directory.
func (c *Cluster) Backend() (string, *http.Client) {
	return "http://backend", &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dialUnix(ctx, c.controlSocket()) },
	}}
}

// AddDriver starts a driver's controller and attacher, in one pod on the control plane's node. Where its nodes serve controller calls, the first node does.
func (c *Cluster) AddDriver(ctx context.Context, s cluster.DriverSpec) (err error) {
	op := "add driver " + s.Name
	if def, _, err := c.load(s.Definition); err == nil && def.HasPods() {
		return c.addPods(ctx, s)
	}
	text, def, err := c.driverManifest(s, ".sock")
	if err != nil {
		return cluster.Environment(op, err)
	}
	defer func() {
		if err != nil {
			err = cluster.Environment(op, errors.Join(err, c.RemoveDriver(context.WithoutCancel(ctx), s.Name)))
		}
	}()
	if !def.HasController() {
		return errors.Join(c.makeSockets(s.Name), c.apply(ctx, text))
	}
	if err := c.apply(ctx, text); err != nil {
		return err
	}
	return c.awaitPod(ctx, def.ControllerStart(), podsOf(idOf(s.Name), controllerPart), &cluster.DriverError{Driver: s.Name}, "")
}

// driverManifest is the part of a driver that it has once a cluster, with its definition. suffix is what follows a node's name in the path of its driver's
// socket, where the nodes serve controller calls.
func (c *Cluster) driverManifest(s cluster.DriverSpec, suffix string) ([]byte, *drivers.Definition, error) {
	def, reference, err := c.load(s.Definition)
	if err != nil {
		return nil, nil, err
	}
	values := c.values(def, s.Name, s.Definition, reference)
	values.NodeSuffix = suffix
	if def.ControllerApart() {
		controller, err := def.ControllerCommand(c.instance(s.Name))
		if err != nil {
			return nil, nil, err
		}
		values.Controller = words(controller)
	}
	text, err := manifests.Render("driver.yaml", values)
	return text, def, err
}

// awaitPod waits until the one pod that the selector finds, on a node if one is named, is ready. When the driver's container in it has ended, that is
// failure, filled in; whatever else keeps the pod from being ready is the environment's. start says how long the driver may take.
func (c *Cluster) awaitPod(ctx context.Context, start drivers.Start, selector string, failure *cluster.DriverError, node string) error {
	ctx, cancel := context.WithTimeout(ctx, c.driverTimeout(start))
	defer cancel()
	options := metav1.ListOptions{LabelSelector: selector}
	if node != "" {
		options.FieldSelector = "spec.nodeName=" + node
	}
	return poll(ctx, "pod "+selector, func() error {
		pods, err := c.client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, options)
		if err != nil {
			return err
		}
		if len(pods.Items) != 1 {
			return fmt.Errorf("want one pod, got %d", len(pods.Items))
		}
		if err := c.failed(ctx, &pods.Items[0], failure); err != nil {
			return err
		}
		return podNotReady(&pods.Items[0])
	})
}

// failed is failure, filled in, when the driver in a pod has ended, or is another than its definition says or not ready in time, which no waiting changes.
func (c *Cluster) failed(ctx context.Context, pod *corev1.Pod, failure *cluster.DriverError) error {
	if container, why := driverFailure(pod); why != "" {
		failure.Err = fmt.Errorf("%s%s", why, c.tail(ctx, pod, container))
		return &permanent{failure}
	}
	// Where the driver never ran, for want of its image, the gate had nobody to wait for.
	if _, code := ended(pod, gateContainer); code == sidecar.CodeStranger && !kept(pod, driverIn(pod)) {
		failure.Err = fmt.Errorf("its gate gave it up%s", c.tail(ctx, pod, gateContainer))
		return &permanent{failure}
	}
	return nil
}

// kept says whether a container of a pod has been kept from running so far.
func kept(pod *corev1.Pod, container string) bool {
	for _, s := range pod.Status.ContainerStatuses {
		if s.Name == container {
			return s.State.Running == nil && s.State.Terminated == nil && s.LastTerminationState.Terminated == nil
		}
	}
	return false // it is in another pod
}

// podTrouble says what keeps pods from being ready, and how their containers ended; nil when nothing does.
func (c *Cluster) podTrouble(ctx context.Context, selector string) error {
	pods, err := c.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil || len(pods.Items) == 0 {
		return errors.Join(err, fmt.Errorf("no pod %s yet", selector))
	}
	var errs []error
	for i := range pods.Items {
		pod := &pods.Items[i]
		errs = append(errs, podNotReady(pod))
		for _, container := range pod.Spec.Containers {
			if why, _ := ended(pod, container.Name); why != "" {
				errs = append(errs, fmt.Errorf("container %s: %s%s", container.Name, why, c.tail(ctx, pod, container.Name)))
			}
		}
	}
	return errors.Join(errs...)
}

// ended says how a container of a pod ended, with its exit code; "" when it did not.
func ended(pod *corev1.Pod, container string) (why string, code int32) {
	for _, s := range pod.Status.ContainerStatuses {
		for _, state := range []corev1.ContainerState{s.State, s.LastTerminationState} {
			if t := state.Terminated; s.Name == container && t != nil {
				return fmt.Sprintf("it ended by itself (%s, exit code %d)", t.Reason, t.ExitCode), t.ExitCode
			}
		}
	}
	return "", 0
}

// podNotReady says why a pod is not ready; nil when it is.
func podNotReady(pod *corev1.Pod) error {
	for _, cond := range pod.Status.Conditions {
		if cond.Type == corev1.PodReady && cond.Status == corev1.ConditionTrue {
			return nil
		}
	}
	for _, s := range pod.Status.ContainerStatuses {
		if w := s.State.Waiting; w != nil && w.Message != "" {
			return fmt.Errorf("pod %s: container %s: %s: %s", pod.Name, s.Name, w.Reason, w.Message)
		}
	}
	for _, cond := range pod.Status.Conditions {
		if cond.Type == corev1.PodScheduled && cond.Status == corev1.ConditionFalse {
			return fmt.Errorf("pod %s: %s: %s", pod.Name, cond.Reason, cond.Message)
		}
	}
	return fmt.Errorf("pod %s is %s and not ready", pod.Name, pod.Status.Phase)
}

// tail is the end of a container's log, for an error.
func (c *Cluster) tail(ctx context.Context, pod *corev1.Pod, container string) string {
	lines := int64(cluster.TailLines)
	options := &corev1.PodLogOptions{Container: container, TailLines: &lines}
	for _, s := range pod.Status.ContainerStatuses {
		// One that was started again has said nothing yet.
		options.Previous = options.Previous || s.Name == container && s.State.Running != nil && s.LastTerminationState.Terminated != nil
	}
	log, err := c.client.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, options).DoRaw(ctx)
	if err != nil {
		return fmt.Sprintf("\n  its log cannot be read: %v", err)
	}
	return "\n  last lines of its log:\n    " + strings.ReplaceAll(strings.TrimSpace(string(log)), "\n", "\n    ")
}

// RemoveDriver takes a driver's objects away, and waits until its pods have closed their histories.
func (c *Cluster) RemoveDriver(ctx context.Context, name string) error {
	id := idOf(name)
	errs := []error{c.saveLogs(ctx, driverLabel+"="+id)}
	background := metav1.DeletePropagationBackground
	options := metav1.DeleteOptions{PropagationPolicy: &background}
	errs = append(errs, c.client.AppsV1().DaemonSets(namespace).DeleteCollection(ctx, options, metav1.ListOptions{LabelSelector: driverLabel + "=" + id}))
	errs = append(errs, unlessGone(c.client.AppsV1().Deployments(namespace).Delete(ctx, "controller-"+id, options)))
	errs = append(errs, c.removePods(ctx, id))
	errs = append(errs, c.awaitNoPods(ctx, driverLabel+"="+id), c.removeSockets(ctx, id))
	return cluster.Environment("remove driver "+name, errors.Join(errs...))
}

// awaitNoPods waits until no pod that the selector finds is left.
func (c *Cluster) awaitNoPods(ctx context.Context, selector string) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	return poll(ctx, "pods "+selector+" to be gone", func() error {
		pods, err := c.client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{LabelSelector: selector})
		if err == nil && len(pods.Items) > 0 {
			err = fmt.Errorf("want no pod, got %d", len(pods.Items))
		}
		return err
	})
}

// saveLogs writes the logs of pods to the run directory, which outlives them: logs/<component>.log, and logs/<node>/<pod>/<container>.log of what is none.
func (c *Cluster) saveLogs(ctx context.Context, selector string) error {
	pods, err := c.client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return err
	}
	var errs []error
	for _, pod := range pods.Items {
		ids := componentIDs(&pod)
		for _, container := range pod.Spec.Containers {
			path := filepath.Join(c.RunDir, "logs", pod.Spec.NodeName, pod.Name, container.Name+".log")
			if id := ids[container.Name]; id != "" {
				path = filepath.Join(c.RunDir, "logs", filepath.FromSlash(id)+".log")
			}
			log, err := c.client.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{Container: container.Name}).DoRaw(ctx)
			if err != nil {
				continue // a container that never started has none
			}
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				return err
			}
			errs = append(errs, os.WriteFile(path, log, 0o644))
		}
	}
	return errors.Join(errs...)
}
