package local

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/history"
	"headroom/e2e/framework/versions"
)

// obedient says that it is up, and ends with code 7 when it is terminated. It forks only before it is up: a shell that is stopped while its child
// has not yet become another program waits for the child and does not count as stopped.
const obedient = `trap 'exit 7' TERM; sleep 1000 & echo up > "$DIR/up"; while :; do wait; done`

// shell is a process that runs a script; DIR is its directory, where the file "up" makes it healthy.
func shell(t *testing.T, script string) (p *process, dir string) {
	t.Helper()
	dir = t.TempDir()
	events, err := history.Create(dir, "run", "component/test")
	if err != nil {
		t.Fatal(err)
	}
	p = &process{id: "thing@n1/driver", log: filepath.Join(dir, "thing.log"), events: events, version: "v1.0.0"}
	p.command = func(versions.Version) (*exec.Cmd, error) {
		cmd := exec.Command("/bin/sh", "-c", script)
		cmd.Env = append(os.Environ(), "DIR="+dir)
		return cmd, nil
	}
	p.healthy = func(context.Context) error {
		_, err := os.Stat(filepath.Join(dir, "up"))
		return err
	}
	t.Cleanup(func() {
		if err := errors.Join(p.stop(context.Background(), cluster.Kill), events.Close()); err != nil {
			t.Error(err)
		}
	})
	return p, dir
}

func mustStart(t *testing.T, p *process) {
	t.Helper()
	if err := p.start(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
}

// recorded are the states in the history so far, with the exit where there is one.
func recorded(t *testing.T, dir string) []string {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, "component", "test.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var states []string
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var e history.Event
		var c history.Component
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatal(err)
		}
		if e.Key == history.KeyOpen {
			continue
		}
		if err := e.Decode(&c); err != nil {
			t.Fatal(err)
		}
		if e.Key != "thing@n1/driver" || c.PID == 0 && c.State != "stopped" {
			t.Errorf("event: want key thing@n1/driver and a pid, got %q and %+v", e.Key, c)
		}
		states = append(states, strings.TrimSpace(c.State+" "+c.Exit))
	}
	return states
}

func wantStates(t *testing.T, dir string, want ...string) {
	t.Helper()
	if got := recorded(t, dir); !slices.Equal(got, want) {
		t.Errorf("states: want %q, got %q", want, got)
	}
}

// await polls until f holds.
func await(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within 30s", what)
		}
	}
}

func TestProcessLife(t *testing.T) {
	p, dir := shell(t, obedient)
	mustStart(t, p)
	pid := p.status().PID
	if state, parent := processState(pid); state == 0 || parent != os.Getpid() {
		t.Fatalf("process %d: want a child of this one, got state %q and parent %d", pid, state, parent)
	}
	if err := p.start(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "runs already") {
		t.Errorf("start again: want an error that it runs, got %v", err)
	}
	if err := p.stop(t.Context(), cluster.Terminate); err != nil {
		t.Fatal(err)
	}
	if state, _ := processState(pid); state != 0 {
		t.Errorf("after stop: want process %d gone, got state %q", pid, state)
	}
	if got := p.status(); got.PID != 0 || got.Version != "v1.0.0" || got.ID != p.id || got.Log != p.log {
		t.Errorf("status after stop: got %+v", got)
	}
	if err := p.stop(t.Context(), cluster.Terminate); err != nil {
		t.Errorf("stop what does not run: %v", err)
	}
	wantStates(t, dir, "started", "ready", "stopping", "stopped exit status 7")

	if err := p.start(t.Context(), "v2.0.0"); err != nil {
		t.Fatal(err)
	}
	if got := p.status().Version; got != "v2.0.0" {
		t.Errorf("version: want v2.0.0, got %s", got)
	}
	if err := p.stop(t.Context(), cluster.Kill); err != nil {
		t.Fatal(err)
	}
	if got := recorded(t, dir); got[len(got)-1] != "stopped signal: killed" {
		t.Errorf("after a kill: got %q", got)
	}
}

// A process that does not end when it is asked to is killed, and its children with it.
func TestProcessEscalates(t *testing.T) {
	for how, grace := range map[cluster.Signal]time.Duration{cluster.Terminate: stopTimeout, cluster.Brief: briefTimeout} {
		t.Run(string(how), func(t *testing.T) {
			t.Parallel()
			if testing.Short() {
				t.Skipf("-short: a process has %s to end", grace)
			}
			escalates(t, how, grace)
		})
	}
}

func escalates(t *testing.T, how cluster.Signal, grace time.Duration) {
	p, dir := shell(t, `trap '' TERM; sleep 1000 & echo $! > "$DIR/child"; echo up > "$DIR/up"; while :; do sleep 0.02; done`)
	mustStart(t, p)
	b, err := os.ReadFile(filepath.Join(dir, "child"))
	if err != nil {
		t.Fatal(err)
	}
	child, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	if state, _ := processState(child); state == 0 {
		t.Fatalf("child %d: want it alive before the stop", child)
	}
	began := time.Now()
	if err := p.stop(t.Context(), how); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < grace || took > grace+stopTimeout/2 {
		t.Errorf("stop: want it to wait %s before it kills, it took %s", grace, took)
	}
	await(t, "the child's end", func() bool { state, _ := processState(child); return state == 0 || state == 'Z' })
	wantStates(t, dir, "started", "ready", "stopping", "stopped signal: killed")
}

