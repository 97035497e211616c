package upgrade

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/history"
	"headroom/e2e/framework/versions"
)

// apiServer is the component that all writes go through.
const apiServer = "kube-apiserver"

const (
	// renewal bounds the wait for all leases after a swap. It is longer than what swap-in-time allows, so that a late one is seen and not only missed.
	renewal = 30 * time.Second
	// lookEvery is the time between two looks at the leases.
	lookEvery = 50 * time.Millisecond
	// starts is how often the start of an attacher is tried, which ends itself when its first connection takes longer than a second.
	starts = 5
)

// swap stops a component and starts it at another version, and waits until every kubelet has renewed its lease since.
func (w *walk) swap(ctx context.Context, s *step) error {
	c, err := w.part(ctx, s.component)
	if err != nil {
		return err
	}
	how := cluster.Terminate
	if s.component == apiServer {
		how = cluster.Brief
		defer w.load.hold()()
	}
	if err := c.Stop(ctx, how); err != nil {
		return cluster.Environment("stop "+s.component, err)
	}
	gone := time.Now()
	if err := start(ctx, c, s.To); err != nil {
		return err
	}
	switch {
	case s.component == apiServer:
		w.server = s.To
	case s.node != "":
		w.kubelets[s.node] = s.To
	}
	if err := w.awaitLeases(ctx, s, gone); err != nil {
		return err
	}
	if s.node == "" {
		return nil
	}
	return w.awaitNode(ctx, s.node)
}

// part is a component of the cluster.
func (w *walk) part(ctx context.Context, id string) (c cluster.Component, err error) {
	all, err := w.Cluster.Components(ctx)
	if err != nil {
		return nil, cluster.Environment("list the components", err)
	}
	for _, c := range all {
		if c.ID() == id {
			return c, nil
		}
	}
	return nil, cluster.Environment("find a component", fmt.Errorf("no component %q in this cluster", id))
}

// start starts a component at a version.
func start(ctx context.Context, c cluster.Component, v versions.Version) (err error) {
	tries := 1
	if strings.HasPrefix(c.ID(), versions.AttacherComponent) {
		tries = starts
	}
	for range tries {
		if err = c.Start(ctx, v); err == nil {
			return nil
		}
	}
	return cluster.Environment(fmt.Sprintf("start %s at %s", c.ID(), v), err)
}

// awaitLeases waits until each node's lease was renewed after a time, and records when it was first seen to be.
func (w *walk) awaitLeases(ctx context.Context, s *step, after time.Time) error {
	limited, cancel := context.WithTimeout(ctx, w.Session.Stretch(renewal))
	defer cancel()
	renewed := map[string]bool{}
	last := errors.New("not asked yet")
	for {
		leases, err := w.Client.CoordinationV1().Leases(corev1.NamespaceNodeLease).List(limited, metav1.ListOptions{})
		if err == nil {
			for _, l := range leases.Items {
				if l.Spec.RenewTime == nil || renewed[l.Name] || !l.Spec.RenewTime.After(after) {
					continue
				}
				renewed[l.Name] = true
				w.write(history.Event{Phase: history.Observed, Op: s.op(), Node: l.Name, Key: history.KeyLease})
			}
			err = fmt.Errorf("%d of %d leases renewed", len(renewed), len(w.Nodes))
		}
		if limited.Err() == nil {
			last = err
		}
		if w.all(renewed) {
			return nil
		}
		select {
		case <-limited.Done():
			return fmt.Errorf("wait for every kubelet to renew its lease after the swap of %s: want it within %s, got %w", s.component, renewal, last)
		case <-time.After(lookEvery):
		}
	}
}

func (w *walk) all(renewed map[string]bool) bool {
	for _, n := range w.Nodes {
		if !renewed[n] {
			return false
		}
	}
	return true
}

// ready bounds the time from a kubelet's start to its node's being Ready with its driver registered.
const ready = 60 * time.Second

// awaitNode waits until a node is Ready, of its kubelet's version, and has the driver's entry.
func (w *walk) awaitNode(ctx context.Context, name string) error {
	return w.await(ctx, ready, func(ctx context.Context) error {
		n, err := w.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if got, want := n.Status.NodeInfo.KubeletVersion, w.kubelets[name].String(); got != want {
			return fmt.Errorf("node %q: want kubelet %s, got %s", name, want, got)
		}
		for _, c := range n.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
				return fmt.Errorf("node %q: want it Ready, got %s: %s", name, c.Reason, c.Message)
			}
		}
		csi, err := w.Client.StorageV1().CSINodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, d := range csi.Spec.Drivers {
			if d.Name == w.Driver {
				return nil
			}
		}
		return fmt.Errorf("CSINode %q: want an entry of driver %q, got none", name, w.Driver)
	})
}

// await is Bench.Await with an error.
func (w *walk) await(ctx context.Context, within time.Duration, f func(context.Context) error) error {
	return tried(func() { w.Await(ctx, within, f) })
}

// release stops the driver's process and starts another release of it.
func (w *walk) release(ctx context.Context, s *step) error {
	c, err := w.part(ctx, s.component)
	if err != nil {
		return err
	}
	if err := c.Stop(ctx, cluster.Terminate); err != nil {
		return cluster.Environment("stop "+s.component, err)
	}
	if err := c.Start(ctx, s.To); err != nil {
		return &cluster.DriverError{Driver: w.Driver, Node: s.node, Err: fmt.Errorf("start release %s: %w", s.To, err)}
	}
	return nil
}
