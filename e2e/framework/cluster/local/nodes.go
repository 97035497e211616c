package local

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"headroom/drivers/gate"
	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/entry"
	"headroom/e2e/framework/history"
	"headroom/e2e/framework/versions"
)

// node is a node agent as the cell sees it.
type node struct {
	name    string
	drivers []string
	agent   *process
	control *controlClient
	port    int  // of the kubelet
	up      bool // its agent has started all that it runs; under the cell's mu
}

// componentKubeconfig makes an endpoint and a kubeconfig that uses it, for a component that is the API user given.
func (c *cell) componentKubeconfig(component, user string, groups ...string) (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	e := newEndpoint(listener, apiServer)
	c.mu.Lock()
	c.endpoints[component] = e
	c.mu.Unlock()
	client, err := c.ca.issue(user, groups...)
	if err != nil {
		return "", err
	}
	config, err := c.ca.kubeconfig(listener.Addr().String(), client)
	if err != nil {
		return "", err
	}
	path := pki(filepath.Base(component) + ".kubeconfig")
	return path, os.WriteFile(path, config, 0o600)
}

// closeEndpoint forgets a component's endpoint.
func (c *cell) closeEndpoint(component string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.endpoints[component]; ok {
		_ = e.listener.Close() // a listener that does not close is no worse than one that is kept
		_ = e.set(endpointRefuse)
		delete(c.endpoints, component)
	}
}

// forget takes a process off the list.
func (c *cell) forget(p *process) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.processes = slices.DeleteFunc(c.processes, func(q *process) bool { return q == p })
}

// ports reserves n consecutive ports of the cell's own network.
func (c *cell) ports(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := c.nextPort
	c.nextPort += n
	return first
}

// addNode starts a node's agent and waits until the node is Ready and its drivers are registered.
func (c *cell) addNode(ctx context.Context, spec cluster.NodeSpec) (_ none, err error) {
	cfg, err := c.nodeConfig(spec)
	if err != nil {
		return none{}, err
	}
	if err := os.MkdirAll(nodeDir(spec.Name), 0o755); err != nil {
		return none{}, err
	}
	defer func() {
		if err != nil {
			_, undo := c.removeNode(context.WithoutCancel(ctx), nodeName{Name: spec.Name})
			err = errors.Join(err, undo)
		}
	}()
	input, err := json.Marshal(cfg)
	if err != nil {
		return none{}, err
	}
	socket := filepath.Join(nodeDir(spec.Name), "agent.sock")
	agent := c.process("node-agent@"+spec.Name, "", func(versions.Version) (*exec.Cmd, error) {
		cmd := entry.Command(programNode)
		cmd.Stdin = bytes.NewReader(input)
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
		return cmd, nil
	})
	n := &node{name: spec.Name, drivers: spec.Drivers, agent: agent, port: cfg.Port, control: newControlClient(func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	})}
	agent.healthy = func(ctx context.Context) error {
		conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
		if err != nil {
			return err
		}
		return conn.Close()
	}
	c.mu.Lock()
	c.nodes[spec.Name] = n
	c.mu.Unlock()
	if err := agent.start(ctx, ""); err != nil {
		return none{}, err
	}
	if err := n.control.call(ctx, "/ready", none{}, nil); err != nil {
		return none{}, err
	}
	c.mu.Lock()
	n.up = true
	c.mu.Unlock()
	for _, name := range spec.Drivers {
		c.mu.Lock()
		d := c.drivers[name]
		c.mu.Unlock()
		if err := c.startAttacher(ctx, d, name); err != nil {
			return none{}, err
		}
	}
	return none{}, c.awaitNodeReady(ctx, spec.Name)
}

// nodeConfig reserves what a node needs of the cell.
func (c *cell) nodeConfig(spec cluster.NodeSpec) (*nodeConfig, error) {
	c.mu.Lock()
	_, taken := c.nodes[spec.Name]
	cfg := &nodeConfig{Cell: c.cfg, Node: spec.Name, Zone: spec.Zone, Limit: spec.Limit, Labels: spec.Labels, Kubelet: spec.Kubelet, Index: c.nextIndex}
	c.nextIndex++
	for _, name := range spec.Drivers {
		d, ok := c.drivers[name]
		if !ok {
			c.mu.Unlock()
			return nil, fmt.Errorf("add node %q: driver %q was not added to the cluster", spec.Name, name)
		}
		cfg.Drivers = append(cfg.Drivers, nodeDriver{Name: name, Definition: d.definition})
	}
	c.mu.Unlock()
	if taken {
		return nil, fmt.Errorf("add node %q: it exists", spec.Name)
	}
	if cfg.Kubelet == "" {
		cfg.Kubelet = c.cfg.Versions["kubelet"]
	}
	cfg.Port = c.ports(2)
	kubeconfig, err := c.componentKubeconfig("kubelet@"+spec.Name, "system:node:"+spec.Name, "system:nodes")
	if err != nil {
		return nil, err
	}
	cfg.Kubeconfig = kubeconfig
	server, err := c.ca.issue("system:node:"+spec.Name, "system:nodes")
	if err != nil {
		return nil, err
	}
	return cfg, server.write(pkiDir, "serving-"+spec.Name)
}

func (c *cell) awaitNodeReady(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	last := errors.New("not asked yet")
	for {
		n, err := c.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err == nil {
			err = errors.New("no Ready condition yet")
			for _, cond := range n.Status.Conditions {
				if cond.Type != corev1.NodeReady {
					continue
				}
				if cond.Status == corev1.ConditionTrue {
					return nil
				}
				err = fmt.Errorf("%s: %s", cond.Reason, cond.Message)
			}
		}
		if ctx.Err() == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			kubelet := process{log: c.cfg.logFile("kubelet@" + name)}
			return fmt.Errorf("wait for node %q to be Ready: %w (last: %v)%s", name, ctx.Err(), last, kubelet.tail())
		case <-time.After(healthInterval):
		}
	}
}

// nodeName names a node to remove.
type nodeName struct {
	Name string `json:"name"`
}

func (c *cell) removeNode(ctx context.Context, r nodeName) (none, error) {
	c.mu.Lock()
	n := c.nodes[r.Name]
	delete(c.nodes, r.Name)
	c.mu.Unlock()
	if n != nil {
		c.readMetrics(ctx, n)
		_ = n.agent.stop(ctx, cluster.Terminate) // stop of a process never fails
		c.forget(n.agent)
		n.control.http.CloseIdleConnections()
	}
	c.closeEndpoint("kubelet@" + r.Name)
	err := c.client.CoreV1().Nodes().Delete(ctx, r.Name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return none{}, fmt.Errorf("remove node %q: %w", r.Name, err)
	}
	return none{}, os.RemoveAll(nodeDir(r.Name))
}

// driverController is what a driver needs once a cluster.
type driverController struct {
	definition string
	gate       *gate.Gate
	events     *history.Writer
	controller *process

	provisioner *process // nil unless the definition asks for one

	starting sync.Mutex // held while the attacher is started
	attacher *process   // nil until it runs
	before   *front     // nil until it is asked for
}

func (d *driverController) closeGate() error {
	if d.gate == nil {
		return d.events.Close()
	}
	return errors.Join(d.gate.Close(), d.events.Close())
}
