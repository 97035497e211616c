// Package cluster is the contract between a run and the cluster that it runs on.
//
// A Provider makes clusters; a Cluster lists its parts and lends them; a Component is one part that can be stopped, started at another
// version, paused. Providers live in the packages below this one. The contract says nothing of what is tested: no pods, no faults, no verdicts.
package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"k8s.io/client-go/rest"

	"headroom/e2e/framework/scenario"
	"headroom/e2e/framework/versions"
)

// Provider makes clusters of one kind.
type Provider interface {
	Name() string
	// Create returns a cluster whose control plane is healthy and whose nodes are Ready. On error nothing is left behind.
	Create(context.Context, scenario.Topology) (Cluster, error)
}

// Cluster is a running cluster.
type Cluster interface {
	// RESTConfig returns a copy of the administrator's configuration.
	RESTConfig() *rest.Config
	// Backend returns where the quota backend's control interface answers, and a client that reaches it.
	Backend() (url string, client *http.Client)
	// Components lists every part, in the order of starting.
	Components(context.Context) ([]Component, error)
	// Reserve returns names for nodes that AddNode shall add, in the order of the specs. Where nodes exist from the start it lends some, all or none,
	// after waiting for those that others have; RemoveNode gives them back. What this cluster can never give is an *UnsupportedError.
	Reserve(context.Context, []NodeSpec) ([]string, error)
	// AddNode starts a node with the given drivers on it and returns when it is Ready and each driver is registered.
	AddNode(context.Context, NodeSpec) error
	// RemoveNode stops a node and deletes its Node object. Removing a node that is gone is no error.
	RemoveNode(ctx context.Context, name string) error
	// AddDriver starts what a driver needs once a cluster: its controller, an external-attacher, and an external-provisioner where the definition has dynamic
	// volumes. The CSIDriver object is the caller's.
	AddDriver(context.Context, DriverSpec) error
	// RemoveDriver stops it again. Nodes that run the driver go first.
	RemoveDriver(ctx context.Context, name string) error
	// Collect writes what is known only inside (logs, histories) to dir; it may be called more than once.
	Collect(ctx context.Context, dir string) error
	// Destroy ends the cluster and everything in it. It works on a broken cluster and after its own failure.
	Destroy(context.Context) error

	// Done is closed when the cluster has ended, whoever ended it; nil in a process that attached to the cluster.
	Done() <-chan struct{}
	// Answers is nil while the cluster lives.
	Answers(context.Context) error
	// AwaitEnd returns when the cluster is gone, or the process that made it, for a process that attached to it.
	AwaitEnd()
	// Handle is what the provider's Attach needs in another process.
	Handle() json.RawMessage
}

// NodeSpec is a node to start.
type NodeSpec struct {
	Name string
	// Zone becomes topology.kubernetes.io/zone, when set.
	Zone string
	// Labels are further labels of the Node.
	Labels map[string]string
	// Drivers are names of drivers that AddDriver has started.
	Drivers []string
	// Limit is how many volumes of each the node takes, for drivers that are given it when they start.
	Limit int64
	// Kubelet is the kubelet's version; zero means the topology's.
	Kubelet versions.Version
}

// DriverSpec is a driver to start.
type DriverSpec struct {
	// Name is the CSI driver name, at most 63 characters.
	Name string
	// Definition is the driver under test as --driver names it.
	Definition string
}

// Stored is one change of what the API server keeps, as the store has it.
type Stored struct {
	// Key is the object's place: "/registry/pods/<namespace>/<name>".
	Key string
	// Rev is the revision of the change.
	Rev int64
	// Created and Deleted say what the change was; neither is an update.
	Created, Deleted bool
	// Value is the object after the change, or before it when it was deleted, encoded as the API server encodes it.
	Value []byte
}

// Remembering is a Cluster whose store can tell what changed, whatever became of the API server.
type Remembering interface {
	// Changes lists every change after one revision and up to another, which must exist, in order. The error says what is no longer known.
	Changes(ctx context.Context, after, upTo int64) ([]Stored, error)
}

// Signal is a way to stop a component.
type Signal string

