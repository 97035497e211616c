package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"headroom/drivers"
	"headroom/drivers/gate"
	"headroom/drivers/gate/registrar"
	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/cluster/local/cri"
	"headroom/e2e/framework/history"
	"headroom/e2e/framework/unixsocket"
	"headroom/e2e/framework/versions"
)

// containerStart is how long a container takes to start, less than with any real runtime.
const containerStart = 200 * time.Millisecond

// agent holds one node: its mount namespace, container runtime, registrars and gates. The kubelet and the drivers are its children, so that
// they can be swapped while mounts and pods stay.
type agent struct {
	cfg      nodeConfig
	binaries *executables
	events   *history.Writer // what happens to this node's components
	calls    *history.Writer // CSI calls of this node

	processes []*process
	gates     []*gate.Gate
	fronts    map[string]*front // by driver

	ready    chan struct{}
	readyErr error
	giveUp   context.CancelFunc // ends the boot
}

// nodeMain is a node agent: the first process of a node's mount namespace.
func nodeMain([]string) int {
	a := &agent{fronts: map[string]*front{}, ready: make(chan struct{})}
	if err := a.open(os.Stdin); err != nil {
		fmt.Fprintf(os.Stderr, "headroom: node: %v\n", err)
		return 1
	}
	listener, err := net.Listen("unix", filepath.Join(nodeDir(a.cfg.Node), "agent.sock"))
	if err != nil {
		fmt.Fprintf(os.Stderr, "headroom: node: %v\n", err)
		return 1
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	ctx, cancel := context.WithCancel(context.Background())
	a.giveUp = cancel
	go func() {
		a.readyErr = a.boot(ctx)
		close(a.ready)
	}()
	go func() {
		<-stop
		os.Exit(a.shutdown())
	}()
	err = http.Serve(listener, a.handler())
	fmt.Fprintf(os.Stderr, "headroom: node: control socket: %v\n", err)
	return 1
}

func (a *agent) open(in io.Reader) error {
	if err := json.NewDecoder(in).Decode(&a.cfg); err != nil {
		return fmt.Errorf("read configuration: %w", err)
	}
	if err := isolateNode(a.cfg.Node); err != nil {
		return err
	}
	cell := a.cfg.Cell
	a.binaries = &executables{paths: cell.Binaries, gates: cell.Gates}
	var err error
	if a.events, err = history.Create(cell.eventsDir(), cell.Run, history.PrefixComponent+a.cfg.Node); err != nil {
		return err
	}
	a.calls, err = history.Create(cell.eventsDir(), cell.Run, history.PrefixCSI+a.cfg.Node)
	return err
}

// boot starts the runtime, the drivers with their gates and registrars, and the kubelet, and waits until each driver is registered.
func (a *agent) boot(ctx context.Context) error {
	socket := filepath.Join(nodeDir(a.cfg.Node), "cri.sock")
	pods := netip.AddrFrom4([4]byte{10, byte(128 + a.cfg.Index/256), byte(a.cfg.Index), 0})
	runtime := cri.New(cri.Options{PodCIDR: netip.PrefixFrom(pods, 24), StartTime: containerStart})
	listener, err := unixsocket.Listen(socket)
	if err != nil {
		return err
	}
	go func() { report("container runtime", runtime.ServeListener(context.Background(), listener)) }()
	kubelet, err := a.prepareKubelet(socket)
	if err != nil {
		return err
	}
	starts := []func(context.Context) error{func(ctx context.Context) error { return kubelet.start(ctx, "") }}
	for _, d := range a.cfg.Drivers {
		start, err := a.prepareDriver(d, kubelet)
		if err != nil {
			return err
		}
		starts = append(starts, start)
	}
	return together(ctx, starts...)
}

// prepareDriver opens a driver's gate and registration socket and returns the function that starts the driver behind them.
func (a *agent) prepareDriver(d nodeDriver, kubelet *process) (func(context.Context) error, error) {
	cell := a.cfg.Cell
	def, err := cell.driver(d.Definition)
	if err != nil {
		return nil, fmt.Errorf("driver %q: %w", d.Name, err)
	}
	backend := driverSocket(a.cfg.Node, d.Name)
	csi := filepath.Join(kubeletDir, "plugins", d.Name, "csi.sock")
	state := driverState(a.cfg.Node, d.Name)
	registry := filepath.Join(kubeletDir, "plugins_registry")
	for _, dir := range []string{filepath.Dir(backend), filepath.Dir(csi), state, registry} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
	}
	i := drivers.Instance{
		Endpoint: "unix://" + backend, DriverName: d.Name, NodeID: a.cfg.Node, Zone: a.cfg.Zone, StateDir: state,
		Backend: "http://" + quotaData, Seed: cell.Seed + int64(a.cfg.Index), Limit: a.cfg.Limit,
	}
	// As long as this process; the state of the driver itself is the driver's.
	stage, err := def.Stage(context.Background(), i, state+"-gate", gateLog)
	if err != nil {
		return nil, fmt.Errorf("driver %q: %w", d.Name, err)
	}
	g, err := gate.New(gate.Options{Listen: csi, Driver: i.Endpoint, DriverName: d.Name, Node: a.cfg.Node, History: a.calls, Stage: stage})
	if err != nil {
		return nil, err
	}
	go func() { report("gate of driver "+d.Name, g.Serve(context.Background())) }()
	a.gates = append(a.gates, g)
	f := newFront(g, csi, registrar.Options{
		Socket: filepath.Join(registry, d.Name+"-reg.sock"), Endpoint: csi, DriverName: d.Name, Node: a.cfg.Node, History: a.calls,
	})
	a.fronts[d.Name] = f
	p := a.process("driver@"+a.cfg.Node+"/"+d.Name, "", func(release versions.Version) (*exec.Cmd, error) {
		def, err := cell.release(d.Definition, release)
		if err != nil {
			return nil, err
		}
		i := i
		i.Release = string(release)
		return def.NodeCommand(i)
	})
	p.ready(def.NodeStart(), backend, &cell)
	return func(ctx context.Context) error {
		if err := p.start(ctx, ""); err != nil {
			return &cluster.DriverError{Driver: d.Name, Node: a.cfg.Node, Err: err}
		}
		var wanted []drivers.Wanted
		if !def.HasController() {
			wanted = def.Wanted()
		}
		if err := drivers.Identify(ctx, backend, d.Name, wanted, a.cfg.Cell.scale()); err != nil {
			return &cluster.DriverError{Driver: d.Name, Node: a.cfg.Node, Err: fmt.Errorf("%w%s", err, p.tail())}
		}
		// As a registrar sidecar does: register once the driver answers.
		r, err := f.open()
		if err != nil {
			return err
		}
		return a.awaitRegistered(ctx, r, d.Name, p, kubelet)
	}, nil
}

