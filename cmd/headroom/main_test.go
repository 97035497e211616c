package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"headroom/e2e/framework/cluster"
)

func TestExitCodes(t *testing.T) {
	env := &cluster.EnvironmentError{Op: "x", Err: errors.New("y")}
	driver := &cluster.DriverError{Driver: "d", Err: errors.New("y")}
	for name, tc := range map[string]struct {
		err  error
		want int
	}{
		"nothing":               {nil, 0},
		"usage":                 {usageError{errors.New("x")}, 2},
		"input":                 {fmt.Errorf("run: %w", &cluster.InputError{Err: errors.New("x")}), 2},
		"damaged run":           {&cluster.InputError{Err: errors.New("x")}, 2},
		"driver check":          {fmt.Errorf("check: %w", &cluster.InputError{Err: errors.New("x")}), 2},
		"environment":           {fmt.Errorf("run: %w", env), 3},
		"driver":                {driver, 1},
		"violation outranks":    {errors.Join(env, driver), 1},
		"never possible":        {&cluster.UnsupportedError{Provider: "kind", Why: "x"}, 2},
		"interrupted":           {context.Canceled, 3},
		"unknown":               {errors.New("x"), 3},
		"its own":               {exitError{code: 4}, 4},
		"its own, with a cause": {exitError{code: 4, error: env}, 4},
	} {
		if got := exitCode(tc.err); got != tc.want {
			t.Errorf("%s: want exit code %d, got %d", name, tc.want, got)
		}
	}
}

// try runs the command line in this process and returns its error.
func try(t *testing.T, args ...string) (string, error) {
	t.Helper()
	root := rootCommand()
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&out)
	root.SetArgs(args)
	err := root.ExecuteContext(t.Context())
	return out.String(), err
}

func TestBadCommandLines(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	broken := func(node string) string {
		path := filepath.Join(t.TempDir(), "broken.yaml")
		text := "apiVersion: headroom/v1alpha1\nkind: Driver\nname: broken\nlimit: backend\nfigures: {minInterval: 1s, cacheAge: 2s, lastGoodLife: 30s}\n" + node + "\n"
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "old"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		args string
		want []string
	}{
		{"nosuch", []string{`"nosuch"`, "headroom --help"}},
		{"run --nosuch", []string{"--nosuch", "headroom run --help"}},
		{"run extra", []string{`"extra"`}},
		{"run --seed x", []string{"--seed", "x"}},
		{"run --procs 0", []string{"--procs 0", "1 to 32"}},
		{"run --driver nosuch", []string{`"nosuch"`, "steady", "all-internal"}},
		{"run --driver /nowhere/x.yaml", []string{"/nowhere/x.yaml"}},
		{"run --driver " + broken("node: {command: [/bin/true, '${ENDPOINT}', '${DRIVER_NAM}']}"), []string{"broken.yaml:6: node.command[2]", "${DRIVER_NAM}", "remedy"}},
		{"run --driver " + broken("node: {command: [./no-such-program, '${ENDPOINT} ${DRIVER_NAME} ${NODE_ID} ${BACKEND}']}"),
			[]string{"broken.yaml:6: node.command[0]", "no such file", "remedy: build it"}},
		{"run --driver " + broken("node: {command: [/bin/true, '${ENDPOINT} ${DRIVER_NAME} ${BACKEND}']}"), []string{"broken.yaml:6: node.command: has no ${NODE_ID}"}},
		{"run --driver hostpath-pods", []string{`"hostpath-pods"`, "no node.command", "--provider kind"}},
		{"driver check --driver " + broken("node: {command: [./no-such-program, '${ENDPOINT} ${DRIVER_NAME} ${NODE_ID} ${BACKEND}']}"),
			[]string{"broken.yaml:6: node.command[0]", "no such file", "remedy: build it"}},
		{"driver check --driver " + broken("node: {command: [/bin/true, '${ENDPOINT} ${DRIVER_NAME} ${BACKEND}']}"), []string{"broken.yaml:6: node.command: has no ${NODE_ID}"}},
		{"driver check --driver hostpath-pods", []string{`"hostpath-pods"`, "no process", "--socket"}},
		{"run --focus nosuch", []string{`"nosuch"`, "count-drop"}},
		{"run --focus (", []string{"--focus", "missing closing"}},
		{"run --label-filter &&", []string{"--label-filter", "!slow"}},
		{"run --deadline 0s", []string{"--deadline 0s", "10m"}},
		{"run --deadline -1m", []string{"--deadline -1m"}},
		{"run --deadline 5", []string{"--deadline", "missing unit"}},
		{"run --timeout-scale 0.5", []string{"timeout scale 0.5", "1 to 1000"}},
		{"run --timeout-scale NaN", []string{"timeout scale NaN", "1 to 1000"}},
		{"run --timeout-scale 1e300", []string{"timeout scale 1e+300", "1 to 1000"}},
		{"run --timeout-scale x", []string{"--timeout-scale"}},
		{"run -o xml", []string{"table, wide, json or yaml", "xml"}},
		{"run --rerun-failed /nowhere", []string{"/nowhere", "does not exist"}},
		{"run --rerun-failed " + full, []string{full, "no run directory"}},
		{"explain nosuch", []string{`"nosuch"`, "never-unbounded", "count-drop"}},
		{"explain a b", []string{"at most 1 arg", "headroom explain --help"}},
		{"run --run-dir " + full, []string{full, "not empty"}},
		{"run --provider cloud", []string{`"cloud"`, "local, kind"}},
		{"run --topology one-worker", []string{"--provider kind"}},
		{"run --provider kind --topology nosuch", []string{`"nosuch"`, "two-workers"}},
		{"node-image --kubernetes v1.2.3", []string{"--kubernetes", "v1.36.3"}},
		{"node-image extra", []string{`"extra"`}},
		{"down --all /nowhere", []string{"--all", "/nowhere"}},
		{"up --nodes -1", []string{"--nodes -1", "0 to 200"}},
		{"up --run-dir " + full, []string{"not empty"}},
		{"check", []string{"run printed at its end"}},
		{"check /nowhere", []string{"/nowhere", "does not exist"}},
		{"check " + full, []string{full, "no run directory"}},
		{"down /nowhere", []string{"/nowhere"}},
		{"doctor extra", []string{`"extra"`}},
		{"drivers extra", []string{`"extra"`}},
		{"driver", []string{"say what to do", "check"}},
		{"driver grow", []string{`"grow"`}},
		{"driver init a b", []string{"at most 1 arg"}},
		{"driver init --name Fast-Disk " + filepath.Join(t.TempDir(), "x.yaml"), []string{"--name", "lower-case"}},
		{"driver init " + filepath.Join(full, "old"), []string{"is there already"}},
		{"driver init /nowhere/x.yaml", []string{"/nowhere/x.yaml", "remedy"}},
		{"driver lint /nowhere/x.yaml", []string{"/nowhere/x.yaml"}},
		{"driver lint " + filepath.Join(full, "old"), []string{"old:1: the file is empty"}},
		{"driver check", []string{"no driver to check", "remedy"}},
		{"driver check extra", []string{`"extra"`}},
		{"driver check --driver nosuch", []string{`"nosuch"`, "steady"}},
		{"driver check --driver /nowhere/x.yaml", []string{"/nowhere/x.yaml"}},
		{"driver check --driver steady --quota 127.0.0.1:1", []string{"without the socket of a running driver"}},
		{"driver check --socket x.sock", []string{"unix:///absolute/path"}},
		{"driver check --socket unix:///x --timeout-scale 0", []string{"--timeout-scale 0"}},
		{"driver check --socket unix:///x --timeout-scale 0.5", []string{"timeout scale of 0.5"}},
		{"driver check --socket unix:///x --timeout-scale NaN", []string{"timeout scale of NaN"}},
		{"driver check --socket unix:///x --timeout-scale 1e300", []string{"timeout scale of 1e+300"}},
		{"driver check --socket unix:///x --wait 0s", []string{"--wait 0s"}},
		{"driver check --socket unix:///x --wait 5", []string{"missing unit"}},
		{"driver check --socket unix:///x -o xml", []string{"json or yaml"}},
	} {
		out, err := try(t, strings.Fields(tc.args)...)
		if got := exitCode(err); got != 2 {
			t.Errorf("headroom %s: want exit code 2, got %d (%v)", tc.args, got, err)
			continue
		}
		for _, want := range tc.want {
			if !strings.Contains(err.Error()+out, want) {
				t.Errorf("headroom %s: want %q in the message, got %v", tc.args, want, err)
			}
		}
	}
}

