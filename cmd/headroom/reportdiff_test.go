package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"headroom/e2e/framework/drivercheck"
	"headroom/e2e/framework/report"
)

func TestReportDiff(t *testing.T) {
	dir := t.TempDir()
	runReport := func(name string, status report.Status) string {
		r := report.Report{APIVersion: report.APIVersion, Kind: report.Kind, Driver: "mine", Versions: map[string]string{"kubelet": "v1.36.3"},
			Requirements: []report.Requirement{{ID: "count-drop", Status: status}, {ID: "count-raise", Status: report.Held}}}
		r.Summary = r.Summarise()
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		text, err := r.YAML()
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name, report.FileReport), text, 0o644); err != nil {
			t.Fatal(err)
		}
		return filepath.Join(dir, name)
	}
	held, broken := runReport("a", report.Held), runReport("b", report.Violated)
	check := filepath.Join(dir, "check.json")
	var text bytes.Buffer
	if err := (drivercheck.Report{APIVersion: drivercheck.APIVersion, Kind: drivercheck.Kind, Conclusion: drivercheck.Success}).JSON(&text); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(check, text.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(dir, "other")
	if err := os.WriteFile(other, []byte("kind: ["), 0o644); err != nil {
		t.Fatal(err)
	}
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	comparable := "want a Report of headroom run or a DriverCheck of headroom driver check -o yaml or json, got "
	for _, c := range []struct {
		from, to string
		code     int
		want     string
	}{
		{held, broken, 1, "requirement count-drop: held -> violated"},
		{broken, held, 0, "better:\n  requirement count-drop: violated -> held"},
		{held, held, 0, "0 worse, 0 better, 0 other, 2 the same"},
		{filepath.Join(held, report.FileReport), broken, 1, "1 worse"},
		{check, check, 0, "0 the same"},
		{held, check, 2, "want two of one kind"},
		{held, other, 2, "read report: " + other + ":1: not YAML: did not find expected node content (remedy: correct the syntax)"},
		{held, filepath.Join(dir, "none"), 2, "remedy"},
		{"/dev/zero", held, 2, "want a file, got one of mode"},
		{dir, held, 2, report.FileReport},
		{file("empty", ""), held, 2, "empty: " + comparable + "an empty file"},
		{file("comment", "# nothing\n"), held, 2, comparable + "an empty file"},
		{held, file("scenario", "apiVersion: headroom/v1alpha1\nkind: Scenario\n"), 2, comparable + `kind "Scenario"`},
		{held, file("no-kind", "name: x\n"), 2, comparable + `kind ""`},
		{held, file("list", "- x\n"), 2, "read report"},
		{held, file("newer", "apiVersion: headroom/v9\nkind: Report\n"), 2, "read it with the version of headroom that wrote it"},
		{check, file("newer-check", "apiVersion: headroom/v9\nkind: DriverCheck\nnews: 1\n"), 2, "read it with the version of headroom that wrote it"},
		{check, held, 2, "is a DriverCheck and"},
	} {
		out, err := try(t, "report", "diff", c.from, c.to)
		if err != nil && !isSilent(err) {
			out += err.Error()
		}
		if got := exitCode(err); got != c.code || !strings.Contains(out, c.want) {
			t.Errorf("diff %s %s: want exit code %d and %q, got %d and %s", c.from, c.to, c.code, c.want, got, out)
		}
	}
	in, piped, err := os.Pipe() // as git show COMMIT:report.yaml in a shell's <( )
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	first, err := os.ReadFile(filepath.Join(held, report.FileReport))
	if _, writeErr := piped.Write(first); errors.Join(err, writeErr, piped.Close()) != nil {
		t.Fatal(err, writeErr)
	}
	if out, err := try(t, "report", "diff", fmt.Sprintf("/dev/fd/%d", in.Fd()), broken); exitCode(err) != 1 || !strings.Contains(out, "count-drop: held -> violated") {
		t.Errorf("want what comes out of a pipe compared, got %v, %s", err, out)
	}
	out, _ := try(t, "report", "diff", held, broken, "-o", "json")
	var d report.Difference
	if err := json.Unmarshal([]byte(out), &d); err != nil || len(d.Worse) != 1 || d.Worse[0].To != report.Violated {
		t.Errorf("want one row worse, got %v from %s", err, out)
	}
	if out, _ := try(t, "report", "diff", held, broken, "-o", "yaml"); !strings.Contains(out, "worse:\n") || !strings.Contains(out, "id: count-drop") {
		t.Errorf("want YAML, got %s", out)
	}
	if _, err := try(t, "report", "diff", held); exitCode(err) != 2 || !strings.Contains(err.Error(), "name two reports") {
		t.Errorf("want one report refused, got %v", err)
	}
	if _, err := try(t, "report", "diff", held, held, "-o", "xml"); exitCode(err) != 2 {
		t.Errorf("want an unknown form refused, got %v", err)
	}
}
