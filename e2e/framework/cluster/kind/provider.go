// Package kind runs a cluster of containers with kind (sigs.k8s.io/kind/pkg/cluster), where drivers are pods and the container runtime is real.
//
// Contract: as of package cluster. The nodes exist from the start: Reserve and AddNode lend workers of the topology, and RemoveNode takes them back.
// What is made in the engine is labelled with its owner, so that whatever a killed run leaves is found and removed by the next one or by `headroom
// down --all`, and nothing else is. The user's kubeconfig is never touched. Where no registry answers, the node image is assembled from source.
//
// It cannot start nodes at will or give them zones; specs that need that are skipped with the reason.
package kind

import (
	"context"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"headroom/drivers"
	"headroom/e2e/framework/binaries"
	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/cluster/kind/engine"
	"headroom/e2e/framework/scenario"
	"headroom/e2e/framework/versions"
)

// Options say what a Provider makes clusters of.
type Options struct {
	// Run is the run's id; every history file repeats it, and it is part of the cluster's name.
	Run string
	// RunDir is an existing directory on the host's disk; the nodes have it too.
	RunDir string
	// Topology says which nodes there are.
	Topology Topology
	// Drivers maps what DriverSpec.Definition may name to what drivers.Load takes; a path must be absolute.
	Drivers map[string]string
	// Seed is handed to drivers.
	Seed int64
	// Scale stretches the waits for drivers; 0 means 1.
	Scale float64
	// Port is the host port of the API server; 0 means any.
	Port int
	// Cache is the root of the cache of parts; "" means the user's.
	Cache string
	// From says where binaries come from that the cache does not have.
	From binaries.Origin
	// Out receives progress.
	Out io.Writer
}

// Provider makes kind clusters.
type Provider struct{ options Options }

// New checks options and returns a Provider. Its errors are the user's to mend.
func New(o Options) (*Provider, error) {
	dir, err := filepath.Abs(o.RunDir)
	if err != nil {
		return nil, fmt.Errorf("kind provider: run directory: %w", err)
	}
	o.RunDir = dir
	self, err := os.Executable()
	if err == nil {
		err = static(self)
	}
	if err != nil {
		return nil, fmt.Errorf("kind provider: %w", err)
	}
	for _, reference := range o.Drivers {
		if err := packable(reference); err != nil {
			return nil, fmt.Errorf("kind provider: %w", err)
		}
	}
	return &Provider{options: o}, nil
}

// packable says why a driver cannot run as pods.
func packable(reference string) error {
	def, err := drivers.Load(reference)
	if err != nil {
		return err
	}
	if def.HasPods() {
		_, err := def.LintPods()
		return err
	}
	if def.HasEnv() {
		return fmt.Errorf("driver %q needs variables of its own (env), which its pods do not get; pass them as arguments, or run it with --provider local", def.Name)
	}
	for _, path := range def.Files() {
		if err := static(path); err != nil {
			return fmt.Errorf("driver %q: %w", def.Name, err)
		}
	}
	return nil
}

// static is an error unless the file is a program that needs no libraries: images of ours have none.
func static(path string) error {
	f, err := elf.Open(path)
	if err != nil {
		return fmt.Errorf("program %s: want an executable to put into an image: %w", path, err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return fmt.Errorf("program %s is linked dynamically, and its image has no libraries; build it with CGO_ENABLED=0, or use --provider local", path)
		}
	}
	return nil
}

// Name is "kind".
func (p *Provider) Name() string { return "kind" }

// Create makes a cluster, with our programs' images on its nodes and the quota backend in it.
func (p *Provider) Create(ctx context.Context, t scenario.Topology) (_ cluster.Cluster, err error) {
	if err := p.options.Topology.Check(t.Kubernetes); err != nil {
		return nil, err
	}
	n, err := p.prepare(ctx, t.Kubernetes)
	if err != nil {
		return nil, cluster.Environment("prepare a kind cluster", err)
	}
	c, err := n.create(ctx)
	if err != nil {
		err = errors.Join(err, engine.RemoveCluster(context.WithoutCancel(ctx), n.shape.Name))
		return nil, cluster.Environment("create a kind cluster", err)
	}
	return c, nil
}

