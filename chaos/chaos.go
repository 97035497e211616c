// Package chaos holds the faults, one per file.
//
// Contract: a fault says in advance whether it can run on a cluster. Inject returns once the fault is effective, and with it the function that heals
// it; the healing returns once the fault is gone. What a fault does to the product's own objects is recorded as the run's doing, so that no invariant
// blames the product for it. Parameters are the fault's own type, decoded strictly from a scenario.
//
// It does not decide when faults happen, record their states, or judge what follows: the engine and the invariants do.
package chaos

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"k8s.io/client-go/kubernetes"

	"headroom/drivers/gate"
	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/scenario"
	"headroom/fixtures/quota"
)

// Fault is one way in which things go wrong.
type Fault struct {
	Name, Doc string
	// Targets are the classes that it acts on.
	Targets []scenario.Class
	// Supports returns nil, or why the fault cannot run on this cluster.
	Supports func(cluster.Cluster) error
	// New returns a pointer to its parameters, with their defaults.
	New func() any
	// Inject takes what New returned. It returns once the fault is effective. All its random choices come from the generator.
	Inject func(context.Context, Target, *rand.Rand, any) (Heal, error)
}

// Heal ends a fault and returns once what it broke has recovered. It is called once, and with a context that outlives the run's.
type Heal func(context.Context) error

// Target is what a fault acts on, in a part of a run that has a driver and nodes of its own.
type Target struct {
	scenario.Target
	// Nodes are all nodes of that part, Driver its driver.
	Nodes  []string
	Driver string

	Cluster cluster.Cluster
	Client  kubernetes.Interface
	Quota   *quota.Control
	// Record does something to an object of the product in the name of an API user, on the record.
	Record func(verb, resource, name, writer string, do func() error) error
}

// Node is the name of the target's node; "" for a target without one.
func (t Target) Node() string {
	if t.Target.Node == 0 {
		return ""
	}
	return t.Nodes[t.Target.Node-1]
}

// Affected are the nodes that a fault of the target's acts on.
func (t Target) Affected() []string {
	if t.Target.Node == 0 {
		return t.Nodes
	}
	return []string{t.Node()}
}

// Component finds the target's process.
func (t Target) Component(ctx context.Context) (cluster.Component, error) {
	id := string(t.Class)
	switch t.Class {
	case scenario.Kubelet:
		id = "kubelet@" + t.Node()
	case scenario.NodeDriver:
		id = "driver@" + t.Node() + "/" + t.Driver
	case scenario.Attacher, scenario.DriverController:
		id += "@" + t.Driver
	}
	all, err := t.Cluster.Components(ctx)
	if err != nil {
		return nil, err
	}
	for _, c := range all {
		if c.ID() == id {
			return c, nil
		}
	}
	return nil, fmt.Errorf("no component %q in this cluster", id)
}

var all = map[string]Fault{}

// define registers a fault whose parameters are of type P; it is for init functions. It panics on what would only be found in a run.
func define[P any](f Fault, defaults P, inject func(context.Context, Target, *rand.Rand, *P) (Heal, error)) {
	if f.Name == "" || f.Doc == "" || len(f.Targets) == 0 || all[f.Name].Name != "" {
		panic(fmt.Sprintf("chaos: fault %q: want a name of its own, a doc and targets", f.Name))
	}
	if f.Supports == nil {
		f.Supports = func(cluster.Cluster) error { return nil }
	}
	f.New = func() any { p := defaults; return &p }
	f.Inject = func(ctx context.Context, t Target, r *rand.Rand, params any) (Heal, error) {
		p, ok := params.(*P)
		if !ok {
			return nil, fmt.Errorf("fault %q: want parameters of type %T, got %T", f.Name, p, params)
		}
		return inject(ctx, t, r, p)
	}
	all[f.Name] = f
}

// none is the type of parameters that there are none of.
type none struct{}

// Names lists all faults, sorted.
func Names() []string { return slices.Sorted(maps.Keys(all)) }

// Find returns a fault; false when there is none of that name.
func Find(name string) (Fault, bool) {
	f, ok := all[name]
	return f, ok
}

// Types are all faults as scenarios may name them.
func Types() map[string]scenario.FaultType {
	types := map[string]scenario.FaultType{}
	for name, f := range all {
		types[name] = scenario.FaultType{Targets: f.Targets, New: f.New}
	}
	return types
}

// interposer is a cluster with a gate before each driver.
type interposer interface {
	AddRule(ctx context.Context, node, driver string, rule gate.Rule) (id string, err error)
	RemoveRule(ctx context.Context, node, driver, id string) error
}

// registry is a cluster whose drivers' sockets and registrations can be reached.
type registry interface {
	SetSocket(ctx context.Context, node, driver, socket string, there bool) error
	Register(ctx context.Context, node, driver string, surge bool) error
}

// network is a cluster whose components each have a way of their own to the API server.
type network interface {
	SetEndpoint(ctx context.Context, component, mode string) error
	SetLatency(ctx context.Context, component string, latency time.Duration) error
}

// versioned is a cluster whose components can go on with other executables; the error says why these cannot be had.
type versioned interface {
	OtherVersions() error
}

// needsVersions is the Supports of faults that swap executables.
func needsVersions(c cluster.Cluster) error {
	v, ok := c.(versioned)
	if !ok {
		return errors.New("this cluster has no components that change their version while it runs")
	}
	return v.OtherVersions()
}

// needs makes a Supports of an interface that the cluster must have.
func needs[I any](what string) func(cluster.Cluster) error {
	return func(c cluster.Cluster) error {
		if _, ok := c.(I); !ok {
			return fmt.Errorf("this cluster has no %s", what)
		}
		return nil
	}
}

var (
	needsGate     = needs[interposer]("gate before its drivers")
	needsRegistry = needs[registry]("access to its drivers' sockets")
	needsNetwork  = needs[network]("way of its own from each component to the API server")
)

// addRule puts a rule before the target's driver, and heals by removing it.
func addRule(ctx context.Context, t Target, rule gate.Rule) (Heal, error) {
	c := t.Cluster.(interposer) // Supports saw it
	id, err := c.AddRule(ctx, t.Node(), t.Driver, rule)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error { return c.RemoveRule(ctx, t.Node(), t.Driver, id) }, nil
}
