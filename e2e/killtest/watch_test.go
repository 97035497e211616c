package killtest

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// scanInterval is the time between two looks at which processes a run has.
const scanInterval = 250 * time.Millisecond

// markVariable is in the environment of the command, and so of all that it starts. Its value is the run directory.
const markVariable = "HEADROOM_KILLTEST"

// watch knows everything that a run ever had, to look for it after the run's end.
type watch struct {
	mark   string // the run directory: it is in the environment of every process of the run, unless that cleared its own
	root   int    // the command
	own    map[string]bool
	before map[string]int // mounts
	stop   chan struct{}
	done   sync.WaitGroup

	mu        sync.Mutex
	members   map[process]string // with argv[0]
	strangers map[process]bool   // that do not name the run
	spaces    map[string]string  // namespace to who was in it
	end       uint64             // ticks at the kill; 0 before
}

// newWatch is made before the run starts.
func newWatch(mark string) *watch {
	w := &watch{
		mark: mark, own: map[string]bool{}, before: mounts(), stop: make(chan struct{}),
		members: map[process]string{}, strangers: map[process]bool{}, spaces: map[string]string{},
	}
	for _, ns := range spacesOf("self") {
		w.own[ns] = true
	}
	return w
}

// follow looks again and again until the watch is closed.
func (w *watch) follow(root int) {
	w.root = root
	w.done.Go(func() {
		tick := time.NewTicker(scanInterval)
		defer tick.Stop()
		for {
			w.scan(false)
			select {
			case <-w.stop:
				return
			case <-tick.C:
			}
		}
	})
}

func (w *watch) close() {
	close(w.stop)
	w.done.Wait()
}

// scan adds the processes that belong to the run now, with their namespaces: the command, those that name the run, and all descendants. Whether
// a process names the run is looked at once, unless again is set.
func (w *watch) scan(again bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if again {
		clear(w.strangers)
	}
	all := processes()
	for grown := true; grown; {
		grown = false
		for pid, s := range all {
			if _, known := w.members[s.process]; known {
				continue
			}
			_, child := w.members[all[s.parent].process]
			if !child && pid != w.root && (w.strangers[s.process] || !mentions(pid, w.mark)) {
				w.strangers[s.process] = true
				continue
			}
			w.members[s.process] = ""
			grown = true
		}
	}
	if w.end == 0 {
		clear(w.spaces) // those of processes that ended in good order are nobody's any more
	}
	for p := range w.members {
		argv0 := name(p.pid)
		if argv0 == "" || !p.alive() {
			continue
		}
		w.members[p] = argv0 // which changes once, between fork and exec
		for _, ns := range spacesOf(strconv.Itoa(p.pid)) {
			if !w.own[ns] {
				w.spaces[ns] = fmt.Sprintf("process %d (%s)", p.pid, argv0)
			}
		}
	}
}

// named are the living processes of the run whose argv[0] fits, in the order of their numbers.
func (w *watch) named(fits func(argv0 string) bool) []process {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []process
	for p, argv0 := range w.members {
		if fits(argv0) && p.alive() {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b process) int { return a.pid - b.pid })
	return out
}

// components are the living control plane processes of this very run.
func (w *watch) components() []process {
	return w.named(func(argv0 string) bool {
		return slices.Contains([]string{"kube-apiserver", "etcd"}, filepath.Base(argv0))
	})
}

// kill sends SIGKILL to one process of the run. What is alive afterwards is left over, and what starts afterwards is not the run's unless it says so.
func (w *watch) kill(p process) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.end = ticks()
	if !p.alive() {
		return fmt.Errorf("%w: process %d has ended", errLate, p.pid)
	}
	if err := syscall.Kill(p.pid, syscall.SIGKILL); err != nil {
		return fmt.Errorf("%w: kill process %d: %w", errLate, p.pid, err)
	}
	return nil
}

// left says what of the run is still there, one line each.
func (w *watch) left() []string {
	w.scan(true) // finds processes that nobody knew yet
	out := w.running()
	w.mu.Lock()
	defer w.mu.Unlock()
	for pid, s := range processes() {
		if _, member := w.members[s.process]; member || pid == os.Getpid() {
			continue
		}
		// The kernel gives the number of a namespace away again at once: in the hands of a process that started later, or that is of another of
		// our runs, it is another namespace.
		if w.end > 0 && s.start > w.end+1 || mentions(pid, markVariable+"=") {
			continue
		}
		for _, ns := range heldBy(pid) {
			if who, ok := w.spaces[ns]; ok {
				out = append(out, fmt.Sprintf("namespace %s of %s: held by process %d (%s)", ns, who, pid, name(pid)))
				break
			}
		}
	}
	return append(out, w.mounted()...)
}

// running are the members that live.
func (w *watch) running() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []string
	for p, argv0 := range w.members {
		if p.alive() {
			out = append(out, fmt.Sprintf("process %d (%s)", p.pid, argv0))
		}
	}
	slices.Sort(out)
	return out
}

// mounted are mounts that were not there before, and namespaces that a mount keeps.
func (w *watch) mounted() []string {
	var out []string
	for line, n := range mounts() {
		if n > w.before[line] {
			out = append(out, "mount "+line)
		}
		if who, ok := w.spaces[strings.Fields(line)[1]]; ok {
			out = append(out, fmt.Sprintf("namespace of %s: held by mount %s", who, line))
		}
	}
	return out
}

// sweep kills what is left, so that a test that fails leaves nothing either.
func (w *watch) sweep() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for p := range maps.Keys(w.members) {
		if p.alive() {
			_ = syscall.Kill(p.pid, syscall.SIGKILL) // gone already is as good
		}
	}
}