// shape is what is known of a cluster once it is up; another process needs no more to attach to it.
type shape struct {
	// Name is that of the cluster and of its network.
	Name   string `json:"name"`
	Run    string `json:"run"`
	RunDir string `json:"runDir"`
	// Kubernetes is the control plane's version, Etcd that of its etcd where it is known; Kubelets maps workers to theirs.
	Kubernetes versions.Version            `json:"kubernetes"`
	Etcd       versions.Version            `json:"etcd,omitempty"`
	Workers    []string                    `json:"workers"`
	Kubelets   map[string]versions.Version `json:"kubelets"`
	// Address is the control plane's in the cluster's network.
	Address string `json:"address"`
	// Image and Attacher are the images of our programs and of external-attacher; Provisioner is external-provisioner's where a definition asks for one.
	Image       string            `json:"image"`
	Attacher    string            `json:"attacher"`
	Provisioner string            `json:"provisioner,omitempty"`
	Drivers     map[string]string `json:"drivers"`
	Seed        int64             `json:"seed"`
	Scale       float64           `json:"scale,omitempty"`
	Topology    string            `json:"topology"`
}

// Cluster is a kind cluster, in the process that made it or in one that attached to it.
type Cluster struct {
	shape
	rest    *rest.Config
	client  kubernetes.Interface
	raw     rest.Interface // for what is no object
	dynamic dynamic.Interface

	// Of the process that made the cluster only:
	executables map[string]string
	lifeline    net.Listener
	closing     sync.Once
	done        chan struct{}
}

// Attach reaches a cluster that another process made. Its life stays its maker's: Destroy of an attached cluster is an error.
func Attach(handle json.RawMessage) (*Cluster, error) {
	var c Cluster
	err := json.Unmarshal(handle, &c.shape)
	if err == nil {
		err = c.connect()
	}
	return &c, cluster.Environment("attach to the kind cluster", err)
}

// Handle is what Attach needs.
func (c *Cluster) Handle() json.RawMessage {
	b, err := json.Marshal(c.shape)
	if err != nil {
		panic(fmt.Sprintf("kind: shape does not encode: %v", err)) // plain fields always do
	}
	return b
}

// The administrator's name is that of a local cluster's, so that the audit log of both names the same.
const administrator = "headroom-admin"

// dir is where the provider keeps what it needs beside events and logs.
func (s shape) dir() string { return filepath.Join(s.RunDir, "kind") }

func (s shape) eventsDir() string    { return filepath.Join(s.RunDir, "events") }
func (s shape) kubeconfig() string   { return filepath.Join(s.dir(), "kubeconfig") }
func (s shape) controlPlane() string { return s.Name + "-control-plane" }

// connect makes the clients, from the kubeconfig that kind wrote.
func (c *Cluster) connect() (err error) {
	if c.rest, err = clientcmd.BuildConfigFromFlags("", c.kubeconfig()); err != nil {
		return err
	}
	c.rest.QPS = -1
	c.rest.Impersonate = rest.ImpersonationConfig{UserName: administrator, Groups: []string{"system:masters"}}
	clients, err := kubernetes.NewForConfig(c.rest)
	if err != nil {
		return err
	}
	c.client, c.raw = clients, clients.CoreV1().RESTClient()
	c.dynamic, err = dynamic.NewForConfig(c.rest)
	return err
}

// Executables are components of the control plane as this machine has them, by name: nil where their image came from elsewhere, and in a process that
// attached to the cluster.
func (c *Cluster) Executables() map[string]string { return c.executables }

// RESTConfig returns the administrator's configuration.
func (c *Cluster) RESTConfig() *rest.Config { return rest.CopyConfig(c.rest) }

// answerTimeout bounds the wait for an engine that has nothing to do but to answer.
const answerTimeout = 15 * time.Second

// Answers is nil while the control plane's node runs.
func (c *Cluster) Answers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	state, err := engine.Run(ctx, "inspect", "--format", "{{.State.Status}}", c.controlPlane())
	if err == nil && state != "running" && state != "paused" {
		err = fmt.Errorf("node %s is %s", c.controlPlane(), state)
	}
	return cluster.Environment("reach the kind cluster", err)
}

// Done is closed when the control plane's node has ended, whoever ended it; nil for an attached cluster.
func (c *Cluster) Done() <-chan struct{} { return c.done }
