package drivercheck

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"headroom/drivers"
	"headroom/e2e/framework/cluster"
	"headroom/fixtures/quota"
)

const (
	// ownNode is the node of a driver that is started here, ownLimit what its backend lets be attached.
	ownNode  = "n1"
	ownLimit = 6
	// givenLimit is what a driver is told that is given its limit at its start.
	givenLimit = 3
	// deathLimit is how long a process may take to end once it has dropped its connections.
	deathLimit = 5 * time.Second
	// stopLimit is how long a process may take to end before it is killed.
	stopLimit = 10 * time.Second
	// tailBytes is how much of a log goes into a message.
	tailBytes = 2 << 10
)

// own are the backend and the processes of a driver that is started here, in a folder of their own.
type own struct {
	def *drivers.Definition
	// name is the CSI driver's name.
	name      string
	dir       string
	stop      context.CancelFunc
	served    chan error
	backend   string
	lever     lever
	processes []*process
}

// process is one process of the driver.
type process struct {
	name    string
	command func() (*exec.Cmd, error)
	socket  string
	start   drivers.Start
	log     string

	cmd  *exec.Cmd
	done chan struct{}
}

// start starts a backend and the driver of the definition, and fills in where it serves.
func (s *session) start(ctx context.Context) (err error) {
	o := &own{def: s.Definition, name: "check." + s.Definition.Name + ".headroom.test"}
	s.own = o
	if o.dir, err = os.MkdirTemp("", "hr"); err != nil { // short: a socket's path holds 107 bytes
		return cluster.Environment("make a folder for the driver", err)
	}
	if err := o.serveQuota(ctx); err != nil {
		return cluster.Environment("start a quota backend", err)
	}
	i := drivers.Instance{
		Endpoint: "unix://" + filepath.Join(o.dir, "n.sock"), DriverName: o.name, NodeID: ownNode,
		StateDir: filepath.Join(o.dir, "n"), Backend: o.backend, Seed: 1, Limit: givenLimit,
	}
	o.add("node", i, s.Definition.NodeCommand, s.Definition.NodeStart())
	if s.Definition.HasController() {
		i.Endpoint, i.NodeID, i.StateDir = "unix://"+filepath.Join(o.dir, "c.sock"), "", filepath.Join(o.dir, "c")
		o.add("controller", i, s.Definition.ControllerCommand, s.Definition.ControllerStart())
	}
	for _, p := range o.processes {
		if err := s.launch(ctx, p); err != nil {
			return err
		}
	}
	s.nodeSocket, s.controllerSocket = o.processes[0].socket, o.processes[len(o.processes)-1].socket
	return nil
}

func (o *own) add(name string, i drivers.Instance, command func(drivers.Instance) (*exec.Cmd, error), start drivers.Start) {
	o.processes = append(o.processes, &process{
		name: name, socket: strings.TrimPrefix(i.Endpoint, "unix://"), start: start, log: filepath.Join(o.dir, name+".log"),
		command: func() (*exec.Cmd, error) {
			if err := os.MkdirAll(i.StateDir, 0o755); err != nil {
				return nil, cluster.Environment("make the driver's state folder", err)
			}
			return command(i)
		},
	})
}

// serveQuota starts a quota backend that knows the node, and chooses the lever that goes with the definition.
func (o *own) serveQuota(ctx context.Context) error {
	ctx, o.stop = context.WithCancel(context.WithoutCancel(ctx))
	ready := make(chan [2]string, 1)
	o.served = make(chan error, 1)
	service := quota.Service{Data: "127.0.0.1:0", Control: "unix:" + filepath.Join(o.dir, "q.sock"), Ready: func(data, control string) { ready <- [2]string{data, control} }}
	go func() { o.served <- service.Serve(ctx) }()
	select {
	case at := <-ready:
		control := quota.NewControl(at[1], nil)
		o.backend = at[0]
		switch o.def.Limit {
		case drivers.LimitBackend:
			o.lever = &backendLever{control: control}
		case drivers.LimitOwn:
			o.lever = &causeLever{def: o.def}
		}
		return control.AddNode(ctx, ownNode, quota.NodeConfig{Limit: ownLimit})
	case err := <-o.served:
		o.served <- nil
		return err
	}
}