func TestDriversNamesPersonasAndTheirRoots(t *testing.T) {
	out, err := try(t, "drivers")
	if err != nil || !strings.Contains(out, "steady") || !strings.Contains(out, "breaks never-unbounded") {
		t.Errorf("want steady and the personas' roots, got %v:\n%s", err, out)
	}
}

func TestDownEndsWhatIsRegisteredAndNothingElse(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	dir, err := registry()
	if err != nil {
		t.Fatal(err)
	}
	if out, err := try(t, "down"); err != nil || !strings.Contains(out, "no cluster") {
		t.Fatalf("want nothing to end before anything is registered, got %v: %s", err, out)
	}
	sleeper := func() *exec.Cmd {
		cmd := exec.Command("sleep", "1000")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill() })
		return cmd
	}
	file := func(pid int, start, runDir string) string {
		t.Helper()
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(holder{PID: pid, StartTime: start, RunDir: runDir})
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, strconv.Itoa(pid)+".json")
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	mine, other, reused := sleeper(), sleeper(), sleeper()
	for _, cmd := range []*exec.Cmd{mine, other} {
		start, err := startTime(cmd.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		file(cmd.Process.Pid, start, "/run/"+strconv.Itoa(cmd.Process.Pid))
	}
	// A process that got the number of a holder that is gone.
	stale := file(reused.Process.Pid, "1", "/run/stale")

	ended := make(chan error, 1)
	go func() { ended <- mine.Wait() }()
	out, err := try(t, "down", "/run/"+strconv.Itoa(mine.Process.Pid))
	if err != nil || !strings.Contains(out, "ended /run/"+strconv.Itoa(mine.Process.Pid)) {
		t.Fatalf("want the cluster named to be ended, got %v: %s", err, out)
	}
	<-ended
	for what, cmd := range map[string]*exec.Cmd{"the other holder": other, "the process with a reused number": reused} {
		if err := cmd.Process.Signal(syscall.Signal(0)); err != nil {
			t.Errorf("want %s left alone, got %v", what, err)
		}
	}
	if _, err := os.Stat(stale); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("want the stale file removed, got %v", err)
	}
}
