package killtest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// process is a process for all time: its number may be given away again, but not with the same start.
type process struct {
	pid   int
	start uint64 // clock ticks since boot
}

// stat is a process as /proc shows it at one moment.
type stat struct {
	process
	parent int
	zombie bool
}

// readStat reads /proc/<pid>/stat; false when the process is gone.
func readStat(pid int) (stat, bool) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return stat{}, false
	}
	// The name in parentheses may hold anything; the fields after the last one are numbered from 3.
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(f) < 20 {
		return stat{}, false
	}
	parent, err1 := strconv.Atoi(f[1])
	start, err2 := strconv.ParseUint(f[19], 10, 64)
	if err1 != nil || err2 != nil {
		return stat{}, false
	}
	return stat{process: process{pid: pid, start: start}, parent: parent, zombie: f[0] == "Z" || f[0] == "X"}, true
}

// alive says whether the process still runs. A zombie does not: nothing of it is left but a line in a table, and whoever adopted it must collect
// that.
func (p process) alive() bool {
	s, ok := readStat(p.pid)
	return ok && s.start == p.start && !s.zombie
}

// processes lists those that run now.
func processes() map[int]stat {
	out := map[int]stat{}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		panic(err) // without /proc this package can show nothing
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if s, ok := readStat(pid); ok && !s.zombie {
			out[pid] = s
		}
	}
	return out
}

// name is argv[0]; the executable's path while a program is still being loaded, and "" when the process is gone.
func name(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if argv0, _, _ := strings.Cut(string(b), "\x00"); err == nil && argv0 != "" {
		return argv0
	}
	path, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	if err != nil {
		return ""
	}
	return path
}

// mentions says whether a process's command line or environment holds text.
func mentions(pid int, text string) bool {
	for _, file := range []string{"cmdline", "environ"} {
		// A process of another user cannot be read, and cannot be ours.
		if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file)); err == nil && bytes.Contains(b, []byte(text)) {
			return true
		}
	}
	return false
}

// spacesOf are the namespaces of a process, as "net:[4026532008]". pid may be "self".
func spacesOf(pid string) []string { return links("/proc/" + pid + "/ns/*") }

// heldBy are the namespaces that any thread of a process is in, or that it has an open file of.
func heldBy(pid int) []string {
	return append(links(fmt.Sprintf("/proc/%d/task/*/ns/*", pid)), links(fmt.Sprintf("/proc/%d/fd/*", pid))...)
}

// links reads the symbolic links that match pattern and are readable.
func links(pattern string) []string {
	paths, err := filepath.Glob(pattern)
	if err != nil {
		panic(err)
	}
	var out []string
	for _, p := range paths {
		if to, err := os.Readlink(p); err == nil && strings.HasSuffix(to, "]") {
			out = append(out, to)
		}
	}
	return out
}

// mounts counts the mounts of this mount namespace by device, root and mount point; the root of a namespace's mount is its name.
func mounts() map[string]int {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		panic(err)
	}
	out := map[string]int{}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 4 {
			out[strings.Join(f[2:5], " ")]++
		}
	}
	return out
}

// ticks is the time since boot in the unit of process.start.
func ticks() uint64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		panic(err)
	}
	const perSecond = 100 // USER_HZ, the same on every architecture that Go knows
	return uint64(t.Nano()) / (1e9 / perSecond)
}
