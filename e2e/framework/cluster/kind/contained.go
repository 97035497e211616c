package kind

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/cluster/kind/engine"
	"headroom/e2e/framework/versions"
)

// driverNameKey is the annotation of a driver's pods that has its whole name.
const driverNameKey = "headroom.dev/driver-name"

// listTimeout bounds the wait for an API server that may be paused.
const listTimeout = 3 * time.Second

// contained are the drivers, their controllers and what stands beside those where they run, in containers of pods.
func (c *Cluster) contained(ctx context.Context) ([]cluster.Component, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	pods, err := c.client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{LabelSelector: driverLabel})
	if err != nil {
		return nil, err
	}
	var all []cluster.Component
	for _, pod := range pods.Items {
		ids := componentIDs(&pod)
		for _, each := range pod.Spec.Containers {
			if id := ids[each.Name]; id != "" && pod.DeletionTimestamp == nil && pod.Spec.NodeName != "" {
				all = append(all, &container{cluster: c, id: id, node: pod.Spec.NodeName, namespace: pod.Namespace, pod: pod.Name, name: each.Name})
			}
		}
	}
	return all, nil
}

// componentIDs are the component ids of a pod's containers, by their names. A gate is no component, and a pod of no driver has none.
func componentIDs(pod *corev1.Pod) map[string]string {
	driver, ours := pod.Annotations[driverNameKey]
	switch {
	case !ours:
		return nil
	case pod.Labels[partLabel] == nodePart:
		return map[string]string{driverIn(pod): "driver@" + pod.Spec.NodeName + "/" + driver}
	}
	return map[string]string{
		driverIn(pod): "driver-controller@" + driver, attacherContainer: "csi-attacher@" + driver, provisionerContainer: versions.ProvisionerComponent + "@" + driver,
	}
}

// container is a component that its kubelet keeps alive: it can end and be started again, but not stay away.
type container struct {
	cluster  *Cluster
	id, node string
	// namespace and pod are the pod's, name is the container's.
	namespace, pod, name string
}

func (p *container) ID() string { return p.id }

// Version is not known: the image is the run's own.
func (p *container) Version() versions.Version { return "" }

// Stop is what a kubelet does not let happen.
func (p *container) Stop(context.Context, cluster.Signal) error {
	return &cluster.UnsupportedError{Provider: "kind", Why: fmt.Sprintf("%s runs in a pod, and its kubelet starts it again as soon as it has ended", p.id)}
}

// Start waits until it runs, which is its kubelet's doing. It has one release, that of its image.
func (p *container) Start(ctx context.Context, v versions.Version) error {
	if v != "" {
		return &cluster.UnsupportedError{Provider: "kind", Why: fmt.Sprintf("%s has one release, which is in its image", p.id)}
	}
	return p.act(ctx, "", nil, "ready", func(s corev1.ContainerStatus) bool { return s.Ready })
}

// Restart ends it and waits until its kubelet has started it again.
func (p *container) Restart(ctx context.Context, how cluster.Signal) error {
	var before int32
	return p.act(ctx, "stopping", func(s corev1.ContainerStatus) []string {
		before = s.RestartCount
		return []string{"kill", "--signal", "SIG" + string(how)}
	}, "ready", func(s corev1.ContainerStatus) bool { return s.RestartCount > before && s.Ready })
}

// Pause freezes its processes.
func (p *container) Pause(ctx context.Context) error {
	return p.act(ctx, "", func(corev1.ContainerStatus) []string { return []string{"pause"} }, "paused", nil)
}

// Resume lets them go on.
func (p *container) Resume(ctx context.Context) error {
	return p.act(ctx, "", func(corev1.ContainerStatus) []string { return []string{"resume"} }, "resumed", nil)
}

// act gives the node's container runtime a command for the container, waits until its status is settled, and records the states before and after it.
func (p *container) act(
	ctx context.Context, before string, command func(corev1.ContainerStatus) []string, after string, settled func(corev1.ContainerStatus) bool,
) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	err := p.try(ctx, before, command, settled)
	if err == nil {
		err = p.cluster.record(p.id, p.node, after, "")
	}
	return cluster.Environment(after+" "+p.id, err)
}

func (p *container) try(ctx context.Context, before string, command func(corev1.ContainerStatus) []string, settled func(corev1.ContainerStatus) bool) error {
	if command != nil {
		s, err := p.status(ctx)
		if err != nil {
			return err
		}
		_, id, running := strings.Cut(s.ContainerID, "://")
		if !running {
			return fmt.Errorf("container %s of pod %s does not run", p.name, p.pod)
		}
		if before != "" {
			if err := p.cluster.record(p.id, p.node, before, ""); err != nil {
				return err
			}
		}
		args := append([]string{"exec", p.node, "ctr", "--namespace", "k8s.io", "tasks"}, command(s)...)
		if _, err := engine.Run(ctx, append(args, id)...); err != nil {
			return err
		}
	}
	if settled == nil {
		return nil
	}
	return poll(ctx, p.id+" to run", func() error {
		s, err := p.status(ctx)
		if err == nil && !settled(s) {
			err = fmt.Errorf("container %s of pod %s: ready %v, restarted %d times", p.name, p.pod, s.Ready, s.RestartCount)
		}
		return err
	})
}

// status is the container's, as its kubelet reports it.
func (p *container) status(ctx context.Context) (corev1.ContainerStatus, error) {
	pod, err := p.cluster.client.CoreV1().Pods(p.namespace).Get(ctx, p.pod, metav1.GetOptions{})
	if err != nil {
		return corev1.ContainerStatus{}, err
	}
	for _, s := range pod.Status.ContainerStatuses {
		if s.Name == p.name {
			return s, nil
		}
	}
	return corev1.ContainerStatus{}, fmt.Errorf("pod %s has no status of container %s", p.pod, p.name)
}
