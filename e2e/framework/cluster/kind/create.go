package kind

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kindcluster "sigs.k8s.io/kind/pkg/cluster"
	"sigs.k8s.io/kind/pkg/cluster/nodes"
	"sigs.k8s.io/kind/pkg/exec"

	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/cluster/kind/archive"
	"headroom/e2e/framework/cluster/kind/engine"
	"headroom/e2e/framework/versions"
	"headroom/fixtures/manifests"
)

// readyTimeout bounds the wait for nodes and pods that have all they need.
const readyTimeout = 90 * time.Second

// create makes the cluster, in this order: network, nodes and control plane (by kind), our images, the pod network's routes, the quota backend.
func (n *nascent) create(ctx context.Context) (_ *Cluster, err error) {
	for _, dir := range []string{n.dir(), filepath.Join(n.RunDir, "logs"), filepath.Join(n.RunDir, "events")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
	}
	if err := os.WriteFile(filepath.Join(n.dir(), "audit-policy.yaml"), []byte(auditPolicy), 0o644); err != nil {
		return nil, err
	}
	c := &Cluster{shape: n.shape, executables: n.executables, done: make(chan struct{})}
	if c.lifeline, err = listenUnix(c.lifelineSocket()); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.lifeline.Close())
		}
	}()
	go c.holdLifeline()
	if err := engine.MakeNetwork(ctx, n.Name); err != nil {
		return nil, err
	}
	if err := n.kind(ctx); err != nil {
		return nil, err
	}
	if err := c.connect(); err != nil {
		return nil, err
	}
	if c.Address, err = engine.Run(ctx, "inspect", "--format", fmt.Sprintf("{{(index .NetworkSettings.Networks %q).IPAddress}}", n.Name), n.controlPlane()); err != nil {
		return nil, err
	}
	if err := n.steps.step("our images", func() error { return n.load(ctx, c) }); err != nil {
		return nil, err
	}
	if err := n.steps.step("nodes ready", func() error { return n.settle(ctx, c) }); err != nil {
		return nil, err
	}
	if err := n.steps.step("quota backend", func() error { return c.startBase(ctx) }); err != nil {
		return nil, err
	}
	if err := c.tryPods(ctx, n.steps); err != nil {
		return nil, err
	}
	if err := c.recordAll(); err != nil {
		return nil, err
	}
	n.steps.tell("cluster up", time.Since(n.steps.began))
	go func() {
		_, _ = engine.Run(context.Background(), "wait", c.controlPlane()) // an engine that is gone has taken the node along
		close(c.done)
	}()
	return c, nil
}

// kind runs kind. It knows no contexts: when ctx ends, its nodes are taken away under it, and it gives up.
func (n *nascent) kind(ctx context.Context) error {
	if err := os.Setenv(engine.NetworkEnv, n.Name); err != nil {
		return err
	}
	made := make(chan error, 1)
	go func() {
		provider := kindcluster.NewProvider(kindcluster.ProviderWithDocker(), kindcluster.ProviderWithLogger(n.steps))
		made <- provider.Create(n.Name, kindcluster.CreateWithV1Alpha4Config(n.config()), kindcluster.CreateWithKubeconfigPath(n.kubeconfig()),
			kindcluster.CreateWithDisplayUsage(false), kindcluster.CreateWithDisplaySalutation(false))
	}()
	select {
	case err := <-made:
		return n.explain(err)
	case <-ctx.Done():
	}
	cancelled := context.Cause(ctx)
	for {
		err := engine.RemoveCluster(context.WithoutCancel(ctx), n.Name)
		select {
		case <-made:
			return errors.Join(cancelled, err)
		case <-time.After(time.Second): // it may just have made another node
		}
	}
}

// explain adds what a failed command of kind's printed, which its error leaves out.
func (n *nascent) explain(err error) error {
	if err == nil {
		return nil
	}
	if failed := exec.RunErrorForError(err); failed != nil {
		lines := strings.Split(strings.TrimSpace(string(failed.Output)), "\n")
		err = fmt.Errorf("%w; its last words:\n    %s", err, strings.Join(lines[max(0, len(lines)-15):], "\n    "))
	}
	if w := n.steps.warned(); w != "" {
		err = fmt.Errorf("%w (warnings: %s)", err, w)
	}
	return err
}

