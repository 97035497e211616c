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
	// pollInterval is the time between two looks at a history: the collect phase lasts about 150 ms.
	pollInterval = 2 * time.Millisecond
)

// trial is one run of the headroom command, to be killed.
type trial struct {
	dir    string
	output string // file
	watch  *watch
	exited chan struct{}
	code   int // once exited is closed; -1 when a signal ended it
	files  map[string]*tail
}

// start starts a run of the specs that match focus. It is gone when the test ends.
func start(t *testing.T, headroom, dir, focus string, seed int64) *trial {
	t.Helper()
	r := &trial{dir: dir, output: dir + ".out", watch: newWatch(dir), exited: make(chan struct{}), files: map[string]*tail{}}
	out, err := os.Create(r.output)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd := exec.Command(headroom, "run", "--run-dir", dir, "--focus", focus, "--procs", "2", "--seed", fmt.Sprint(seed))
	cmd.Env = append(os.Environ(), markVariable+"="+dir)
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

// reach waits until the history holds an event that match likes.
func (r *trial) reach(at instant) error {
	for deadline := time.Now().Add(reachLimit); time.Now().Before(deadline); time.Sleep(pollInterval) {
		if r.seen(at.file, at.match) {
			return nil
		}
		if r.ended() {
			return fmt.Errorf("the run ended, with exit code %d, before %s", r.code, at.name)
		}
	}
	return fmt.Errorf("the run did not come to %s within %s", at.name, reachLimit)
}

// seen says whether an event that match likes has been written, since the last call, to a file below events/ that fits the pattern.
func (r *trial) seen(pattern string, match func(history.Event) bool) bool {
	paths, err := filepath.Glob(filepath.Join(r.dir, "events", pattern))
	if err != nil {
		panic(err)
	}
	found := false
	for _, path := range paths {
		if r.files[path] == nil {
			r.files[path] = &tail{path: path}
		}
		for _, e := range r.files[path].read() {
			found = found || match(e)
		}
	}
	return found
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

// gone waits until nothing of the run is left and the command has ended, and says how long that took.
func (r *trial) gone() (time.Duration, error) {
	began := time.Now()
	for {
		left := r.watch.left()
		took := time.Since(began)
		if len(left) == 0 && r.ended() {
			return took, nil
		}
		if took > goneLimit {
			return took, fmt.Errorf("left %s after the kill:\n  %s", took.Round(time.Millisecond), strings.Join(left, "\n  "))
		}
		time.Sleep(10 * pollInterval)
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
func (r *trial) judged(headroom string) (code int, output string, err error) {
	out, err := exec.Command(headroom, "check", r.dir).CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode(), string(out), nil
	}
	return 0, string(out), err
}