const (
	// Terminate asks the component to end and waits; after 10 s it is killed.
	Terminate Signal = "TERM"
	// Brief asks it to end and kills it after a second: enough to end the requests at hand, not to wait for watches, which takes an API server a minute.
	Brief Signal = "BRIEF"
	// Kill ends it at once.
	Kill Signal = "KILL"
)

// Component is one part of a cluster: "etcd", "kube-apiserver", "kube-scheduler", "kubelet@n1", "driver@n1/<driver>",
// "csi-attacher@<driver>", "csi-provisioner@<driver>", "driver-controller@<driver>".
type Component interface {
	ID() string
	Version() versions.Version
	// Stop returns once the component is gone.
	Stop(ctx context.Context, how Signal) error
	// Start returns once the component is healthy. Another version is an upgrade or a rollback; the zero version is the one it had.
	Start(ctx context.Context, v versions.Version) error
	// Pause stops the component's processes where they stand (SIGSTOP); Resume lets them go on.
	Pause(context.Context) error
	Resume(context.Context) error
}

// Restarter is a Component that cannot stay away, because something else starts it again as soon as it has ended: its Stop is an *UnsupportedError.
type Restarter interface {
	// Restart ends the component in the way given, and returns once it is healthy again.
	Restart(ctx context.Context, how Signal) error
}

// Restart ends a component and has it started again at once, at the version that it had. It returns once it is healthy.
func Restart(ctx context.Context, c Component, how Signal) error {
	if r, ok := c.(Restarter); ok {
		return r.Restart(ctx, how)
	}
	if err := c.Stop(ctx, how); err != nil {
		return err
	}
	return c.Start(ctx, "")
}

// UnsupportedError is a wish that a provider, or the driver under test, can never fulfil: a reason to skip what needs it, no failure of anything.
type UnsupportedError struct {
	// Provider is "" when the reason is the driver's.
	Provider string
	// Why completes "skipped: ".
	Why string
}

func (e *UnsupportedError) Error() string {
	if e.Provider == "" {
		return e.Why
	}
	return fmt.Sprintf("provider %s: %s", e.Provider, e.Why)
}

// EnvironmentError is a failure of the harness or of the machine, never of the product under test.
type EnvironmentError struct {
	// Op is what was being done: "start kube-apiserver".
	Op string
	// Err is the cause.
	Err error
	// Remedy is the command or change that mends it, when known.
	Remedy string
}

func (e *EnvironmentError) Error() string {
	s := fmt.Sprintf("environment: %s: %v", e.Op, e.Err)
	if e.Remedy != "" {
		s += "\n  remedy: " + e.Remedy
	}
	return s
}

func (e *EnvironmentError) Unwrap() error { return e.Err }

// InputError is a mistake in what the user gave: a flag, a file, a directory. It is found before anything starts, but for manifests that only an API
// server can refuse.
type InputError struct {
	Err error
	// Remedy is what to do instead, when known.
	Remedy string
}

func (e *InputError) Error() string {
	if e.Remedy == "" {
		return e.Err.Error()
	}
	return e.Err.Error() + "\n  remedy: " + e.Remedy
}

func (e *InputError) Unwrap() error { return e.Err }

// DriverError is a driver under test that does not come up: it ended, or never registered. It is the product's failure, not the harness's.
type DriverError struct {
	// Driver is the CSI driver name.
	Driver string
	// Node is where it happened; empty for the controller.
	Node string
	Err  error
}

func (e *DriverError) Error() string {
	where := "controller"
	if e.Node != "" {
		where = "node " + e.Node
	}
	return fmt.Sprintf("driver %s (%s): %v", e.Driver, where, e.Err)
}

func (e *DriverError) Unwrap() error { return e.Err }

// Environment wraps err as an EnvironmentError; nil, an EnvironmentError, a DriverError, an UnsupportedError and an InputError stay as they are.
func Environment(op string, err error) error {
	var env *EnvironmentError
	var driver *DriverError
	var unsupported *UnsupportedError
	var input *InputError
	if err == nil || errors.As(err, &input) || errors.As(err, &env) || errors.As(err, &driver) || errors.As(err, &unsupported) {
		return err
	}
	return &EnvironmentError{Op: op, Err: err}
}
