package local

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"

	"headroom/drivers"
	"headroom/drivers/gate"
	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/history"
	"headroom/e2e/framework/versions"
)

// attacherID is the component id of a driver's external-attacher.
func attacherID(driver string) string { return "csi-attacher@" + driver }

// provisionerID is the component id of a driver's external-provisioner.
func provisionerID(driver string) string { return versions.ProvisionerComponent + "@" + driver }

// addDriver starts a driver's controller, the gate in front of it, and what connects to the gate: an external-attacher, and an external-provisioner where
// the definition asks for one.
func (c *cell) addDriver(ctx context.Context, spec cluster.DriverSpec) (_ none, err error) {
	def, err := c.cfg.driver(spec.Definition)
	if err != nil {
		return none{}, fmt.Errorf("add driver %q: %w", spec.Name, err)
	}
	d := &driverController{definition: spec.Definition}
	c.mu.Lock()
	_, taken := c.drivers[spec.Name]
	if !taken {
		c.drivers[spec.Name] = d
	}
	c.mu.Unlock()
	if taken {
		return none{}, fmt.Errorf("add driver %q: it exists", spec.Name)
	}
	defer func() {
		if err != nil {
			_, undo := c.removeDriver(context.WithoutCancel(ctx), driverName{Name: spec.Name})
			err = errors.Join(err, undo)
		}
	}()
	dir := controllerDir(spec.Name)
	if err := os.MkdirAll(filepath.Join(dir, "state"), 0o755); err != nil {
		return none{}, err
	}
	if d.events, err = history.Create(c.cfg.eventsDir(), c.cfg.Run, history.PrefixCSI+"controller/"+spec.Name); err != nil {
		return none{}, err
	}
	options := gate.Options{Listen: filepath.Join(dir, "csi.sock"), DriverName: spec.Name, History: d.events}
	socket := filepath.Join(dir, "driver.sock")
	if def.HasController() {
		options.Driver = "unix://" + socket
	} else {
		// Each node's driver serves its own attachments, so a call goes where its node is; one that names no node may go to any.
		options.Route = func(nodeID string) string { return c.route(nodeID, spec.Name) }
	}
	if options.Stage, err = def.Stage(context.Background(), drivers.Instance{Backend: "http://" + quotaData}, "", gateLog); err != nil {
		return none{}, err
	}
	if d.gate, err = gate.New(options); err != nil {
		return none{}, err
	}
	serve := func() { report("gate of driver "+spec.Name, d.gate.Serve(context.Background())) }
	if !def.HasController() {
		go serve()
		return none{}, nil // addNode starts the attacher, which ends when no driver answers it
	}
	// The attacher starts beside the controller. Until that listens the gate has its socket but answers nothing, for which an attacher waits; it ends
	// when it is told that there is no driver.
	starting, cancel := context.WithCancel(ctx)
	defer cancel()
	attacher := make(chan error, 1)
	go func() { attacher <- c.startAttacher(starting, d, spec.Name) }()
	if err := c.startController(ctx, d, def, spec.Name, socket); err != nil {
		cancel()
		<-attacher // whatever it met, the controller was the cause
		return none{}, &cluster.DriverError{Driver: spec.Name, Err: err}
	}
	go serve()
	if def.Dynamic() {
		err = c.startProvisioner(ctx, d, spec.Name)
	}
	return none{}, errors.Join(<-attacher, err)
}

// route is where the driver of a node listens; of any node that runs the driver when nodeID is empty. "" where none does.
func (c *cell) route(nodeID, driver string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.nodes {
		if (nodeID == "" || nodeID == n.name) && slices.Contains(n.drivers, driver) {
			return "unix://" + driverSocket(n.name, driver)
		}
	}
	return ""
}

func (c *cell) startController(ctx context.Context, d *driverController, def *drivers.Definition, name, socket string) error {
	p := c.process("driver-controller@"+name, "", func(release versions.Version) (*exec.Cmd, error) {
		def, err := c.cfg.release(d.definition, release)
		if err != nil {
			return nil, err
		}
		return def.ControllerCommand(drivers.Instance{
			Endpoint: "unix://" + socket, DriverName: name, StateDir: filepath.Join(controllerDir(name), "state"),
			Backend: "http://" + quotaData, Seed: c.cfg.Seed,
		})
	})
	p.ready(def.ControllerStart(), socket, &c.cfg)
	d.controller = p
	if err := p.start(ctx, ""); err != nil {
		return err
	}
	if err := drivers.Identify(ctx, socket, name, def.Wanted(), c.cfg.scale()); err != nil {
		return fmt.Errorf("%w%s", err, p.tail())
	}
	return nil
}

// startAttacher starts the driver's external-attacher, once.
func (c *cell) startAttacher(ctx context.Context, d *driverController, name string) error {
	d.starting.Lock()
	defer d.starting.Unlock()
	if d.attacher != nil {
		return nil
	}
	p, err := c.startSidecar(ctx, versions.AttacherComponent, attacherID(name), attacherGroup, name)
	d.attacher = p
	return err
}

// startProvisioner starts the driver's external-provisioner. It elects no leader, and has the other defaults of its deployment: a call may take 10 s.
func (c *cell) startProvisioner(ctx context.Context, d *driverController, name string) error {
	p, err := c.startSidecar(ctx, versions.ProvisionerComponent, provisionerID(name), provisionerGroup, name)
	d.provisioner = p
	return err
}

// startSidecar starts a program that stands beside a driver's controller, behind the gate, with the rights of a group. nil when it does not start.
func (c *cell) startSidecar(ctx context.Context, component, id, group, driver string) (*process, error) {
	kubeconfig, err := c.componentKubeconfig(id, id, group)
	if err != nil {
		return nil, err
	}
	port := c.ports(1)
	p := c.process(id, component, c.binaries.command(component,
		"--csi-address", filepath.Join(controllerDir(driver), "csi.sock"), "--kubeconfig", kubeconfig, "--http-endpoint", "127.0.0.1:"+strconv.Itoa(port), "--v", "4"))
	p.healthy = healthz(http.DefaultClient, fmt.Sprintf("http://127.0.0.1:%d/metrics", port))
	// A sidecar ends itself ("Lost connection to CSI driver") when its first connection takes longer than a second, as it can where everything
	// starts at once on a few processors. Its deployment would start it again.
	if err := p.insist(ctx, sidecarStarts); err != nil {
		c.forget(p)
		return nil, err
	}
	return p, nil
}

// sidecarStarts is how often the start of a sidecar is tried.
const sidecarStarts = 5

// driverName names a driver to remove.
type driverName struct {
	Name string `json:"name"`
}

func (c *cell) removeDriver(ctx context.Context, r driverName) (none, error) {
	c.mu.Lock()
	d := c.drivers[r.Name]
	delete(c.drivers, r.Name)
	c.mu.Unlock()
	if d == nil {
		return none{}, nil
	}
	d.starting.Lock()
	attacher := d.attacher
	d.starting.Unlock()
	for _, p := range []*process{attacher, d.provisioner, d.controller} {
		if p != nil {
			_ = p.stop(ctx, cluster.Terminate) // stop of a process never fails
			c.forget(p)
		}
	}
	c.closeEndpoint(attacherID(r.Name))
	c.closeEndpoint(provisionerID(r.Name))
	return none{}, errors.Join(d.closeGate(), os.RemoveAll(controllerDir(r.Name)))
}
