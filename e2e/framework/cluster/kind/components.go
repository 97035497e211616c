package kind

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/cluster/kind/engine"
	"headroom/e2e/framework/history"
	"headroom/e2e/framework/versions"
)

// staticPods are the control plane's, in the order of starting.
var staticPods = []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"}

// Components lists the control plane's static pods, each node with its kubelet, and the containers of drivers' pods. The API server knows those: while it
// does not answer they are left out, so that it can be found and started.
func (c *Cluster) Components(ctx context.Context) ([]cluster.Component, error) {
	var all []cluster.Component
	for _, p := range c.fixed() {
		all = append(all, p)
	}
	contained, err := c.contained(ctx)
	if err != nil {
		return all, nil
	}
	return append(all, contained...), nil
}

// fixed are the components that are there from the start.
func (c *Cluster) fixed() []*component {
	var all []*component
	for _, name := range staticPods {
		v := c.Kubernetes
		if name == "etcd" {
			v = c.Etcd
		}
		all = append(all, &component{cluster: c, id: name, node: c.controlPlane(), version: v, do: staticPod(name)})
	}
	for _, node := range append([]string{c.controlPlane()}, c.Workers...) {
		v, ok := c.Kubelets[node]
		if !ok {
			v = c.Kubernetes
		}
		all = append(all,
			&component{cluster: c, id: "node@" + node, node: node, do: nodeScripts},
			&component{cluster: c, id: "kubelet@" + node, node: node, version: v, do: kubeletScripts})
	}
	return all
}

// recordAll records that all components are ready, and so which version of each runs where.
func (c *Cluster) recordAll() error {
	for _, p := range c.fixed() {
		if err := c.record(p.id, p.node, "ready", p.version); err != nil {
			return err
		}
	}
	return nil
}

// scripts are what changes a component, each run in its node; "" is not possible, and outside is run by the engine instead.
type scripts struct {
	stop, kill, start, pause, resume string
	outside                          bool
}

// kubeletScripts: systemd starts a kubelet that dies again, so that stopping comes first.
var kubeletScripts = scripts{
	stop: "systemctl stop kubelet", kill: "systemctl kill --signal=KILL kubelet; systemctl stop kubelet", start: "systemctl start kubelet",
	pause: "systemctl kill --signal=STOP kubelet", resume: "systemctl kill --signal=CONT kubelet",
}

// nodeScripts are words of the engine.
var nodeScripts = scripts{stop: "stop", kill: "kill", start: "start", pause: "pause", resume: "unpause", outside: true}

// staticPod: the kubelet runs what it finds in its directory. A process that is killed after its manifest is gone does not come back.
func staticPod(name string) scripts {
	const dir, aside = "/etc/kubernetes/manifests/", "/etc/kubernetes/headroom-stopped/"
	take := fmt.Sprintf("mkdir -p %s; mv %s%s.yaml %s", aside, dir, name, aside)
	return scripts{
		stop: take + "; pkill -TERM -x " + short(name) + " || true", kill: take + "; pkill -KILL -x " + short(name) + " || true",
		start: fmt.Sprintf("mv %s%s.yaml %s", aside, name, dir), pause: "pkill -STOP -x " + short(name), resume: "pkill -CONT -x " + short(name),
	}
}

// short is how the kernel names a process: 15 bytes.
func short(name string) string { return name[:min(len(name), 15)] }

// component is one part of a kind cluster.
type component struct {
	cluster  *Cluster
	id, node string
	version  versions.Version
	do       scripts
}

func (p *component) ID() string                { return p.id }
func (p *component) Version() versions.Version { return p.version }

// Stop ends the component and waits until its process is gone.
func (p *component) Stop(ctx context.Context, how cluster.Signal) error {
	script := p.do.stop
	if how == cluster.Kill {
		script = p.do.kill
	}
	return p.act(ctx, "stopping", script, "stopped", func(ctx context.Context) error {
		if p.do.outside {
			return nil // the engine has waited
		}
		kind, _, _ := strings.Cut(p.id, "@")
		return poll(ctx, p.id+" to be gone", func() error {
			if out, err := engine.Run(ctx, "exec", p.node, "pgrep", "-x", short(kind)); err == nil {
				return fmt.Errorf("process %s still runs", out)
			}
			return nil
		})
	})
}

// Start starts it again and waits until it is healthy. Other versions are not to be had here: a node's are its image's.
func (p *component) Start(ctx context.Context, v versions.Version) error {
	if v != "" && v != p.version {
		return &cluster.UnsupportedError{Provider: "kind", Why: fmt.Sprintf("%s stays at %s: its version is the node image's", p.id, p.version)}
	}
	return p.act(ctx, "started", p.do.start, "ready", func(ctx context.Context) error {
		return poll(ctx, p.id+" to be healthy", func() error { return p.healthy(ctx) })
	})
}

// Pause stops the processes where they stand.
func (p *component) Pause(ctx context.Context) error {
	return p.act(ctx, "", p.do.pause, "paused", nil)
}

// Resume lets them go on.
func (p *component) Resume(ctx context.Context) error {
	return p.act(ctx, "", p.do.resume, "resumed", nil)
}

// act runs a script and records the states before and after it.
func (p *component) act(ctx context.Context, before, script, after string, settled func(context.Context) error) error {
	op := after + " " + p.id
	if before != "" {
		if err := p.record(before); err != nil {
			return cluster.Environment(op, err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	args := []string{"exec", p.node, "/bin/sh", "-c", script}
	if p.do.outside {
		args = []string{script, p.node}
	}
	_, err := engine.Run(ctx, args...)
	if err == nil && settled != nil {
		err = settled(ctx)
	}
	if err == nil {
		err = p.record(after)
	}
	return cluster.Environment(op, err)
}

func (p *component) record(state string) error {
	return p.cluster.record(p.id, p.node, state, p.version)
}

// record writes one event of a component. The file is opened each time, because processes come and go, and each has components for a moment only.
func (c *Cluster) record(id, node, state string, v versions.Version) error {
	w, err := history.Create(c.eventsDir(), c.Run, history.PrefixComponent+"kind/"+strings.NewReplacer("@", "-", "/", "-").Replace(id))
	if err != nil {
		return err
	}
	e := history.Event{Phase: history.Observed, Key: id, Body: history.Encode(history.Component{State: state, Version: string(v)})}
	if strings.Contains(id, "@") {
		e.Node = node
	}
	w.Write(e)
	return w.Close()
}

// healthy asks the API server, which knows whether kubelets report and static pods are ready.
func (p *component) healthy(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if slices.Contains(staticPods, p.id) {
		pod, err := p.cluster.client.CoreV1().Pods(metav1.NamespaceSystem).Get(ctx, p.id+"-"+p.node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		return podNotReady(pod)
	}
	n, err := p.cluster.client.CoreV1().Nodes().Get(ctx, p.node, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if why := notReady(n); why != "" {
		return errors.New(why)
	}
	// The Node stays Ready for a while after its kubelet has ended. This is where kubeadm itself asks.
	_, err = engine.Run(ctx, "exec", p.node, "curl", "--fail", "--silent", "--show-error", "--max-time", "2", "http://127.0.0.1:10248/healthz")
	return err
}
