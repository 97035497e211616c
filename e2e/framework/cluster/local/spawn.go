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
	"strings"
	"sync"
	"syscall"
	"time"

	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/entry"
)

// life is the parent's hold on a cell.
type life struct {
	pid  int
	done chan struct{} // closed when the cell's first process is reaped
	exit error         // once done is closed
	log  string

	once     sync.Once
	lifeline *os.File
	socket   string
	endErr   error
}

// spawn starts a cell's first process with its namespaces and the three files that it needs. Nothing is left behind on error.
func (p *Provider) spawn() (_ *Cluster, err error) {
	if err := Preflight(); err != nil {
		return nil, err
	}
	var theirs []*os.File // what the cell has copies of: were they kept here, nobody would be refused once the cell is gone
	defer func() {
		for _, f := range theirs {
			err = errors.Join(err, f.Close())
		}
	}()
	logs := filepath.Join(p.options.RunDir, "logs")
	if err := os.MkdirAll(logs, 0o755); err != nil {
		return nil, err
	}
	control, err := listenUnix(controlSocket(p.options.RunDir))
	if err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	theirs = append(theirs, control)
	api, port, err := listenHost(p.options.Port)
	if err != nil {
		return nil, err
	}
	theirs = append(theirs, api)
	lifeline, ours, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	theirs = append(theirs, lifeline)
	defer func() {
		if err != nil {
			err = errors.Join(err, ours.Close())
		}
	}()
	log, err := os.OpenFile(filepath.Join(logs, "cell.log"), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()

	cfg, err := p.cellConfig()
	if err != nil {
		return nil, err
	}
	config, err := json.Marshal(cfg)
	if err != nil {
		return nil, err
	}
	cmd := entry.Command(programCell)
	cmd.Stdin = bytes.NewReader(config)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{lifeline, control, api} // lifelineFD, controlFD, apiFD
	cmd.SysProcAttr = namespaces()
	if err := cmd.Start(); err != nil {
		return nil, namespaceError(fmt.Errorf("start the cell's first process: %w", err))
	}
	l := &life{pid: cmd.Process.Pid, done: make(chan struct{}), lifeline: ours, socket: controlSocket(p.options.RunDir), log: log.Name()}
	go func() {
		l.exit = cmd.Wait()
		close(l.done)
	}()
	return &Cluster{options: p.options, port: port, life: l}, nil
}

func (p *Provider) cellConfig() (cellConfig, error) {
	preserve, err := preserved(p.options)
	return cellConfig{
		Run: p.options.Run, RunDir: p.options.RunDir, Rootless: os.Geteuid() != 0, Binaries: p.options.Binaries, Versions: p.options.Versions,
		Drivers: p.options.Drivers, Preserve: preserve, Seed: p.options.Seed, Gates: p.options.Gates, Figures: p.options.Figures,
		NewRelease: p.options.NewRelease, LeaseSeconds: int(p.options.NodeLease / time.Second),
		Scale: p.options.Scale,
	}, err
}

// namespaces are those of a cell. An ordinary user needs a user namespace in which it is root.
func namespaces() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{
		Setsid:     true, // Ctrl-C reaches the runner first
		Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET,
	}
	if os.Geteuid() != 0 {
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	return attr
}

// end lets closing run while the cell lives, then ends the cell and waits until it is gone.
func (l *life) end(closing func()) error {
	l.once.Do(func() {
		select {
		case <-l.done:
		default:
			closing()
		}
		l.endErr = l.lifeline.Close()
		select {
		case <-l.done:
			l.endErr = errors.Join(l.endErr, l.murdered())
		case <-time.After(closeTimeout):
			// PID 1 of a namespace can be killed from outside only.
			_ = syscall.Kill(l.pid, syscall.SIGKILL)
			<-l.done
		}
		if err := os.Remove(l.socket); err != nil && !errors.Is(err, os.ErrNotExist) {
			l.endErr = errors.Join(l.endErr, err)
		}
	})
	return l.endErr
}

// murdered is an error when a signal of somebody else's ended the cell: then it may not have closed its histories. It is for a cell that is gone.
func (l *life) murdered() error {
	var exit *exec.ExitError
	if errors.As(l.exit, &exit) && !exit.Exited() {
		return fmt.Errorf("the cell's first process was ended from outside (%s)", exitText(l.exit))
	}
	return nil
}

// lastWords is how long after an answer a cell may turn out to have been dying.
const lastWords = 300 * time.Millisecond

// explain replaces an error by the last words of a cell that ended by itself. Its connections end a moment before it can be reaped, so that an
// error that is not the cell's own answer waits for that.
func (c *Cluster) explain(ctx context.Context, err error) error {
	var answer *remoteError
	wait := closeTimeout
	if errors.As(err, &answer) {
		wait = lastWords // a dying cell may still say that a component of it was killed
	}
	if ctx.Err() == nil {
		select {
		case <-c.life.done:
		case <-time.After(wait):
		}
	}
	select {
	case <-c.life.done:
		p := process{log: c.life.log}
		return fmt.Errorf("the cell ended by itself (%s)%s", exitText(c.life.exit), p.tail())
	default:
		return err
	}
}

// listenUnix listens on a unix socket of any path length: the address of a socket holds 107 bytes, a path through an open directory always fits.
func listenUnix(path string) (*os.File, error) {
	var file *os.File
	err := viaDirectory(path, func(short string) error {
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: short, Net: "unix"})
		if err != nil {
			return err
		}
		l.SetUnlinkOnClose(false)
		file, err = l.File()
		return errors.Join(err, l.Close())
	})
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	return file, os.Chmod(path, 0o600)
}

func dialUnix(ctx context.Context, path string) (conn net.Conn, err error) {
	err = viaDirectory(path, func(short string) error {
		conn, err = new(net.Dialer).DialContext(ctx, "unix", short)
		return err
	})
	return conn, err
}

// viaDirectory calls f with a short name of path.
func viaDirectory(path string, f func(string) error) error {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close()
	return f(fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path)))
}

// listenHost opens the one listener that a cell has on the host, on the loopback only.
func listenHost(port int) (*os.File, int, error) {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return nil, 0, &cluster.EnvironmentError{Op: "listen for the API server", Err: err, Remedy: "choose another --port, or 0 for any free one"}
	}
	tcp := l.(*net.TCPListener)
	f, err := tcp.File()
	if err != nil {
		return nil, 0, errors.Join(err, l.Close())
	}
	return f, tcp.Addr().(*net.TCPAddr).Port, l.Close()
}

// kindOf is the component kind of an id: "kubelet" of "kubelet@n1".
func kindOf(id string) string {
	kind, _, _ := strings.Cut(id, "@")
	return kind
}
