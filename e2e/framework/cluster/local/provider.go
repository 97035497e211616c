// Package local runs a cluster of real Kubernetes components as ordinary processes of this machine, without Docker and without root.
//
// A cluster lives in a cell: new PID, mount and network namespaces (and a user namespace for an ordinary user) whose first process starts
// everything else. The cell ends when its parent does, however the parent ended: the parent holds one end of a pipe, and with PID 1 the kernel
// ends all the rest. State is on a tmpfs inside, so that it goes too; only events and logs are on the host's disk, in the run directory.
//
// Real: etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kubelet, external-attacher, external-provisioner, mounts. Not real: the container runtime (pods
// run and end, but there is nothing in them), the pod network, and the cloud.
package local

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"headroom/drivers"
	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/scenario"
	"headroom/e2e/framework/versions"
)

// Options say what a Provider makes clusters of.
type Options struct {
	// Run is the run's id; every history file repeats it.
	Run string
	// RunDir is an existing directory on the host's disk for events and logs.
	RunDir string
	// Binaries are the executables: every component of Components at one version or more.
	Binaries Binaries
	// Versions maps each component to the version it starts with.
	Versions map[string]versions.Version
	// Fetch gets the executable of another version, for Component.Start; nil means that no other version can be had.
	Fetch func(ctx context.Context, component string, v versions.Version) (string, error)
	// Drivers maps what DriverSpec.Definition may name to what drivers.Load takes; a path must be absolute.
	Drivers map[string]string
	// NewRelease maps a key of Drivers to the one whose definition plays its releases from 2 on; a driver that is not in it plays them itself.
	NewRelease map[string]string
	// NodeLease is how long a kubelet's lease is good for, which it renews four times as often; 0 means the kubelet's default. Whole seconds.
	NodeLease time.Duration
	// Gates are feature gates by component kind.
	Gates map[string]map[string]bool
	// Figures replace the declared figures of drivers, by the key of Drivers.
	Figures map[string]drivers.Figures
	// Seed is handed to drivers, with the node's number added.
	Seed int64
	// Port is the host port of the API server; 0 means any.
	Port int
	// Scale stretches the limits on the starts of drivers; 0 means 1.
	Scale float64
}

// Components are the kinds of executables that every cell needs; drivers with dynamic volumes need versions.ProvisionerComponent too.
var Components = []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "csi-attacher"}

// Provider makes cells.
type Provider struct{ options Options }

// New checks options and returns a Provider.
func New(o Options) (*Provider, error) {
	needed := slices.Clone(Components)
	for _, reference := range o.Drivers {
		if def, err := drivers.Load(reference); err == nil && def.Dynamic() { // one that cannot be loaded shows when it is added
			needed = append(needed, versions.ProvisionerComponent)
		}
	}
	for _, name := range needed {
		v, ok := o.Versions[name]
		if !ok {
			return nil, fmt.Errorf("local provider: no version of %s given", name)
		}
		if _, ok := o.Binaries[name][v]; !ok {
			return nil, fmt.Errorf("local provider: no executable of %s %s given", name, v)
		}
	}
	dir, err := filepath.Abs(o.RunDir)
	if err != nil {
		return nil, fmt.Errorf("local provider: run directory: %w", err)
	}
	o.RunDir = dir
	return &Provider{options: o}, nil
}

// Name is "local".
func (p *Provider) Name() string { return "local" }

// Create starts a cell and waits for its control plane, then for the topology's nodes.
func (p *Provider) Create(ctx context.Context, t scenario.Topology) (cluster.Cluster, error) {
	c, err := p.spawn()
	if err != nil {
		return nil, cluster.Environment("create a cell", err)
	}
	if err := c.connect(ctx); err != nil {
		err = c.explain(ctx, err)
		if destroyed := c.Destroy(context.WithoutCancel(ctx)); c.life.murdered() == nil {
			err = errors.Join(err, destroyed) // else both say the same
		}
		return nil, cluster.Environment("start the control plane", err)
	}
	for _, name := range t.Nodes {
		if err := c.AddNode(ctx, cluster.NodeSpec{Name: name, Kubelet: t.Kubernetes}); err != nil {
			return nil, errors.Join(err, c.Destroy(context.WithoutCancel(ctx)))
		}
	}
	return c, nil
}

