package killtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"headroom/e2e/framework/history"
)

const (
	// reachLimit bounds the time until a run is where it shall be killed: every wait of the product's own is shorter.
	reachLimit = 4 * time.Minute
	// goneLimit is how long a killed run may take to be gone.
	goneLimit = 20 * time.Second
	// pollInterval is the time between two looks at a history, closeInterval that where every millisecond counts.
	pollInterval, closeInterval = 5 * time.Millisecond, time.Millisecond / 2
)

// program is the headroom command.
type program struct {
	path  string
	state string // directory of its registry of clusters
}

func (p program) command(args ...string) *exec.Cmd {
	cmd := exec.Command(p.path, args...)
	cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+p.state)
	return cmd
}

// trial is one run of the headroom command, to be killed.
type trial struct {
	dir    string
	output string // file
	watch  *watch
	exited chan struct{}
	code   int // once exited is closed; -1 when a signal ended it
	files  map[string]*tail
}

// start starts a run of the specs that match focus on a driver, with further flags. It is gone when the test ends.
func start(t *testing.T, headroom program, dir, driver, focus string, seed int64, flags ...string) *trial {
	t.Helper()
	return begin(t, headroom, dir, append([]string{"run", "--driver", driver, "--focus", focus, "--procs", "2", "--seed", fmt.Sprint(seed)}, flags...)...)
}

// begin starts a command that makes a run in dir. It is gone when the test ends.
func begin(t *testing.T, headroom program, dir string, args ...string) *trial {
	t.Helper()
	r := &trial{dir: dir, output: dir + ".out", watch: newWatch(dir), exited: make(chan struct{}), files: map[string]*tail{}}
	out, err := os.Create(r.output)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd := headroom.command(append(args, "--run-dir", dir)...)
	cmd.Env = append(cmd.Env, markVariable+"="+dir)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL} // the run ends with this test, even when that is killed
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		err := cmd.Wait()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			fmt.Fprintf(os.Stderr, "wait for the command: %v\n", err)
		}
		r.code = cmd.ProcessState.ExitCode()
		close(r.exited)
	}()
	r.watch.follow(cmd.Process.Pid)
	t.Cleanup(func() {
		r.watch.sweep()
		<-r.exited
		r.watch.close()
	})
	return r
}

// ended says whether the command has.
func (r *trial) ended() bool {
	select {
	case <-r.exited:
		return true
	default:
		return false
	}
}

// reach waits until the history holds the event that marks an instant, and returns the event's time. Interval is that between two looks.
func (r *trial) reach(at instant, interval time.Duration) (time.Duration, error) {
	for deadline := time.Now().Add(reachLimit); time.Now().Before(deadline); time.Sleep(interval) {
		if when, ok := r.seen(at); ok {
			return when, nil
		}
		if r.ended() {
			err := fmt.Errorf("the run ended, with exit code %d, before %s", r.code, at.name)
			if r.code == 0 { // before it was seen, that is: all went well
				err = fmt.Errorf("%w: %w", errLate, err)
			}
			return 0, err
		}
	}
	return 0, fmt.Errorf("the run did not come to %s within %s", at.name, reachLimit)
}

// seen returns the time of the next event that marks an instant, if it has been written.
func (r *trial) seen(at instant) (time.Duration, bool) {
	paths, err := filepath.Glob(filepath.Join(r.dir, "events", at.file))
	if err != nil {
		panic(err)
	}
	for _, path := range paths {
		key := at.name + "\x00" + path
		if r.files[key] == nil {
			r.files[key] = &tail{path: path}
		}
		for _, e := range r.files[key].read() {
			if at.match(e) {
				return e.At, true
			}
		}
	}
	return 0, false
}

// tail reads a history file that still grows.
type tail struct {
	path   string
	offset int64
}

// read returns the whole events that are new.
func (f *tail) read() []history.Event {
	info, err := os.Stat(f.path)
	if err != nil || info.Size() == f.offset {
		return nil
	}
	b, err := os.ReadFile(f.path)
	if err != nil {
		return nil
	}
	b = b[f.offset : bytes.LastIndexByte(b, '\n')+1]
	f.offset += int64(len(b))
	var out []history.Event
	for line := range bytes.Lines(b) {
		var e history.Event
		if json.Unmarshal(line, &e) == nil {
			out = append(out, e)
		}
	}
	return out
}

// members are the numbers of the spec processes that joined the run and have not left it.
func (r *trial) members() []int {
	paths, err := filepath.Glob(filepath.Join(r.dir, "events", joined.file))
	if err != nil {
		panic(err)
	}
	var out []int
	for _, path := range paths {
		var open struct {
			PID int `json:"pid"`
		}
		left := false
		for _, e := range (&tail{path: path}).read() {
			left = left || e.Key == history.KeyClose
			if e.Key == history.KeyOpen && e.Decode(&open) != nil {
				panic("open record of " + path)
			}
		}
		if !left && open.PID != 0 {
			out = append(out, open.PID)
		}
	}
	return out
}

// gone waits until nothing of the run is left and the command has ended, and says how long that took.
func (r *trial) gone() (time.Duration, error) {
	began := time.Now()
	for {
		took := time.Since(began)
		var left []string
		// What else there is takes longer to find, and does not go before the processes.
		if r.ended() && len(r.watch.running()) == 0 || took > goneLimit {
			if left = r.watch.left(); len(left) == 0 && r.ended() {
				return took, nil
			}
		}
		if took > goneLimit {
			return took, fmt.Errorf("left %s after the kill:\n  %s", took.Round(time.Millisecond), strings.Join(left, "\n  "))
		}
		time.Sleep(4 * pollInterval)
	}
}

// said is what the command wrote.
func (r *trial) said() string {
	b, err := os.ReadFile(r.output)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// judged is what `headroom check` answers of the run directory.
func (r *trial) judged(headroom program) (code int, output string, err error) {
	out, err := headroom.command("check", r.dir).CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode(), string(out), nil
	}
	return 0, string(out), err
}
