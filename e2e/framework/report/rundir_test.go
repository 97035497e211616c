package report

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/history"
)

// runDir makes a run directory with one spec that held, not yet merged.
func runDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	writeHeader(t, dir, header())
	writeSpecs(t, dir, header().Run, "spec/p1")
	return dir
}

func writeHeader(t *testing.T, dir string, h history.Header) {
	t.Helper()
	b, err := json.MarshalIndent(h, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, FileHeader), string(b))
}

func writeSpecs(t *testing.T, dir, run, source string) {
	t.Helper()
	w, err := history.Create(filepath.Join(dir, DirEvents), run, source)
	if err != nil {
		t.Fatal(err)
	}
	w.Write(history.Event{Phase: history.Invoke, Key: "conformance/a", Body: history.Encode(history.Spec{})})
	w.Write(history.Event{Phase: history.OK, Key: "conformance/a", Body: history.Encode(history.Spec{Outcome: "Held"})})
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// mergedDir is runDir after its history was merged.
func mergedDir(t *testing.T) string {
	t.Helper()
	dir := runDir(t)
	if err := history.Merge(filepath.Join(dir, DirEvents), header(), filepath.Join(dir, FileHistory)); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestOpenRunMerges(t *testing.T) {
	for name, tc := range map[string]struct{ keep, running, stays bool }{
		"look only":         {false, false, false},
		"keep":              {true, false, true},
		"keep, but running": {true, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := runDir(t)
			if tc.running {
				write(t, filepath.Join(dir, FileKubeconfig), "")
			}
			r, err := OpenRun(dir, tc.keep)
			if err != nil {
				t.Fatal(err)
			}
			if r.Header.Run != header().Run {
				t.Errorf("header %+v", r.Header)
			}
			notes := strings.Join(r.Notes, "\n")
			if !strings.Contains(notes, "merged events/ into") || strings.Contains(notes, "the run goes on") != tc.running {
				t.Errorf("notes %q", notes)
			}
			for range 2 { // more than once
				got, err := Judge(r.Header, r.Events(), nil)
				if err != nil || len(got.Requirements) != 1 || len(got.Doubts) != 0 {
					t.Errorf("want one requirement and no doubt, got %+v, %v (%v)", got.Requirements, got.Doubts, err)
				}
			}
			temp := r.temp
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(filepath.Join(dir, FileHistory)); (err == nil) != tc.stays {
				t.Errorf("%s in the run directory: want %v, got %v", FileHistory, tc.stays, err)
			}
			if _, err := os.Stat(temp); temp != "" && !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s is left over", temp)
			}
		})
	}
}

func TestOpenRunRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		damage func(t *testing.T, dir string)
		want   []string
	}{
		"gone":      {func(t *testing.T, dir string) { remove(t, dir) }, []string{"does not exist", "remedy"}},
		"a file":    {func(t *testing.T, dir string) { remove(t, dir); write(t, dir, "") }, []string{"is a file, want a run directory"}},
		"no run":    {func(t *testing.T, dir string) { remove(t, filepath.Join(dir, DirEvents)) }, []string{"is no run directory", "remedy"}},
		"no header": {func(t *testing.T, dir string) { remove(t, filepath.Join(dir, FileHeader)) }, []string{FileHeader, "remedy: restore it"}},
		"header garbled": {func(t *testing.T, dir string) { write(t, filepath.Join(dir, FileHeader), "{\n\n\"run\": 5}") },
			[]string{FileHeader + ":3:", "remedy"}},
		"header field": {func(t *testing.T, dir string) { write(t, filepath.Join(dir, FileHeader), "{\"speed\": 5}") },
			[]string{FileHeader + ":1:", `unknown field "speed"`}},
		"header schema": {func(t *testing.T, dir string) { writeHeader(t, dir, history.Header{Schema: "v9", Run: "r"}) }, []string{`got "v9"`, "remedy"}},
		"header run":    {func(t *testing.T, dir string) { writeHeader(t, dir, history.Header{Schema: history.Schema}) }, []string{"want the run's id"}},
		"no events":     {func(t *testing.T, dir string) { remove(t, filepath.Join(dir, DirEvents, "spec")) }, []string{"no events"}},
		"two runs' events": {func(t *testing.T, dir string) { writeSpecs(t, dir, "other", "spec/p2") },
			[]string{filepath.Join("spec", "p2.jsonl") + ":1", `run "other"`}},
		"history garbled": {func(t *testing.T, dir string) { write(t, filepath.Join(dir, FileHistory), "hello\n") },
			[]string{FileHistory + ":1:", "remedy: remove"}},
		"history empty": {func(t *testing.T, dir string) { write(t, filepath.Join(dir, FileHistory), "") }, []string{FileHistory + ":1:"}},
		"history schema": {func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, FileHistory), `{"schema":"headroom/history/v9"}`+"\n")
		},
			[]string{FileHistory + ":1:", `got "headroom/history/v9"`}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := runDir(t)
			tc.damage(t, dir)
			_, err := OpenRun(dir, false)
			var input *cluster.InputError
			if !errors.As(err, &input) {
				t.Fatalf("want an InputError, got %v", err)
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("want %q in %q", want, err)
				}
			}
		})
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
}

