package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"headroom/e2e/framework/history"
	"headroom/e2e/framework/report"
)

// finishedRun makes a run directory with one spec that ended as given and a merged history.
func finishedRun(t *testing.T, phase history.Phase, merge bool) string {
	t.Helper()
	dir := t.TempDir()
	h := history.Header{Schema: history.Schema, Run: "r1", Seed: 7, Provider: "local"}
	writeRunFile(t, filepath.Join(dir, report.FileHeader), string(history.Encode(h)))
	events := filepath.Join(dir, report.DirEvents)
	w, err := history.Create(events, h.Run, "spec/p1")
	if err != nil {
		t.Fatal(err)
	}
	w.Write(history.Event{Phase: history.Invoke, Key: "conformance/a", Body: history.Encode(history.Spec{})})
	w.Write(history.Event{Phase: phase, Key: "conformance/a", Body: history.Encode(history.Spec{Message: "want 8, got 9"})})
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if merge {
		if err := history.Merge(events, h, filepath.Join(dir, report.FileHistory)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func writeRunFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// runCheck runs the command and returns the exit code that its error asks for.
func runCheck(args ...string) (code int, stdout, stderr string, err error) {
	var out, notes bytes.Buffer
	cmd := checkCommand()
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(&notes)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err = cmd.Execute()
	var usage usageError
	var exit exitError
	switch {
	case errors.As(err, &usage):
		code = 2
	case errors.As(err, &exit):
		code = exit.code
	case err != nil:
		code = -1
	}
	return code, out.String(), notes.String(), err
}

func TestCheck(t *testing.T) {
	cutOff := func(t *testing.T, dir string) {
		path := filepath.Join(dir, report.FileHistory)
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		writeRunFile(t, path, string(b[:len(b)-20]))
	}
	environment := func(t *testing.T, dir string) {
		r := report.Report{
			APIVersion: report.APIVersion, Kind: report.Kind, Run: "r1", Environment: []report.EnvironmentProblem{{Op: "start etcd", Error: "no port"}},
		}
		r.Summary = r.Summarise()
		if err := report.Write(dir, r); err != nil {
			t.Fatal(err)
		}
	}
	none := func(*testing.T, string) {}
	for name, tc := range map[string]struct {
		phase history.Phase
		edit  func(*testing.T, string)
		code  int
		want  string // in the table
	}{
		"held":                   {history.OK, none, 0, "1 held, 0 violated"},
		"violated":               {history.Fail, none, 1, "want 8, got 9"},
		"inconclusive":           {history.Unknown, none, 4, "1 inconclusive"},
		"damaged":                {history.OK, cutOff, 4, "the history is damaged"},
		"damaged but proven":     {history.Fail, cutOff, 1, "the history is damaged"},
		"environment":            {history.OK, environment, 3, "start etcd"},
		"environment but proven": {history.Fail, environment, 1, "start etcd"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := finishedRun(t, tc.phase, true)
			tc.edit(t, dir)
			code, stdout, _, err := runCheck(dir)
			if code != tc.code || !strings.Contains(stdout, tc.want) {
				t.Errorf("want exit code %d and %q, got %d (%v) and\n%s", tc.code, tc.want, code, err, stdout)
			}
			if !strings.Contains(stdout, "headroom check "+dir) {
				t.Errorf("the table does not say how to repeat it:\n%s", stdout)
			}
		})
	}
}

func TestCheckBadInput(t *testing.T) {
	dir := finishedRun(t, history.OK, true)
	garbled := finishedRun(t, history.OK, true)
	writeRunFile(t, filepath.Join(garbled, report.FileHistory), "hello\n")
	mixed := finishedRun(t, history.OK, false)
	if w, err := history.Create(filepath.Join(mixed, report.DirEvents), "r2", "backend"); err != nil {
		t.Fatal(err)
	} else if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"no directory":     {[]string{}, "name the directory"},
		"two directories":  {[]string{dir, dir}, "accepts 1 arg"},
		"bad output":       {[]string{dir, "-o", "xml"}, "want table, wide, json or yaml"},
		"not there":        {[]string{filepath.Join(dir, "none")}, "does not exist"},
		"no run directory": {[]string{t.TempDir()}, "is no run directory"},
		"garbled":          {[]string{garbled}, report.FileHistory + ":1"},
		"two runs":         {[]string{mixed}, `run "r2"`},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, _, err := runCheck(tc.args...)
			if code != 2 || !strings.Contains(err.Error(), tc.want) || stdout != "" {
				t.Errorf("want exit code 2 and %q, got %d, %v and %q", tc.want, code, err, stdout)
			}
		})
	}
}

