package kind

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"headroom/drivers"
	"headroom/e2e/framework/cluster"
)

// lentLabel marks a worker that is lent.
const lentLabel = "headroom.dev/lent"

// Reserve lends workers, all or none, so that two who each need all of them never wait for each other. It waits while others have them, and those who come
// later wait behind it: otherwise who needs one would always be before who needs two. What the topology can never give is a *cluster.UnsupportedError.
func (c *Cluster) Reserve(ctx context.Context, specs []cluster.NodeSpec) ([]string, error) {
	if err := c.canLend(specs); err != nil || len(specs) == 0 {
		return nil, err
	}
	names, err := c.reserve(ctx, specs)
	return names, cluster.Environment("reserve nodes", err)
}

func (c *Cluster) reserve(ctx context.Context, specs []cluster.NodeSpec) ([]string, error) {
	queue, err := os.OpenFile(filepath.Join(c.dir(), "lend.queue"), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	defer queue.Close() // which lets the next one be first
	for first := false; ; {
		if !first {
			err := unix.Flock(int(queue.Fd()), unix.LOCK_EX|unix.LOCK_NB)
			if err != nil && !errors.Is(err, unix.EWOULDBLOCK) {
				return nil, err
			}
			first = err == nil
		}
		if first {
			if names, err := c.lend(ctx, specs); err != nil || names != nil {
				return names, err
			}
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for %d free workers: %w", len(specs), context.Cause(ctx))
		case <-time.After(pollInterval):
		}
	}
}

// canLend says what the topology can never give.
func (c *Cluster) canLend(specs []cluster.NodeSpec) error {
	if len(specs) > len(c.Workers) {
		return &cluster.UnsupportedError{Provider: "kind", Why: fmt.Sprintf("it takes %d nodes, and topology %s has %d workers", len(specs), c.Topology, len(c.Workers))}
	}
	for _, s := range specs {
		if s.Zone != "" {
			return &cluster.UnsupportedError{Provider: "kind", Why: "it takes zones, which kind's nodes do not have"}
		}
	}
	return nil
}

// lend takes free workers for the specs; nil when there are not enough.
func (c *Cluster) lend(ctx context.Context, specs []cluster.NodeSpec) ([]string, error) {
	lock, err := os.OpenFile(filepath.Join(c.dir(), "lend.lock"), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	defer lock.Close() // which unlocks it
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return nil, err
	}
	free, err := c.free(ctx)
	if err != nil {
		return nil, err
	}
	names := []string{}
	for _, s := range specs {
		i := slices.IndexFunc(free, func(n corev1.Node) bool { return s.Kubelet == "" || c.Kubelets[n.Name] == s.Kubelet })
		if i < 0 {
			return nil, nil
		}
		names = append(names, free[i].Name)
		free = slices.Delete(free, i, i+1)
	}
	for i, name := range names {
		if err := c.label(ctx, name, map[string]any{lentLabel: "true"}); err != nil {
			for _, taken := range names[:i] {
				err = errors.Join(err, c.label(ctx, taken, map[string]any{lentLabel: nil}))
			}
			return nil, err
		}
	}
	return names, nil
}

func (c *Cluster) free(ctx context.Context) ([]corev1.Node, error) {
	all, err := c.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: "!" + lentLabel})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all.Items, func(n corev1.Node) bool { return !slices.Contains(c.Workers, n.Name) }), nil
}

// label changes labels of a node; nil takes one away.
func (c *Cluster) label(ctx context.Context, node string, labels map[string]any) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": labels}})
	if err != nil {
		return err
	}
	if _, err := c.client.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("label node %q: %w", node, err)
	}
	return nil
}

// AddNode puts drivers on a worker that Reserve lent, and returns once each is registered with its kubelet.
func (c *Cluster) AddNode(ctx context.Context, s cluster.NodeSpec) error {
	labels := map[string]any{}
	for key, value := range s.Labels {
		labels[key] = value
	}
	definitions := map[string]*drivers.Definition{}
	for _, driver := range s.Drivers {
		set, def, err := c.putDriver(ctx, driver, s.Limit)
		if err != nil {
			return cluster.Environment("add node "+s.Name, err)
		}
		labels[driverNode+idOf(driver)], definitions[driver] = set, def
	}
	if err := c.label(ctx, s.Name, labels); err != nil {
		return cluster.Environment("add node "+s.Name, err)
	}
	for _, driver := range s.Drivers {
		def := definitions[driver]
		failure := &cluster.DriverError{Driver: driver, Node: s.Name}
		if err := c.awaitPod(ctx, def.NodeStart(), podsOf(idOf(driver), nodePart), failure, s.Name); err != nil {
			return cluster.Environment("add node "+s.Name, err)
		}
		if err := c.awaitRegistered(ctx, def.NodeStart(), s.Name, driver); err != nil {
			return cluster.Environment("add node "+s.Name, err)
		}
		if !def.ControllerApart() {
			if err := c.startController(ctx, driver, def.NodeStart()); err != nil {
				return cluster.Environment("add node "+s.Name, err)
			}
		}
	}
	return nil
}

