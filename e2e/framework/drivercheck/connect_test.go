package drivercheck

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"headroom/drivers"
	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/entry"
)

// program is this package's way to a socket as a program, so that it can be tried as another user.
const program = "drivercheck-look"

// late is a context whose timer has not run, whatever its deadline.
type late struct {
	context.Context
	deadline time.Time
}

func (l late) Deadline() (time.Time, bool) { return l.deadline, true }

// TestTimedOut: a deadline that has passed is the caller's, also when its timer is late; the driver's own DEADLINE_EXCEEDED before that is an answer.
func TestTimedOut(t *testing.T) {
	for name, c := range map[string]struct {
		in   time.Duration
		code codes.Code
		want bool
	}{
		"passed, the timer late": {-time.Millisecond, codes.DeadlineExceeded, true},
		"the driver's own":       {time.Hour, codes.DeadlineExceeded, false},
		"passed, another answer": {-time.Millisecond, codes.Internal, false},
	} {
		if got := timedOut(late{t.Context(), time.Now().Add(c.in)}, status.New(c.code, "x")); got != c.want {
			t.Errorf("%s: want %t, got %t", name, c.want, got)
		}
	}
}

func init() {
	entry.Register(program, func(args []string) int {
		fmt.Println(look(context.Background(), args[0]))
		return 0
	})
}

// listen accepts connections and hands each to serve.
func listen(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	path := filepath.Join(socketDir(t), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go serve(c)
		}
	}()
	return path
}

// TestNoDriver tries what is no CSI driver. Nothing is known of any driver then: it is the environment's failure, with a remedy, and in time.
func TestNoDriver(t *testing.T) {
	t.Parallel()
	dir := socketDir(t)
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	dead := filepath.Join(dir, "dead")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: dead, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(dir, "other")
	o, err := net.Listen("unix", other)
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	go func() { _ = s.Serve(o) }()
	t.Cleanup(s.Stop)
	for name, c := range map[string]struct{ path, want, remedy string }{
		"missing":          {filepath.Join(dir, "none"), "no such file", "start the driver first"},
		"a file":           {file, "is no socket", "name the socket"},
		"nobody listens":   {dead, "connection refused", "nobody listens there"},
		"speaks HTTP/1":    {listen(t, func(c net.Conn) { fmt.Fprint(c, "HTTP/1.1 400 Bad Request\r\n\r\n"); c.Close() }), "speak gRPC", "something else"},
		"speaks nonsense":  {listen(t, func(c net.Conn) { fmt.Fprint(c, strings.Repeat("\x00\xff", 1000)) }), "speak gRPC", "something else"},
		"says nothing":     {listen(t, func(c net.Conn) { <-t.Context().Done(); c.Close() }), "no HTTP/2 settings came within 5s", "something else"},
		"hangs up":         {listen(t, func(c net.Conn) { c.Close() }), "speak gRPC", "something else"},
		"gRPC without CSI": {other, "Unimplemented", "registration socket"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			r, err := Run(bounded(t), Options{Socket: "unix://" + c.path})
			var env *cluster.EnvironmentError
			if !errors.As(err, &env) || !strings.Contains(err.Error(), c.want) || !strings.Contains(env.Remedy, c.remedy) {
				t.Errorf("want an environment error with %q and remedy %q, got %v", c.want, c.remedy, err)
			}
			if len(violated(r)) > 0 {
				t.Errorf("want no verdict on a driver, got %q", violated(r))
			}
			if took := time.Since(began); took > time.Minute {
				t.Errorf("want an end by the deadline of %s, got one after %s", connectLimit, took)
			}
		})
	}
}

func TestNoPermission(t *testing.T) {
	t.Parallel()
	path := listen(t, func(net.Conn) {})
	if err := os.Chmod(path, 0); err != nil {
		t.Fatal(err)
	}
	// The folder is private too: either is enough.
	cmd := entry.Command(program, path)
	if os.Geteuid() == 0 { // whom nothing is forbidden
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "permission denied") || !strings.Contains(string(out), "remedy: run as the driver's user") {
		t.Errorf("want permission denied and a remedy, got %q, %v", out, err)
	}
	if err := os.Chmod(filepath.Dir(path), 0o711); err != nil {
		t.Fatal(err)
	}
	again := entry.Command(program, path)
	again.SysProcAttr = cmd.SysProcAttr
	out, err = again.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "permission denied") || !strings.Contains(string(out), "write to the socket") {
		t.Errorf("want permission to connect denied, and a remedy, got %q, %v", out, err)
	}
}

// TestMissingNode: a driver whose node ids have a form of their own is tried with one of that form.
func TestMissingNode(t *testing.T) {
	s := &session{}
	first, err := s.nowhere()
	second, err2 := s.nowhere()
	if err != nil || err2 != nil || first == second {
		t.Errorf("without a definition: want ids that nobody has, got %q and %q, %v, %v", first, second, err, err2)
	}
	s.Definition = &drivers.Definition{Volumes: drivers.Volumes{MissingNode: "zones/z/nodes/none"}}
	if got, err := s.nowhere(); err != nil || got != "zones/z/nodes/none" {
		t.Errorf("want the definition's, got %q, %v", got, err)
	}
}

func TestBadOptions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		o    Options
		want string
	}{
		"nothing":                     {Options{}, "there is no driver to check"},
		"relative":                    {Options{Socket: "unix://x.sock"}, "want a Unix socket"},
		"no socket":                   {Options{Socket: "tcp://127.0.0.1:1"}, "want a Unix socket"},
		"controller":                  {Options{Socket: "unix:///x", Controller: "y"}, `controller "y"`},
		"controller without a socket": {Options{Definition: definition(t, ""), Controller: "unix:///y"}, "without the socket of a running driver"},
		"pods only":                   {Options{Definition: definition(t, "hostpath-pods")}, "has pods and no process"},
		"scale":                       {Options{Socket: "unix:///x", Scale: 0.5}, "timeout scale of 0.5"},
		"wait":                        {Options{Socket: "unix:///x", Wait: -1}, "a wait of"},
	} {
		_, err := Run(bounded(t), c.o)
		var input *cluster.InputError
		if !errors.As(err, &input) || !strings.Contains(err.Error(), c.want) || input.Remedy == "" {
			t.Errorf("%s: want an input error with %q and a remedy, got %v", name, c.want, err)
		}
	}
}