func TestDamagedHistoryIsInconclusive(t *testing.T) {
	for name, tc := range map[string]struct {
		damage func(lines []string) string
		want   string
	}{
		"truncated":    {func(l []string) string { return strings.Join(l[:len(l)-2], "") }, "truncated"},
		"torn":         {func(l []string) string { return strings.Join(l[:3], "") + l[3][:10] }, "truncated"},
		"garbled":      {func(l []string) string { return strings.Join(l[:3], "") + "x\n" + strings.Join(l[3:], "") }, FileHistory + ":4:"},
		"line removed": {func(l []string) string { return strings.Join(l[:2], "") + strings.Join(l[3:], "") }, "lines were removed"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := mergedDir(t)
			path := filepath.Join(dir, FileHistory)
			write(t, path, tc.damage(strings.SplitAfter(read(t, path), "\n")))
			r, err := OpenRun(dir, false)
			if err != nil {
				t.Fatal(err)
			}
			got, err := Judge(r.Header, r.Events(), nil)
			if err != nil || ExitCode(got) != ExitInconclusive || len(got.Doubts) == 0 || !strings.Contains(got.Doubts[0], tc.want) {
				t.Errorf("want exit code 4 for %q, got %d, %v (%v)", tc.want, ExitCode(got), got.Doubts, err)
			}
		})
	}
}

func TestMixedHistoryIsNoRun(t *testing.T) {
	dir := mergedDir(t)
	path := filepath.Join(dir, FileHistory)
	write(t, path, strings.Replace(read(t, path), `"run":"`+header().Run, `"run":"other`, 1)) // the header's
	r, err := OpenRun(dir, false)
	if err != nil {
		t.Fatal(err)
	}
	var input *cluster.InputError
	if _, err := Judge(r.Header, r.Events(), nil); !errors.As(err, &input) || !strings.Contains(err.Error(), FileHistory+":2") {
		t.Errorf("want an InputError with file and line, got %v", err)
	}
}

func TestEnvironmentProblemsSurvive(t *testing.T) {
	problem := EnvironmentProblem{Op: "start etcd", Error: "no port"}
	for name, tc := range map[string]struct {
		edit  func(t *testing.T, dir string)
		want  int
		notes string
	}{
		"of this run":  {func(*testing.T, string) {}, 1, ""},
		"of another":   {func(t *testing.T, dir string) { writeReport(t, dir, "other", problem) }, 0, `is of run "other"`},
		"not readable": {func(t *testing.T, dir string) { write(t, filepath.Join(dir, FileReport), "x: [") }, 0, "are not known"},
		"none":         {func(t *testing.T, dir string) { remove(t, filepath.Join(dir, FileReport)) }, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := mergedDir(t)
			writeReport(t, dir, header().Run, problem)
			tc.edit(t, dir)
			r, err := OpenRun(dir, false)
			if err != nil {
				t.Fatal(err)
			}
			notes := strings.Join(r.Notes, "\n")
			if len(r.Previous) != tc.want || !strings.Contains(notes, tc.notes) || (notes == "") != (tc.notes == "") {
				t.Errorf("want %d problems and note %q, got %v and %q", tc.want, tc.notes, r.Previous, notes)
			}
		})
	}
}

func writeReport(t *testing.T, dir, run string, problems ...EnvironmentProblem) {
	t.Helper()
	h := header()
	h.Run = run
	if err := Write(dir, Build(Input{Header: h, Environment: problems, Events: newScript().all()})); err != nil {
		t.Fatal(err)
	}
}