// Cluster is a cell seen from outside, by the process that made it or by one that attached to it.
type Cluster struct {
	options Options
	control *controlClient
	rest    *rest.Config
	port    int // of the API server on the host

	// Of the process that made the cell only:
	life *life
}

// controlSocket is where a cell's control interface listens.
func controlSocket(runDir string) string { return filepath.Join(runDir, "control.sock") }

// connect waits for the control plane and becomes its administrator.
func (c *Cluster) connect(ctx context.Context) error {
	c.control = newControlClient(func(ctx context.Context) (net.Conn, error) { return dialUnix(ctx, controlSocket(c.options.RunDir)) })
	ctx, cancel := context.WithTimeout(ctx, 2*startTimeout)
	defer cancel()
	if c.life != nil {
		go func() {
			select {
			case <-c.life.done:
				cancel()
			case <-ctx.Done():
			}
		}()
	}
	var admin readyAnswer
	if err := c.control.call(ctx, "/ready", none{}, &admin); err != nil {
		return err
	}
	c.rest = &rest.Config{
		Host: fmt.Sprintf("https://127.0.0.1:%d", c.port), QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{CAData: admin.CA, CertData: admin.Cert, KeyData: admin.Key},
	}
	return nil
}

// RESTConfig returns the administrator's configuration.
func (c *Cluster) RESTConfig() *rest.Config { return rest.CopyConfig(c.rest) }

// Backend reaches the quota backend's control interface through the cell.
func (c *Cluster) Backend() (string, *http.Client) { return "http://cell", c.control.http }

// AddNode starts a node agent with a kubelet and drivers.
func (c *Cluster) AddNode(ctx context.Context, s cluster.NodeSpec) error {
	return cluster.Environment("add node "+s.Name, c.control.call(ctx, "/nodes/add", s, nil))
}

// RemoveNode ends a node's processes and deletes its Node.
func (c *Cluster) RemoveNode(ctx context.Context, name string) error {
	return cluster.Environment("remove node "+name, c.control.call(ctx, "/nodes/remove", nodeName{Name: name}, nil))
}

// AddDriver starts a driver's controller and what stands beside it.
func (c *Cluster) AddDriver(ctx context.Context, s cluster.DriverSpec) error {
	return cluster.Environment("add driver "+s.Name, c.control.call(ctx, "/drivers/add", s, nil))
}

// RemoveDriver ends them.
func (c *Cluster) RemoveDriver(ctx context.Context, name string) error {
	return cluster.Environment("remove driver "+name, c.control.call(ctx, "/drivers/remove", driverName{Name: name}, nil))
}

// SetEndpoint changes what one component's way to the API server does: "pass", "refuse", "hang", "no-request", "no-answer" or "impostor".
func (c *Cluster) SetEndpoint(ctx context.Context, component, mode string) error {
	return c.endpoint(ctx, endpointRequest{Component: component, Mode: endpointMode(mode)})
}

// SetLatency makes everything between one component and the API server take that much longer in each direction; 0 ends it.
func (c *Cluster) SetLatency(ctx context.Context, component string, latency time.Duration) error {
	return c.endpoint(ctx, endpointRequest{Component: component, Latency: &latency})
}

func (c *Cluster) endpoint(ctx context.Context, r endpointRequest) error {
	return cluster.Environment("change the endpoint of "+r.Component, c.control.call(ctx, "/endpoint", r, nil))
}

// OtherVersions returns nil where components can be started at versions that the cluster was not made with, or why not.
func (c *Cluster) OtherVersions() error {
	if c.options.Fetch == nil {
		return errors.New("this run has no source of other versions")
	}
	return nil
}

// Components lists the processes that the cell supervises.
func (c *Cluster) Components(ctx context.Context) ([]cluster.Component, error) {
	var all []componentStatus
	if err := c.control.call(ctx, "/components", none{}, &all); err != nil {
		return nil, cluster.Environment("list components", err)
	}
	var out []cluster.Component
	for _, s := range all {
		out = append(out, &component{cluster: c, status: s})
	}
	return out, nil
}

// Collect has nothing to do: a cell's events and logs are written to the run directory as they happen.
func (c *Cluster) Collect(context.Context, string) error { return nil }