// load puts our programs' images on every node.
func (n *nascent) load(ctx context.Context, c *Cluster) error {
	image, err := c.program()
	if err != nil {
		return err
	}
	c.Image = image.Ref
	beside := []archive.Image{{Ref: c.Attacher, Files: []archive.File{{Path: "/usr/local/bin/csi-attacher", From: n.attacher}}}}
	if c.Provisioner != "" {
		path := "/usr/local/bin/" + versions.ProvisionerComponent
		beside = append(beside, archive.Image{Ref: c.Provisioner, Files: []archive.File{{Path: path, From: n.provisioner}}})
	}
	return n.each(ctx, func(ctx context.Context, node nodes.Node) error {
		images := []archive.Image{image}
		if node.String() == n.controlPlane() {
			images = append(images, beside...)
		}
		r, w := io.Pipe()
		go func() { w.CloseWithError(archive.Write(w, images...)) }()
		err := importImages(ctx, node.String(), r)
		return errors.Join(err, r.Close(), c.loadArchives(ctx, node.String()))
	})
}

// each runs f for all nodes at once.
func (n *nascent) each(ctx context.Context, f func(context.Context, nodes.Node) error) error {
	all, err := kindcluster.NewProvider(kindcluster.ProviderWithDocker()).ListInternalNodes(n.Name)
	if err != nil {
		return err
	}
	errs := make([]error, len(all))
	var group sync.WaitGroup
	for i, node := range all {
		group.Go(func() {
			if err := f(ctx, node); err != nil {
				errs[i] = fmt.Errorf("node %s: %w", node, err)
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// settle waits until all nodes are Ready, and then tells each how to reach the pods of the others where nobody else does.
func (n *nascent) settle(ctx context.Context, c *Cluster) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	var all *corev1.NodeList
	err := poll(ctx, "nodes to be Ready", func() (err error) {
		if all, err = c.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{}); err != nil {
			return err
		}
		if len(all.Items) < len(n.images) {
			return fmt.Errorf("want %d nodes, got %d", len(n.images), len(all.Items))
		}
		for _, node := range all.Items {
			if why := notReady(&node); why != "" {
				return fmt.Errorf("node %s: %s", node.Name, why)
			}
		}
		return nil
	})
	if err == nil {
		err = n.asDeclared(all.Items)
	}
	if err != nil || !n.own[0] {
		return err
	}
	return n.each(ctx, func(ctx context.Context, node nodes.Node) error {
		script := "set -e\n"
		for _, other := range all.Items {
			if other.Name != node.String() && other.Spec.PodCIDR != "" {
				script += fmt.Sprintf("ip route replace %s via %s\n", other.Spec.PodCIDR, address(&other))
			}
		}
		_, err := engine.Run(ctx, "exec", node.String(), "/bin/sh", "-c", script)
		return err
	})
}

// asDeclared is an error when a node runs another kubelet than the topology says: an image can be of any version.
func (n *nascent) asDeclared(all []corev1.Node) error {
	for _, node := range all {
		want, worker := n.Kubelets[node.Name]
		if !worker {
			want = n.Kubernetes
		}
		if got := node.Status.NodeInfo.KubeletVersion; got != want.String() {
			return &cluster.EnvironmentError{
				Op: "check the nodes' versions", Err: fmt.Errorf("node %s: want kubelet %s, got %s", node.Name, want, got),
				Remedy: "give an image of that version in the topology, or the image's version",
			}
		}
	}
	return nil
}

func notReady(n *corev1.Node) string {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			if c.Status == corev1.ConditionTrue {
				return ""
			}
			return c.Reason + ": " + c.Message
		}
	}
	return "no Ready condition yet"
}

func address(n *corev1.Node) string {
	for _, a := range n.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			return a.Address
		}
	}
	return ""
}

// startBase starts what every driver needs.
func (c *Cluster) startBase(ctx context.Context) error {
	text, err := manifests.Render("base.yaml", c.base())
	if err != nil {
		return err
	}
	if err := c.apply(ctx, text); err != nil {
		return err
	}
	if c.Provisioner != "" {
		text, err := manifests.Raw("provisioner.yaml")
		if err == nil {
			err = c.apply(ctx, text)
		}
		if err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	return poll(ctx, "the quota backend", func() error {
		conn, err := dialUnix(ctx, c.controlSocket())
		if err != nil {
			return errors.Join(err, c.podTrouble(ctx, "app=quota"))
		}
		return conn.Close()
	})
}

// quotaPort is where drivers ask the backend, on the control plane's address.
const quotaPort = 8970

func (c *Cluster) base() manifests.Base {
	return manifests.Base{Image: c.Image, Run: c.Run, RunDir: nodeRunDir, Address: c.Address, Port: quotaPort, UID: os.Getuid()}
}

// controlSocket is where the backend's control interface listens, through the run directory.
func (s shape) controlSocket() string { return filepath.Join(s.RunDir, "control.sock") }
