package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"headroom/e2e/framework/history"
	"headroom/e2e/framework/report"
)

// injected makes a run directory in which quota-drop was injected so many times.
func injected(t *testing.T, run string, times int) string {
	t.Helper()
	dir := t.TempDir()
	w, err := history.Create(filepath.Join(dir, report.DirEvents), run, history.SourceFault)
	if err != nil {
		t.Fatal(err)
	}
	for i := range times {
		for _, state := range []string{"inject", "effective", "heal", "healed"} {
			w.Write(history.Event{Phase: history.Observed, Op: string(rune('a' + i)), Key: "quota-drop", Node: "n1",
				Body: history.Encode(history.Fault{State: state, Target: "node/1", Nodes: []string{"n1"}})})
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := history.Merge(filepath.Join(dir, report.DirEvents), history.Header{Schema: history.Schema, Run: run}, filepath.Join(dir, report.FileHistory)); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestCoverageCommand(t *testing.T) {
	one, two, file := injected(t, "r1", 2), injected(t, "r2", 1), filepath.Join(t.TempDir(), "coverage.yaml")
	row := func(out string) string {
		for line := range strings.Lines(out) {
			if strings.HasPrefix(line, "quota-drop ") {
				return strings.Join(strings.Fields(line)[:3], " ")
			}
		}
		return ""
	}
	out, err := try(t, "coverage", one, two)
	if err != nil || row(out) != "quota-drop node 3" || !strings.Contains(out, "\n2 runs; ") || !strings.Contains(out, "driver-surge") {
		t.Errorf("two runs: got %v\n%s", err, out)
	}
	for i, want := range []string{"quota-drop node 2", "quota-drop node 2", "quota-drop node 3"} {
		out, err := try(t, "coverage", "--file", file, []string{one, one, two}[i])
		if err != nil || row(out) != want || (i == 1) != strings.Contains(out, "run r1 is counted already") {
			t.Errorf("into a file: want %q, got %v\n%s", want, err, out)
		}
	}
	if out, err := try(t, "coverage", "--file", file); err != nil || row(out) != "quota-drop node 3" {
		t.Errorf("a file alone: got %v\n%s", err, out)
	}
	several := t.TempDir()
	for seed, run := range map[string]string{"1": one, "2": two} {
		if err := os.MkdirAll(filepath.Join(several, seed), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(run, filepath.Join(several, seed, dirRun)); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := try(t, "coverage", several); err != nil || row(out) != "quota-drop node 3" {
		t.Errorf("a directory of trials: got %v\n%s", err, out)
	}
}

func TestCoverageRefuses(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad.yaml")
	if err := os.WriteFile(bad, []byte("apiVersion: headroom/v1alpha1\nkind: Coverage\nruns: []\nrows:\n- {fault: f, target: moon, times: 1}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ args, want string }{
		{"", "want run directories"},
		{"/nowhere", "does not exist"},
		{t.TempDir(), "no run directory"},
		{"--file /nowhere/x.yaml", "name a file of headroom coverage"},
		{"--file " + bad, bad + ":5: rows[0].target: unknown target \"moon\""},
	} {
		out, err := try(t, append([]string{"coverage"}, strings.Fields(c.args)...)...)
		if exitCode(err) != 2 || !strings.Contains(err.Error()+out, c.want) {
			t.Errorf("coverage %s: want exit code 2 and %q, got %d: %v", c.args, c.want, exitCode(err), err)
		}
	}
}