// Destroy closes the histories inside the cell, if it still answers, and ends it. On an idle machine that takes 0.2 s, on any at most
// shutdownTimeout and closeTimeout. The cell's processes, mounts and namespaces are gone when it returns.
func (c *Cluster) Destroy(ctx context.Context) error {
	if c.life == nil {
		return errors.New("destroy: this process attached to the cell and did not make it")
	}
	return c.life.end(func() {
		ctx, cancel := context.WithTimeout(ctx, shutdownTimeout)
		defer cancel()
		// A cell that does not answer is ended all the same; its histories then lack their close records, which shows as gaps.
		_ = c.control.call(ctx, "/shutdown", none{}, nil)
		c.control.http.CloseIdleConnections()
	})
}

const (
	// shutdownTimeout bounds the closing of histories. What is not closed by then is a gap, so a busy machine must not meet it.
	shutdownTimeout = 5 * time.Second
	// closeTimeout bounds the wait for a cell that is ending to be gone.
	closeTimeout = 1500 * time.Millisecond
)

// Done is closed when the cell has ended, whoever ended it; it is nil for an attached cluster.
func (c *Cluster) Done() <-chan struct{} {
	if c.life == nil {
		return nil
	}
	return c.life.done
}

// answerTimeout bounds the wait for a cell that has nothing to do but to answer.
const answerTimeout = 15 * time.Second

// Answers is nil while the cell lives.
func (c *Cluster) Answers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	return cluster.Environment("reach the cell", c.control.call(ctx, "/ready", none{}, nil))
}

// AwaitEnd returns when the cell is gone, for a process that attached to it.
func (c *Cluster) AwaitEnd() {
	for {
		conn, err := dialUnix(context.Background(), controlSocket(c.options.RunDir))
		if err != nil {
			return
		}
		// The cell answers nothing to a connection without a request, so that the read returns when the cell is gone.
		_, _ = conn.Read(make([]byte, 1))
		_ = conn.Close()
	}
}

// component is one process inside a cell.
type component struct {
	cluster *Cluster
	mu      sync.Mutex
	status  componentStatus
}

func (p *component) ID() string { return p.status.ID }

func (p *component) Version() versions.Version {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.status.Version
}

func (p *component) act(ctx context.Context, a action) error {
	a.ID = p.status.ID
	return cluster.Environment(a.Do+" "+a.ID, p.cluster.control.call(ctx, "/act", a, nil))
}

func (p *component) Stop(ctx context.Context, how cluster.Signal) error {
	return p.act(ctx, action{Do: "stop", How: how})
}
func (p *component) Pause(ctx context.Context) error  { return p.act(ctx, action{Do: "pause"}) }
func (p *component) Resume(ctx context.Context) error { return p.act(ctx, action{Do: "resume"}) }

// Start fetches the executable of another version where the run does not have it yet. A driver under test is one executable, which plays the release
// that it is given.
func (p *component) Start(ctx context.Context, v versions.Version) error {
	a := action{Do: "start", Version: v}
	if kind := kindOf(p.ID()); v != "" && v != p.Version() && (slices.Contains(Components, kind) || kind == versions.ProvisionerComponent) && p.cluster.options.Binaries[kind][v] == "" {
		if p.cluster.options.Fetch == nil {
			return fmt.Errorf("start %s at %s: this run has no source of other versions than %s", p.ID(), v, p.Version())
		}
		path, err := p.cluster.options.Fetch(ctx, kind, v)
		if err != nil {
			return err
		}
		a.Binary = path
	}
	if err := p.act(ctx, a); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if v != "" {
		p.status.Version = v
	}
	return nil
}

// preserved are the directories that a cell must go on seeing, in a stable order.
func preserved(o Options) ([]string, error) {
	dirs := map[string]bool{o.RunDir: true}
	for _, byVersion := range o.Binaries {
		for _, path := range byVersion {
			dirs[filepath.Dir(path)] = true
		}
	}
	for _, reference := range o.Drivers {
		def, err := drivers.Load(reference)
		if err != nil {
			return nil, err
		}
		for _, path := range def.Files() {
			dirs[filepath.Dir(path)] = true
		}
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(dirs)), func(dir string) bool {
		_, err := os.Stat(dir)
		return err != nil // a missing driver executable shows when it is started, with its name
	}), nil
}