func TestCheckWrites(t *testing.T) {
	dir := finishedRun(t, history.OK, false)
	entries := func() string {
		names, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil {
			t.Fatal(err)
		}
		for i := range names {
			names[i] = filepath.Base(names[i])
		}
		return strings.Join(names, " ")
	}
	code, _, stderr, err := runCheck(dir)
	if code != 0 || !strings.Contains(stderr, "merged events/ into a temporary file") {
		t.Fatalf("want exit code 0 and a note, got %d (%v) and %q", code, err, stderr)
	}
	if got, want := entries(), "events header.json"; got != want {
		t.Errorf("without --write: want %s, got %s", want, got)
	}
	if code, _, _, err = runCheck(dir, "--write"); code != 0 {
		t.Fatalf("want exit code 0, got %d (%v)", code, err)
	}
	if got, want := entries(), "events header.json history.jsonl junit.xml report.yaml"; got != want {
		t.Errorf("with --write: want %s, got %s", want, got)
	}
	if _, err := report.Read(filepath.Join(dir, report.FileReport)); err != nil {
		t.Error(err)
	}
	code, stdout, _, err := runCheck(dir, "-o", "json")
	var r report.Report
	if jsonErr := json.Unmarshal([]byte(stdout), &r); code != 0 || jsonErr != nil || r.Run != "r1" || len(r.Requirements) != 1 {
		t.Errorf("want the report as JSON, got %d (%v, %v) and %s", code, err, jsonErr, stdout)
	}
}

func TestCheckPrintsYAML(t *testing.T) {
	code, stdout, _, err := runCheck(finishedRun(t, history.Fail, true), "-o", "yaml")
	path := filepath.Join(t.TempDir(), report.FileReport)
	writeRunFile(t, path, stdout)
	if r, readErr := report.Read(path); code != 1 || readErr != nil || r.Run != "r1" || r.Summary.Violated != 1 {
		t.Errorf("want exit code 1 and the report as YAML, got %d (%v, %v) and %s", code, err, readErr, stdout)
	}
}

func TestCheckWritesEvidence(t *testing.T) {
	dir := ranSpecs(t, "steady", map[string]history.Phase{"count-drop": history.OK}, "scope-count-drop")
	if _, stdout, _, _ := runCheck(dir); strings.Contains(stdout, "evidence of each violation") {
		t.Errorf("want no evidence named where none is written, got\n%s", stdout)
	}
	if code, _, _, err := runCheck(dir, "--write"); code != 1 {
		t.Fatalf("want exit code 1, got %d (%v)", code, err)
	}
	found, err := filepath.Glob(filepath.Join(dir, report.DirEvidence, "attach-rechecked-*.jsonl"))
	if err != nil || len(found) != 1 {
		t.Fatalf("want a bundle, got %v (%v)", found, err)
	}
	if _, stdout, _, _ := runCheck(dir); !strings.Contains(stdout, "evidence of each violation: "+filepath.Join(dir, report.DirEvidence)) {
		t.Errorf("want the evidence named, got\n%s", stdout)
	}
}

func TestCheckWhereItCannotWrite(t *testing.T) {
	for phase, want := range map[history.Phase]int{history.OK: 3, history.Fail: 1} {
		dir := finishedRun(t, phase, true)
		if err := os.MkdirAll(filepath.Join(dir, report.FileJUnit, "x"), 0o755); err != nil { // in the way
			t.Fatal(err)
		}
		if code, _, _, err := runCheck(dir, "--write"); code != want || !strings.Contains(err.Error(), report.FileJUnit) {
			t.Errorf("%s: want exit code %d and the file's name, got %d, %v", phase, want, code, err)
		}
	}
}