func TestProcessPause(t *testing.T) {
	p, dir := shell(t, obedient)
	if err := p.pause(); err == nil || !strings.Contains(err.Error(), "does not run") {
		t.Errorf("pause what does not run: want an error, got %v", err)
	}
	mustStart(t, p)
	pid := p.status().PID
	paused := func() bool { state, _ := processState(pid); return state == 'T' }
	if err := p.pause(); err != nil {
		t.Fatal(err)
	}
	await(t, "the pause", paused)
	if err := p.resume(); err != nil {
		t.Fatal(err)
	}
	await(t, "the resumption", func() bool { return !paused() })
	if err := p.pause(); err != nil {
		t.Fatal(err)
	}
	await(t, "the second pause", paused)
	if err := p.stop(t.Context(), cluster.Terminate); err != nil {
		t.Fatal(err)
	}
	// That it ends with its own code shows that it saw the signal.
	wantStates(t, dir, "started", "ready", "paused", "resumed", "paused", "stopping", "stopped exit status 7")
}

func TestProcessEndsByItself(t *testing.T) {
	p, dir := shell(t, `echo up > "$DIR/up"; until test -e "$DIR/go"; do sleep 0.02; done; exit 4`)
	mustStart(t, p)
	ended := make(chan struct{})
	defer p.whenEnded(func() { close(ended) })()
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	case <-time.After(30 * time.Second):
		t.Fatal("whenEnded: not called within 30s")
	}
	await(t, "the event", func() bool { return len(recorded(t, dir)) > 2 })
	wantStates(t, dir, "started", "ready", "exited exit status 4")
	if got := p.status().PID; got != 0 {
		t.Errorf("status: want no pid, got %d", got)
	}
	if err := p.resume(); err == nil {
		t.Error("resume what has ended: want an error")
	}
	if err := os.Remove(filepath.Join(dir, "go")); err != nil {
		t.Fatal(err)
	}
	mustStart(t, p)
}

// A component that is not healthy in time is named, with its last words, and stopped.
func TestProcessNotHealthy(t *testing.T) {
	p, dir := shell(t, `i=1; while test $i -le 20; do echo "line $i"; i=$((i+1)); done; echo up > "$DIR/said"; while :; do sleep 0.02; done`)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var pid, asked int
	p.healthy = func(context.Context) error {
		asked++
		// The answer of a question that is cut short does not count, so one goes before it.
		if _, err := os.Stat(filepath.Join(dir, "said")); err == nil && asked > 1 {
			pid = p.run.cmd.Process.Pid
			defer cancel() // stands for the time-out
		}
		return errors.New("not yet")
	}
	err := p.start(ctx, "")
	if err == nil {
		t.Fatal("start: want an error")
	}
	for _, want := range []string{"start thing@n1/driver", "not healthy after", "not yet", p.log, "line 20", "line 6"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error: want %q in it, got: %v", want, err)
		}
	}
	if strings.Contains(err.Error(), "line 5\n") {
		t.Errorf("error: want the last %d lines, got: %v", cluster.TailLines, err)
	}
	if state, _ := processState(pid); state != 0 {
		t.Errorf("after the error: want process %d gone, got state %q", pid, state)
	}
	if got := recorded(t, dir); slices.Contains(got, "ready") || slices.Contains(got, "exited") {
		t.Errorf("states: want neither ready nor exited, got %q", got)
	}
}

func TestProcessEndsInsteadOfStarting(t *testing.T) {
	p, _ := shell(t, `echo "unknown flag: --x"; exit 3`)
	err := p.start(t.Context(), "")
	if err == nil {
		t.Fatal("start: want an error")
	}
	for _, want := range []string{"thing@n1/driver", "ended by itself (exit status 3)", "unknown flag: --x"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error: want %q in it, got: %v", want, err)
		}
	}
	p.command = func(versions.Version) (*exec.Cmd, error) { return nil, errors.New("no such executable") }
	if err := p.start(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "start thing@n1/driver: no such executable") {
		t.Errorf("start without a command: got %v", err)
	}
}

func TestInsistStartsAgainWhatEndedByItself(t *testing.T) {
	const thirdTime = `echo x >> "$DIR/tries"; [ "$(wc -l < "$DIR/tries")" -ge 3 ] || exit 1; ` + obedient
	p, _ := shell(t, thirdTime)
	if err := p.insist(t.Context(), 2); err == nil || !strings.Contains(err.Error(), "ended by itself") {
		t.Fatalf("want the second end by itself to be the error, got %v", err)
	}
	if err := p.insist(t.Context(), 1); err != nil {
		t.Fatalf("want the third start to hold, got %v", err)
	}
}