// awaitRegistered waits until the kubelet has taken the driver: it writes the CSINode entry before it says so. A driver whose entry does not come
// failed the kubelet's questions, or ended when its pod had been ready for a moment: a container that runs is ready.
func (c *Cluster) awaitRegistered(ctx context.Context, start drivers.Start, node, driver string) error {
	limited, cancel := context.WithTimeout(ctx, c.driverTimeout(start))
	defer cancel()
	failure := &cluster.DriverError{Driver: driver, Node: node}
	err := poll(limited, "the kubelet to register the driver", func() error {
		names, err := c.registered(limited, node)
		if err != nil || slices.Contains(names, driver) {
			return err
		}
		pods, err := c.podsOn(limited, idOf(driver), node)
		for i := range pods {
			if err := c.failed(limited, &pods[i], failure); err != nil {
				return err
			}
		}
		return errors.Join(fmt.Errorf("want driver %q in CSINode %q, got %q", driver, node, names), err)
	})
	if err != nil && failure.Err == nil && ctx.Err() == nil {
		failure.Err, err = err, failure
	}
	return err
}

// podsOn are the pods of a driver, by its id, on a node.
func (c *Cluster) podsOn(ctx context.Context, id, node string) ([]corev1.Pod, error) {
	all, err := c.client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{LabelSelector: podsOf(id, nodePart), FieldSelector: "spec.nodeName=" + node})
	if err != nil {
		return nil, err
	}
	return all.Items, nil
}

// registered lists the drivers in a node's CSINode.
func (c *Cluster) registered(ctx context.Context, node string) ([]string, error) {
	n, err := c.client.StorageV1().CSINodes().Get(ctx, node, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	var names []string
	for _, d := range n.Spec.Drivers {
		names = append(names, d.Name)
	}
	return names, nil
}

// RemoveNode takes drivers off a worker, waits until their pods are gone and the kubelet has forgotten them, and makes it free again. A worker that is
// free is left alone.
func (c *Cluster) RemoveNode(ctx context.Context, name string) error {
	return cluster.Environment("remove node "+name, c.takeBack(ctx, name))
}

func (c *Cluster) takeBack(ctx context.Context, name string) error {
	node, err := c.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return unlessGone(err)
	}
	if _, lent := node.Labels[lentLabel]; !lent {
		return nil
	}
	ofDrivers, rest := map[string]any{}, map[string]any{}
	for key := range node.Labels {
		switch {
		case strings.HasPrefix(key, driverNode):
			ofDrivers[key] = nil
		case strings.HasPrefix(key, "headroom.dev/"):
			rest[key] = nil
		}
	}
	errs := []error{c.readRejections(ctx, name)}
	for key := range ofDrivers {
		errs = append(errs, c.saveLogs(ctx, driverLabel+"="+strings.TrimPrefix(key, driverNode)))
	}
	errs = append(errs, c.label(ctx, name, ofDrivers))
	for key := range ofDrivers {
		errs = append(errs, c.awaitForgotten(ctx, name, strings.TrimPrefix(key, driverNode)))
	}
	// A worker that did not come clean is not lent again.
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return c.label(ctx, name, rest)
}

// awaitForgotten waits until a driver's pod on a node is gone and its entry has left the CSINode.
func (c *Cluster) awaitForgotten(ctx context.Context, node, id string) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	return poll(ctx, "a driver to leave node "+node, func() error {
		pods, err := c.podsOn(ctx, id, node)
		if err == nil && len(pods) > 0 {
			err = fmt.Errorf("want no pod of it, got %d", len(pods))
		}
		if err != nil {
			return err
		}
		names, err := c.registered(ctx, node)
		if i := slices.IndexFunc(names, func(n string) bool { return idOf(n) == id }); err == nil && i >= 0 {
			err = fmt.Errorf("want it gone from CSINode %q, got %q", node, names[i])
		}
		return err
	})
}
