package local

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/history"
	"headroom/e2e/framework/versions"
)

const (
	// startTimeout bounds the time from a process's start to its first healthy answer.
	startTimeout = 60 * time.Second
	// stopTimeout is how long a terminated process may take before it is killed, and briefTimeout how long one that is to go briefly.
	stopTimeout  = 10 * time.Second
	briefTimeout = time.Second
	// healthInterval is the time between two health checks of a starting process.
	healthInterval = 25 * time.Millisecond
)

// process is one supervised component: it can be started, stopped, paused, and started again at another version. Every change of its life is an
// event. Its children die with it when it is killed, because it leads a session and its whole process group is signalled.
type process struct {
	id      string
	log     string // file that its output is appended to
	command func(versions.Version) (*exec.Cmd, error)
	healthy func(context.Context) error
	// limit bounds the time from start to healthy; 0 means startTimeout.
	limit  time.Duration
	events *history.Writer

	mu      sync.Mutex // held over Start, Stop, Pause and Resume: one change at a time
	version versions.Version
	run     *execution // nil when stopped
}

// execution is one life of a process.
type execution struct {
	cmd      *exec.Cmd
	done     chan struct{} // closed when it has ended
	exit     error         // why, once done is closed
	stopping chan struct{} // closed when it is asked to end
}

// ended says whether the execution is over.
func (e *execution) ended() bool {
	select {
	case <-e.done:
		return true
	default:
		return false
	}
}

// start runs the process at v (the zero version is the one it had) and returns once it is healthy. A process that ends first, or is not healthy
// in time, is stopped again, and the error holds the last lines of its log.
func (p *process) start(ctx context.Context, v versions.Version) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run != nil && !p.run.ended() {
		return fmt.Errorf("start %s: it runs already, as process %d", p.id, p.run.cmd.Process.Pid)
	}
	if v != "" {
		p.version = v
	}
	if err := p.launch(); err != nil {
		return fmt.Errorf("start %s: %w", p.id, err)
	}
	began := time.Now()
	if err := p.awaitHealthy(ctx); err != nil {
		p.end(cluster.Kill)
		return fmt.Errorf("start %s: not healthy after %.1fs: %w%s", p.id, time.Since(began).Seconds(), err, p.tail())
	}
	p.event("ready", "")
	return nil
}

// insist starts a process that may end by itself before it is healthy, up to times in all.
func (p *process) insist(ctx context.Context, times int) (err error) {
	for range times {
		if err = p.start(ctx, ""); err == nil || ctx.Err() != nil {
			break
		}
	}
	return err
}

// launch starts the executable in a session of its own, with its output appended to the log.
func (p *process) launch() error {
	cmd, err := p.command(p.version)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(p.log), 0o755); err != nil {
		return err
	}
	out, err := os.OpenFile(p.log, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	defer out.Close()
	if cmd.Stdout == nil {
		cmd.Stdout = out
	}
	cmd.Stderr = out
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setsid = true
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL // a node whose agent is gone is gone
	if err := children.start(cmd); err != nil {
		return err
	}
	e := &execution{cmd: cmd, done: make(chan struct{}), stopping: make(chan struct{})}
	p.run = e
	p.event("started", "")
	go p.wait(e)
	return nil
}

// wait reaps one execution and records an end that nobody asked for.
func (p *process) wait(e *execution) {
	e.exit = children.wait(e.cmd)
	close(e.done)
	select {
	case <-e.stopping:
	default:
		p.events.Write(history.Event{Phase: history.Observed, Key: p.id, Body: history.Encode(history.Component{State: "exited", PID: e.cmd.Process.Pid, Exit: exitText(e.exit)})})
	}
}

func exitText(err error) string {
	if err == nil {
		return "exit status 0"
	}
	return err.Error()
}

func (p *process) awaitHealthy(ctx context.Context) error {
	if p.healthy == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(p.limit, startTimeout))
	defer cancel()
	var last error
	tick := time.NewTicker(healthInterval)
	defer tick.Stop()
	for {
		attempt, done := context.WithTimeout(ctx, 5*time.Second)
		err := p.healthy(attempt)
		done()
		if err == nil {
			return nil
		}
		if ctx.Err() == nil {
			last = err
		}
		select {
		case <-p.run.done:
			return fmt.Errorf("it ended by itself (%s)", exitText(p.run.exit))
		case <-ctx.Done():
			return fmt.Errorf("%w (last answer: %v)", ctx.Err(), last)
		case <-tick.C:
		}
	}
}

// stop ends the process and returns once it is gone. Stopping what does not run is no error.
func (p *process) stop(_ context.Context, how cluster.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run == nil {
		return nil
	}
	if p.run.ended() {
		p.run = nil
		return nil
	}
	p.event("stopping", "")
	exit := p.end(how)
	p.event("stopped", exit)
	return nil
}

// end signals the process group, escalates, and waits.
func (p *process) end(how cluster.Signal) string {
	e := p.run
	p.run = nil
	close(e.stopping)
	group := -e.cmd.Process.Pid
	if grace := graceOf(how); grace > 0 && !e.ended() {
		// A paused process would not see the signal. ESRCH means that it is gone, which is what is wanted.
		_ = syscall.Kill(group, syscall.SIGCONT)
		_ = syscall.Kill(group, syscall.SIGTERM)
		select {
		case <-e.done:
		case <-time.After(grace):
		}
	}
	_ = syscall.Kill(group, syscall.SIGKILL)
	<-e.done
	return exitText(e.exit)
}

// graceOf is how long a process may take to end by itself.
func graceOf(how cluster.Signal) time.Duration {
	switch how {
	case cluster.Terminate:
		return stopTimeout
	case cluster.Brief:
		return briefTimeout
	}
	return 0
}

// pause and resume stop and continue the whole process group.
func (p *process) pause() error  { return p.signal(syscall.SIGSTOP, "paused") }
func (p *process) resume() error { return p.signal(syscall.SIGCONT, "resumed") }

func (p *process) signal(s syscall.Signal, state string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run == nil || p.run.ended() {
		return fmt.Errorf("%s cannot be %s: it does not run", p.id, state)
	}
	if err := syscall.Kill(-p.run.cmd.Process.Pid, s); err != nil {
		return fmt.Errorf("%s cannot be %s: %w", p.id, state, err)
	}
	p.event(state, "")
	return nil
}

// whenEnded calls f when the present execution ends by itself; the function it returns takes that back.
func (p *process) whenEnded(f func()) (cancel func()) {
	p.mu.Lock()
	run := p.run
	p.mu.Unlock()
	over := make(chan struct{})
	if run != nil {
		go func() {
			select {
			case <-run.done:
				f()
			case <-over:
			}
		}()
	}
	return func() { close(over) }
}

// status is what the control interface tells of a process.
func (p *process) status() componentStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := componentStatus{ID: p.id, Version: p.version, Log: p.log}
	if p.run != nil && !p.run.ended() {
		s.PID = p.run.cmd.Process.Pid
	}
	return s
}

// event records a change of state; the caller holds mu.
func (p *process) event(state, exit string) {
	c := history.Component{State: state, Version: string(p.version), Exit: exit}
	if p.run != nil {
		c.PID = p.run.cmd.Process.Pid
	}
	node := ""
	if _, at, ok := strings.Cut(p.id, "@"); ok {
		node, _, _ = strings.Cut(at, "/")
	}
	p.events.Write(history.Event{Phase: history.Observed, Key: p.id, Node: node, Body: history.Encode(c)})
}

// tail returns the last lines of the log, indented, for an error.
func (p *process) tail() string { return cluster.LogTail(p.log) }
