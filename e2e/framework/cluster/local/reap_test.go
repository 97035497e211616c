package local

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"headroom/e2e/framework/entry"
)

func init() { entry.Register("test-reap", reapMain) }

// runHelper runs a program of this test binary and fails with what it says.
func runHelper(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", cmd.Args[0], err, out)
	}
}

// The first process of a cell reaps orphans but leaves its own children to os/exec.
func TestReap(t *testing.T) { runHelper(t, entry.Command("test-reap", t.TempDir())) }

func reapMain(args []string) int {
	if err := reapOne(args[0]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func reapOne(dir string) error {
	// As PID 1 of a namespace, a subreaper inherits orphans.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become a subreaper: %w", err)
	}
	f := &family{own: map[int]bool{}}
	file := filepath.Join(dir, "orphan")
	own := exec.Command("/bin/sh", "-c", `sleep 1000 & echo $! > "$0"; exit 3`, file)
	if err := f.start(own); err != nil {
		return err
	}
	if err := awaitZombie(own.Process.Pid); err != nil {
		return err
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	orphan, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return err
	}
	if err := errors.Join(unix.Kill(orphan, unix.SIGKILL), awaitZombie(orphan)); err != nil {
		return err
	}
	f.reap()
	if zombie(orphan) {
		return errors.New("the orphan is still a zombie after reap")
	}
	if !zombie(own.Process.Pid) {
		return errors.New("reap took the exit status of an own child")
	}
	var exit *exec.ExitError
	if err := f.wait(own); !errors.As(err, &exit) || exit.ExitCode() != 3 {
		return fmt.Errorf("wait for the own child: want exit status 3, got %v", err)
	}
	if len(f.own) != 0 {
		return fmt.Errorf("own children after the wait: want none, got %v", f.own)
	}
	return nil
}

func zombie(pid int) bool {
	state, parent := processState(pid)
	return state == 'Z' && parent == os.Getpid()
}

func awaitZombie(pid int) error {
	for end := time.Now().Add(30 * time.Second); !zombie(pid); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			return fmt.Errorf("process %d: want a zombie of this process within 30s", pid)
		}
	}
	return nil
}

// A process's name may look like the rest of its line in /proc.
func TestProcessState(t *testing.T) {
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	odd := filepath.Join(t.TempDir(), "a) Z 1 (b")
	b, err := os.ReadFile(sleep)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(odd, b, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(odd, "1000")
	cmd.Args[0] = "sleep" // which program a multi-call binary is
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if state, parent := processState(cmd.Process.Pid); state == 0 || state == 'Z' || parent != os.Getpid() {
		t.Errorf("want a live child of %d, got state %q and parent %d", os.Getpid(), state, parent)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	if state, parent := processState(cmd.Process.Pid); state != 0 || parent != 0 {
		t.Errorf("of what is gone: want zeros, got %q and %d", state, parent)
	}
}