// launch starts a process and waits until it is ready. One that does not come up is the driver's failure.
func (s *session) launch(ctx context.Context, p *process) error {
	cmd, err := p.command()
	var env *cluster.EnvironmentError
	if errors.As(err, &env) {
		return err
	} else if err != nil {
		return badInput("see what is wrong with: headroom driver lint", "%w", err)
	}
	out, err := os.OpenFile(p.log, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		return cluster.Environment("open the driver's log", err)
	}
	defer out.Close() // the process has its own
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return badInput("see what is wrong with: headroom driver lint", "start the driver's %s process: %w", p.name, err)
	}
	p.cmd, p.done = cmd, make(chan struct{})
	go func(done chan struct{}) {
		_ = cmd.Wait() // ProcessState says how it ended
		close(done)
	}(p.done)
	limit := p.start.Within(s.Scale)
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		err := p.start.Check(bounded, p.socket)
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
		case <-bounded.Done():
		case <-time.After(10 * time.Millisecond):
		}
		switch {
		case p.ended():
			return s.startFailure(p, fmt.Errorf("it ended by itself (%s)", cmd.ProcessState))
		case ctx.Err() != nil:
			return ctx.Err()
		case bounded.Err() != nil:
			return s.startFailure(p, fmt.Errorf("it was not ready within %s: %w", limit, err))
		}
	}
}

func (s *session) startFailure(p *process, err error) error {
	return &cluster.DriverError{Driver: s.Definition.Name, Node: map[string]string{"node": ownNode}[p.name], Err: fmt.Errorf("%w%s", err, p.tail())}
}

// ended says whether a process that was started has ended.
func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// awaitDeath waits a little for a process of the driver's to end, which dropped a connection: how it ended is what its author wants to know.
func (s *session) awaitDeath() {
	if s.own == nil {
		return
	}
	for deadline := time.Now().Add(s.scaled(deathLimit)); s.own.tail() == "" && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond)
	}
}

// end ends a process, and what it started.
func (p *process) end() {
	if p.cmd == nil {
		return
	}
	group := -p.cmd.Process.Pid
	_ = syscall.Kill(group, syscall.SIGTERM) // gone already is as good
	select {
	case <-p.done:
	case <-time.After(stopLimit):
	}
	_ = syscall.Kill(group, syscall.SIGKILL)
	<-p.done
	p.cmd = nil
}

func (p *process) tail() string {
	b, err := os.ReadFile(p.log)
	if err != nil || len(b) == 0 {
		return "; its log is empty"
	}
	return "\n  the end of its log:\n    " + strings.ReplaceAll(strings.TrimSpace(string(b[max(0, len(b)-tailBytes):])), "\n", "\n    ")
}

func (o *own) tail() string {
	var out strings.Builder
	for _, p := range o.processes {
		if p.cmd != nil && p.ended() {
			out.WriteString("\n  its " + p.name + " process ended (" + p.cmd.ProcessState.String() + ")" + p.tail())
		}
	}
	return out.String()
}

func (o *own) close() error {
	for _, p := range o.processes {
		p.end()
	}
	var err error
	if o.stop != nil {
		o.stop()
		err = <-o.served
	}
	return errors.Join(err, os.RemoveAll(o.dir))
}

// restart ends the driver on the node and starts it again; errCannot where nobody can.
func (s *session) restart(ctx context.Context) error {
	switch {
	case s.own != nil:
		p := s.own.processes[0]
		p.end()
		if err := s.launch(ctx, p); err != nil {
			return err
		}
	case s.Definition != nil && s.Definition.Causes.Restart != nil:
		if err := s.Definition.Do(ctx, *s.Definition.Causes.Restart, s.nodeID, 0, 0); err != nil {
			return cluster.Environment("causes.restart", err)
		}
		if err := s.awaitSocket(ctx); err != nil {
			return err
		}
	default:
		return cannot("a running driver can be restarted by causes.restart of its definition only")
	}
	s.restarts++
	for _, c := range s.conns {
		if err := c.Close(); err != nil {
			return err
		}
	}
	s.conns = nil
	return s.dial(ctx)
}

// awaitSocket waits for a driver that somebody else starts again.
func (s *session) awaitSocket(ctx context.Context) error {
	limit := drivers.Start{}.Within(s.Scale)
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		err := look(bounded, s.nodeSocket)
		if err == nil {
			return nil
		}
		if pause(bounded, 50*time.Millisecond) != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return &cluster.DriverError{Driver: s.name, Node: s.nodeID, Err: fmt.Errorf("it did not come back within %s of causes.restart: %w", limit, err)}
		}
	}
}
