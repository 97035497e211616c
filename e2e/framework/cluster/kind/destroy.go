package kind

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/cluster/kind/engine"
)

// closeTimeout bounds the wait for pods to close their histories. What is not closed by then is a gap.
const closeTimeout = 30 * time.Second

// Destroy ends the pods, so that they close their histories, and removes the cluster: nodes, volumes, network.
func (c *Cluster) Destroy(ctx context.Context) error {
	if c.lifeline == nil {
		return errors.New("destroy: this process attached to the cluster and did not make it")
	}
	var errs []error
	if c.Answers(ctx) == nil {
		limited, cancel := context.WithTimeout(ctx, closeTimeout)
		errs = append(errs, c.endPods(limited))
		cancel()
	}
	errs = append(errs, engine.RemoveCluster(ctx, c.Name))
	c.closing.Do(func() { errs = append(errs, c.lifeline.Close()) })
	errs = append(errs, os.RemoveAll(c.socketsDir("")))
	for _, path := range []string{c.kubeconfig(), c.lifelineSocket(), c.controlSocket()} {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return cluster.Environment("destroy the kind cluster", errors.Join(errs...))
}

// endPods deletes what makes pods, and waits until none is left: drivers first, because their gates need no backend to end, then the backend.
func (c *Cluster) endPods(ctx context.Context) error {
	background := metav1.DeletePropagationBackground
	options := metav1.DeleteOptions{PropagationPolicy: &background}
	errs := []error{
		c.client.AppsV1().DaemonSets(namespace).DeleteCollection(ctx, options, metav1.ListOptions{}),
		c.client.AppsV1().Deployments(namespace).DeleteCollection(ctx, options, metav1.ListOptions{LabelSelector: driverLabel}),
		c.awaitNoPods(ctx, driverLabel),
		c.saveLogs(ctx, "app=quota"),
		unlessGone(c.client.AppsV1().Deployments(namespace).Delete(ctx, "quota", options)),
		c.awaitNoPods(ctx, "app=quota"),
	}
	return errors.Join(errs...)
}

// Collect writes each node's journal to dir, as node/<name>.log. Logs of pods are saved when the pods go.
func (c *Cluster) Collect(ctx context.Context, dir string) error {
	names := append([]string{c.controlPlane()}, c.Workers...)
	errs := make([]error, len(names))
	var group sync.WaitGroup
	for i, name := range names {
		group.Go(func() {
			journal, err := engine.Run(ctx, "exec", name, "journalctl", "--no-pager", "--boot", "-o", "short-precise")
			if err != nil {
				errs[i] = fmt.Errorf("node %s: %w", name, err)
				return
			}
			path := filepath.Join(dir, "node", name+".log")
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				errs[i] = err
				return
			}
			errs[i] = os.WriteFile(path, []byte(journal), 0o644)
		})
	}
	group.Wait()
	return cluster.Environment("collect logs", errors.Join(errs...))
}
