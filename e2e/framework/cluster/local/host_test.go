package local

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"headroom/e2e/framework/cluster"
)

// hostProcess is a process as the host sees it.
type hostProcess struct {
	pid   int
	born  string // clock ticks since boot; with pid it is unique
	state byte
	args  string
	ns    []string // those namespaces that are not this process's
}

// descendants are the processes below root, and root. Their namespaces are held until the test ends, so that no other program's gets the name of one.
func descendants(t *testing.T, root int) []hostProcess {
	t.Helper()
	held := map[string]bool{}
	pids, parent := allPIDs(t), map[int]int{}
	for _, pid := range pids {
		_, parent[pid] = processState(pid)
	}
	var out []hostProcess
	for _, pid := range pids {
		up := pid
		for up != root && up > 1 {
			up = parent[up]
		}
		if up != root {
			continue
		}
		p := hostProcess{pid: pid, born: born(pid), ns: otherNamespaces(pid)}
		for _, ns := range p.ns {
			if !held[ns] {
				held[ns] = hold(t, pid, ns)
			}
		}
		p.state, _ = processState(pid)
		if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err == nil {
			p.args = strings.ReplaceAll(string(b), "\x00", " ")
		}
		out = append(out, p)
	}
	return out
}

// hold keeps a namespace, named as "net:[4026532008]", of a process until the test ends; false when the process has left it.
func hold(t *testing.T, pid int, ns string) bool {
	kind, _, _ := strings.Cut(ns, ":")
	f, err := os.Open(fmt.Sprintf("/proc/%d/ns/%s", pid, kind))
	if err != nil {
		return false
	}
	t.Cleanup(func() { _ = f.Close() }) // it was only read
	return true
}

func allPIDs(t *testing.T) []int {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

func born(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	return fields[19]
}

func otherNamespaces(pid int) []string {
	var out []string
	for _, kind := range []string{"mnt", "pid", "net"} {
		own, err := os.Readlink("/proc/self/ns/" + kind)
		if err != nil {
			continue
		}
		if link, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", pid, kind)); err == nil && link != own {
			out = append(out, link)
		}
	}
	return out
}

// find returns the only process of the cell whose arguments contain every word.
func (t *testCluster) find(tb *testing.T, words ...string) hostProcess {
	tb.Helper()
	var found []hostProcess
	for _, p := range descendants(tb, t.life.pid) {
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(p.args, w) }) {
			found = append(found, p)
		}
	}
	if len(found) != 1 {
		tb.Fatalf("processes with %q: want 1, got %+v", words, found)
	}
	return found[0]
}

// mounts are the mount points of a process's mount namespace that contain word, each with the mount's id.
func mounts(t *testing.T, pid int, word string) []string {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pid))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); strings.Contains(f[4], word) {
			out = append(out, f[0]+" "+f[4])
		}
	}
	return out
}

// wantNothingLeft checks that of the cell's processes and namespaces none is left, nor a mount or a socket of its run directory.
func wantNothingLeft(t *testing.T, dir string, were []hostProcess) {
	t.Helper()
	gone := map[string]bool{}
	for _, p := range were {
		if born(p.pid) == p.born {
			t.Errorf("process %d is left: %s", p.pid, p.args)
		}
		for _, ns := range p.ns {
			gone[ns] = true
		}
	}
	if len(were) < 5 || len(gone) < 3 {
		t.Errorf("before the end: want a cell's processes and namespaces, got %d and %d", len(were), len(gone))
	}
	for _, pid := range allPIDs(t) {
		for _, ns := range otherNamespaces(pid) {
			if gone[ns] {
				t.Errorf("process %d is in %s, which was the cell's", pid, ns)
			}
		}
	}
	if left := append(mounts(t, os.Getpid(), dir), mounts(t, os.Getpid(), stateDir)...); len(left) > 0 {
		t.Errorf("mounts are left: %v", left)
	}
	if _, err := os.Stat(controlSocket(dir)); err == nil {
		t.Errorf("%s is left", controlSocket(dir))
	}
}

// wantClosed checks that every history of the run was closed.
func wantClosed(t *testing.T, dir string) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(filepath.Join(dir, "events"), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files++
		last, err := cluster.LastLines(path, 1)
		if err == nil && !strings.Contains(strings.Join(last, ""), "writer/close") {
			t.Errorf("%s: want its last record to close it, got %s", path, last)
		}
		return err
	})
	if err != nil || files == 0 {
		t.Errorf("histories: %d files, %v", files, err)
	}
}