// gateLog takes what a gate's stage has to say.
func gateLog(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "headroom: gate: "+format+"\n", args...)
}

// awaitRegistered waits until the kubelet has told the registrar that its driver is registered, or the driver has ended. A kubelet that never asks is no
// failure of the driver's.
func (a *agent) awaitRegistered(ctx context.Context, r *registrar.Registrar, name string, driver, kubelet *process) error {
	ctx, cancel := context.WithTimeout(ctx, a.cfg.Cell.startLimit(0))
	defer cancel()
	defer driver.whenEnded(cancel)()
	err := r.Wait(ctx)
	switch {
	case err == nil:
		return nil
	case driver.status().PID == 0:
		err = errors.New("it ended by itself before it was registered")
	case errors.Is(err, registrar.ErrNotAsked), kubelet.status().PID == 0:
		return fmt.Errorf("%w%s", err, kubelet.tail())
	}
	return &cluster.DriverError{Driver: name, Node: a.cfg.Node, Err: fmt.Errorf("%w%s", err, driver.tail())}
}

// report tells the agent's log of a server that ended with an error.
func report(what string, err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "headroom: node: %s: %v\n", what, err)
	}
}

func (a *agent) process(id, component string, command func(versions.Version) (*exec.Cmd, error)) *process {
	p := &process{id: id, log: a.cfg.Cell.logFile(id), command: command, events: a.events}
	if component == "kubelet" {
		p.version = a.cfg.Kubelet
	}
	a.processes = append(a.processes, p)
	return p
}

// ready sets how the process of a driver is known to have started.
func (p *process) ready(start drivers.Start, socket string, cell *cellConfig) {
	p.limit = cell.startLimit(start.Limit)
	p.healthy = func(ctx context.Context) error { return start.Check(ctx, socket) }
}

func (a *agent) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /ready", handle(func(ctx context.Context, _ none) (none, error) {
		select {
		case <-a.ready:
			return none{}, a.readyErr
		case <-ctx.Done():
			return none{}, ctx.Err()
		}
	}))
	mux.HandleFunc("POST /components", handle(func(context.Context, none) ([]componentStatus, error) {
		<-a.ready
		var all []componentStatus
		for _, p := range a.processes {
			all = append(all, p.status())
		}
		return all, nil
	}))
	mux.HandleFunc("POST /front", handle(a.setFront))
	mux.HandleFunc("POST /act", handle(func(ctx context.Context, act action) (none, error) {
		<-a.ready
		i := slices.IndexFunc(a.processes, func(p *process) bool { return p.id == act.ID })
		if i < 0 {
			return none{}, fmt.Errorf("no component %q on node %q", act.ID, a.cfg.Node)
		}
		if act.Version != "" && act.Binary != "" {
			a.binaries.add("kubelet", act.Version, act.Binary)
		}
		return none{}, act.apply(ctx, a.processes[i])
	}))
	return mux
}

// shutdown kills the kubelet and the drivers and closes the node's histories. It returns the exit code.
func (a *agent) shutdown() int {
	a.giveUp()
	<-a.ready
	var group sync.WaitGroup
	for _, p := range a.processes {
		group.Go(func() { _ = p.stop(context.Background(), cluster.Kill) }) // stop of a process never fails
	}
	group.Wait()
	var errs []error
	for _, f := range a.fronts {
		errs = append(errs, f.close())
	}
	for _, g := range a.gates {
		errs = append(errs, g.Close())
	}
	errs = append(errs, a.calls.Close(), a.events.Close())
	if err := errors.Join(errs...); err != nil {
		fmt.Fprintf(os.Stderr, "headroom: node: shutdown: %v\n", err)
		return 1
	}
	return 0
}
