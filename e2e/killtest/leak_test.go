package killtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// strayVariable names a namespace's file; a test binary that finds it in its environment joins that namespace and sleeps there, so that it holds
// the namespace as a program of the cell does that escaped its PID namespace.
const strayVariable = "KILLTEST_STRAY"

// strayMain is such a stray. It never returns.
func strayMain(path string) {
	runtime.LockOSThread()
	f, err := os.Open(path)
	if err == nil {
		err = unix.Setns(int(f.Fd()), 0)
	}
	if err == nil {
		err = f.Close()
	}
	if err == nil {
		fmt.Println("ready")
		err = syscall.Exec("/bin/sleep", []string{"sleep", "600"}, nil) // which makes this thread the process
	}
	fmt.Println(err)
	os.Exit(1)
}

// leak is a way to leave something of a run behind.
type leak struct {
	name string
	root bool // needs root
	// make leaves it, and returns what the detector must say and how to take it away.
	make func(t *testing.T, r *trial, cell int) (want []string, end func())
}

var leaks = []leak{
	{name: "a process that names the run", make: func(t *testing.T, r *trial, _ int) ([]string, func()) {
		cmd := exec.Command("sleep", "600")
		cmd.Env = []string{"ANY=" + r.dir}
		end := launch(t, cmd)
		return []string{fmt.Sprintf("process %d (sleep)", cmd.Process.Pid)}, end
	}},
	{name: "an open file of the cell's network namespace", make: func(t *testing.T, _ *trial, cell int) ([]string, func()) {
		ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", cell))
		if err != nil {
			t.Fatal(err)
		}
		defer ns.Close()
		cmd := exec.Command("sleep", "600")
		cmd.Env, cmd.ExtraFiles = []string{}, []*os.File{ns}
		end := launch(t, cmd)
		return []string{fmt.Sprintf("held by process %d (sleep)", cmd.Process.Pid)}, end
	}},
	{name: "a process in the cell's network namespace", root: true, make: func(t *testing.T, _ *trial, cell int) ([]string, func()) {
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = []string{fmt.Sprintf("%s=/proc/%d/ns/net", strayVariable, cell)}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		end := launch(t, cmd)
		said := make([]byte, 100)
		if n, err := out.Read(said); err != nil || strings.TrimSpace(string(said[:n])) != "ready" {
			t.Fatalf("stray: want ready, got %q (%v)", said[:n], err)
		}
		return []string{fmt.Sprintf("held by process %d (", cmd.Process.Pid)}, end
	}},
	{name: "a mount of the cell's network namespace", root: true, make: func(t *testing.T, _ *trial, cell int) ([]string, func()) {
		path := filepath.Join(t.TempDir(), "net")
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mount(fmt.Sprintf("/proc/%d/ns/net", cell), path, "", unix.MS_BIND, ""); err != nil {
			t.Fatal(err)
		}
		return []string{"held by mount ", " " + path}, unmount(t, path)
	}},
	{name: "a mount", root: true, make: func(t *testing.T, _ *trial, _ int) ([]string, func()) {
		path := t.TempDir()
		if err := unix.Mount("stray", path, "tmpfs", 0, ""); err != nil {
			t.Fatal(err)
		}
		return []string{" " + path}, unmount(t, path)
	}},
}

// launch starts a stray and returns how to end it.
func launch(t *testing.T, cmd *exec.Cmd) (end func()) {
	t.Helper()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	end = func() {
		_ = cmd.Process.Kill() // gone already is as good
		_ = cmd.Wait()         // it says that it was killed
	}
	t.Cleanup(end)
	return end
}

func unmount(t *testing.T, path string) (end func()) {
	mounted := true
	end = func() {
		if !mounted {
			return
		}
		mounted = false
		if err := unix.Unmount(path, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", path, err)
		}
	}
	t.Cleanup(end)
	return end
}

// TestLeaksAreFound shows that TestKill can fail: of a killed run each thing that is left behind on purpose is found, and nothing else.
func TestLeaksAreFound(t *testing.T) {
	headroom := command(t)
	r := start(t, headroom, filepath.Join(t.TempDir(), "run"), reference, "^stale-count-race$", 1)
	if _, err := r.reach(became("kube-apiserver", "started"), pollInterval); err != nil {
		t.Fatalf("%v\n%s", err, r.said())
	}
	cell, err := kill{victim: victimCell}.choose(r)
	if err != nil {
		t.Fatal(err)
	}
	r.awaitMember(t, cell.pid)
	r.awaitComponents(t)
	var wants [][]string
	var ends []func()
	for _, l := range leaks {
		if l.root && os.Geteuid() != 0 {
			t.Logf("left out, because it needs root: %s", l.name)
			continue
		}
		want, end := l.make(t, r, cell.pid)
		wants, ends = append(wants, want), append(ends, end)
	}
	root, err := kill{victim: victimCommand}.choose(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.watch.kill(root); err != nil {
		t.Fatal(err)
	}
	<-r.exited
	awaitLeft(t, r, wants)
	for i, end := range ends {
		end()
		awaitLeft(t, r, wants[i+1:])
	}
}

// awaitMember waits until the watch knows the namespaces of a process.
func (r *trial) awaitMember(t *testing.T, pid int) {
	t.Helper()
	for deadline := time.Now().Add(goneLimit); time.Now().Before(deadline); time.Sleep(pollInterval) {
		r.watch.mu.Lock()
		n := 0
		for _, who := range r.watch.spaces {
			if strings.HasPrefix(who, fmt.Sprintf("process %d (", pid)) {
				n++
			}
		}
		r.watch.mu.Unlock()
		if n > 0 {
			return
		}
	}
	t.Fatalf("the namespaces of process %d were not found", pid)
}

// awaitComponents waits until the watch knows components of the control plane.
func (r *trial) awaitComponents(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(goneLimit); time.Now().Before(deadline); time.Sleep(pollInterval) {
		if len(r.watch.components()) > 0 {
			return
		}
	}
	t.Fatal("no component of the control plane was found, though it runs")
}

// awaitLeft waits until what is left is what is wanted.
func awaitLeft(t *testing.T, r *trial, each [][]string) {
	t.Helper()
	wants := slices.Concat(each...)
	var left []string
	for deadline := time.Now().Add(goneLimit); time.Now().Before(deadline); time.Sleep(4 * pollInterval) {
		left = r.watch.left()
		if matches(left, wants) {
			return
		}
	}
	t.Errorf("want left:\n  %s\ngot:\n  %s", strings.Join(wants, "\n  "), strings.Join(left, "\n  "))
}

// matches says whether each wanted text is in a line, and each line has a wanted text.
func matches(lines, wants []string) bool {
	found := map[string]bool{}
	for _, line := range lines {
		any := false
		for _, want := range wants {
			if strings.Contains(line, want) {
				found[want], any = true, true
			}
		}
		if !any {
			return false
		}
	}
	return len(found) == len(wants)
}
