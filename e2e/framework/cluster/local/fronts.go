package local

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"headroom/drivers/gate"
	"headroom/drivers/gate/registrar"
	"headroom/e2e/framework/cluster"
)

// This file is where faults reach what stands in front of a driver: the rules of its gates, its two sockets, its registration.

// frontRequest is one change of a driver's front. Node is "" for the driver's controller.
type frontRequest struct {
	Node   string `json:"node"`
	Driver string `json:"driver"`
	// Do is add-rule, remove-rule, unlink, link, surge or register.
	Do     string    `json:"do"`
	Rule   gate.Rule `json:"rule,omitzero"`
	ID     string    `json:"id,omitempty"`     // of the rule to remove
	Socket string    `json:"socket,omitempty"` // for unlink and link: SocketCSI or SocketRegistration
}

// frontAnswer names what was added.
type frontAnswer struct {
	ID string `json:"id,omitempty"`
}

// Sockets of a driver on a node.
const (
	SocketCSI          = "csi"          // what the kubelet calls the driver at
	SocketRegistration = "registration" // what the kubelet finds the driver by
)

// front is what stands before one driver on one node, or before its controller.
type front struct {
	gate *gate.Gate
	// paths are the sockets by name; a controller has none here.
	paths   map[string]string
	options registrar.Options

	mu        sync.Mutex
	registrar *registrar.Registrar // nil until the driver is registered for the first time
	rules     map[string]func()
	count     int
}

// apply carries out one request.
func (f *front) apply(ctx context.Context, r frontRequest) (frontAnswer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch r.Do {
	case "add-rule":
		f.count++
		id := strconv.Itoa(f.count)
		if f.rules == nil {
			f.rules = map[string]func(){}
		}
		f.rules[id] = f.gate.Rules().Add(r.Rule)
		return frontAnswer{ID: id}, nil
	case "remove-rule":
		remove, ok := f.rules[r.ID]
		if !ok {
			return frontAnswer{}, fmt.Errorf("driver %q has no rule %q", r.Driver, r.ID)
		}
		remove()
		delete(f.rules, r.ID)
		return frontAnswer{}, nil
	case "unlink", "link":
		path, ok := f.paths[r.Socket]
		if !ok {
			return frontAnswer{}, fmt.Errorf("driver %q: socket %q: want %q or %q of a node", r.Driver, r.Socket, SocketCSI, SocketRegistration)
		}
		return frontAnswer{}, moveSocket(path, f.hidden(r.Socket), r.Do == "unlink")
	case "surge", "register":
		if f.registrar == nil {
			return frontAnswer{}, fmt.Errorf("driver %q was never registered here", r.Driver)
		}
		return frontAnswer{}, f.register(ctx, r.Do == "surge")
	}
	return frontAnswer{}, fmt.Errorf("driver %q: cannot %q", r.Driver, r.Do)
}

// hidden is where a socket stays reachable for link while its own path is gone. It lies beside the CSI socket, where the kubelet looks for nothing.
func (f *front) hidden(socket string) string { return f.paths[SocketCSI] + "." + socket }

// moveSocket takes a socket's path away, or gives it back. Whoever is connected stays so: a hard link keeps the socket, and the kubelet, which watches
// the folder, sees a removal and a creation.
func moveSocket(path, hidden string, away bool) error {
	from, to := path, hidden
	if !away {
		from, to = hidden, path
	}
	if err := os.Link(from, to); err != nil {
		return fmt.Errorf("move socket %q: %w", path, err)
	}
	return os.Remove(from)
}

// register serves the registration socket anew, as a new instance of the driver does. With surge the earlier instance ends after the new one has
// taken the path, and unlinks what it believes to be its own socket. Without it returns once the kubelet has registered the driver.
func (f *front) register(ctx context.Context, surge bool) error {
	old := f.registrar
	if !surge {
		if err := old.Close(); err != nil {
			return err
		}
	}
	r, err := f.serve()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := r.Wait(ctx); err != nil || !surge {
		return err
	}
	return old.Close()
}

// open registers the driver for the first time.
func (f *front) open() (*registrar.Registrar, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.serve()
}

// serve takes the registration socket's path; the lock is held.
func (f *front) serve() (*registrar.Registrar, error) {
	r, err := registrar.New(f.options)
	if err != nil {
		return nil, err
	}
	f.registrar = r
	go func() { report("registrar of driver "+f.options.DriverName, r.Serve(context.Background())) }()
	return r, nil
}

// close ends the registration.
func (f *front) close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.registrar == nil {
		return nil
	}
	return f.registrar.Close()
}

// setFront changes the front of a driver: its controller's here, a node's through the node's agent.
func (c *cell) setFront(ctx context.Context, r frontRequest) (answer frontAnswer, err error) {
	c.mu.Lock()
	n, d := c.nodes[r.Node], c.drivers[r.Driver]
	c.mu.Unlock()
	switch {
	case r.Node == "" && d != nil && d.gate != nil:
		return d.front().apply(ctx, r)
	case n != nil:
		err = n.control.call(ctx, "/front", r, &answer)
		return answer, err
	}
	return answer, fmt.Errorf("no driver %q on node %q in this cluster", r.Driver, r.Node)
}

// setFront is the node's part of it.
func (a *agent) setFront(ctx context.Context, r frontRequest) (frontAnswer, error) {
	<-a.ready
	f, ok := a.fronts[r.Driver]
	if !ok {
		return frontAnswer{}, fmt.Errorf("no driver %q on node %q", r.Driver, a.cfg.Node)
	}
	return f.apply(ctx, r)
}

// front is the front of a driver's controller.
func (d *driverController) front() *front {
	d.starting.Lock()
	defer d.starting.Unlock()
	if d.before == nil {
		d.before = &front{gate: d.gate}
	}
	return d.before
}

// newFront is the front of a driver on a node.
func newFront(g *gate.Gate, csi string, o registrar.Options) *front {
	return &front{gate: g, options: o, paths: map[string]string{SocketCSI: csi, SocketRegistration: o.Socket}}
}

// AddRule adds a rule to the gate before a driver on a node, or before its controller when node is "". The id is for RemoveRule.
func (c *Cluster) AddRule(ctx context.Context, node, driver string, rule gate.Rule) (id string, err error) {
	var answer frontAnswer
	err = c.setFront(ctx, frontRequest{Node: node, Driver: driver, Do: "add-rule", Rule: rule}, &answer)
	return answer.ID, err
}

// RemoveRule removes it, and lets calls go that it holds.
func (c *Cluster) RemoveRule(ctx context.Context, node, driver, id string) error {
	return c.setFront(ctx, frontRequest{Node: node, Driver: driver, Do: "remove-rule", ID: id}, nil)
}

// SetSocket takes the path of a driver's socket on a node away, or gives it back. Without the registration's the kubelet deregisters the driver.
func (c *Cluster) SetSocket(ctx context.Context, node, driver, socket string, there bool) error {
	do := map[bool]string{true: "link", false: "unlink"}[there]
	return c.setFront(ctx, frontRequest{Node: node, Driver: driver, Do: do, Socket: socket}, nil)
}

// Register registers a driver on a node once more, with a new socket at the same path. With surge the earlier instance ends afterwards and unlinks the
// path, so that the driver is deregistered though it runs.
func (c *Cluster) Register(ctx context.Context, node, driver string, surge bool) error {
	do := map[bool]string{true: "surge", false: "register"}[surge]
	return c.setFront(ctx, frontRequest{Node: node, Driver: driver, Do: do}, nil)
}

func (c *Cluster) setFront(ctx context.Context, r frontRequest, out any) error {
	what := fmt.Sprintf("%s of driver %s on %s", r.Do, r.Driver, filepath.Base("/"+r.Node))
	return cluster.Environment(what, c.control.call(ctx, "/front", r, out))
}
