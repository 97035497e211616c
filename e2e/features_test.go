package e2e

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"headroom/e2e/framework/history"
	"headroom/e2e/framework/report"
	"headroom/e2e/framework/run"
	"headroom/e2e/invariants"
)

// TestFeaturesDocs holds the table of docs/reports.md to the code.
func TestFeaturesDocs(t *testing.T) {
	const doc, begin, end = "../docs/reports.md", "<!-- written by: go test ./e2e -run TestFeatures -update -->\n", "<!-- end -->\n"
	before, rest, found := strings.Cut(read(t, doc), begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s: want the table of features between %q and %q", doc, begin, end)
	}
	var b strings.Builder
	b.WriteString("\n| feature | | the driver | rows |\n|---|---|---|---|\n")
	for _, f := range report.Features {
		kind := "extended"
		if f.Core {
			kind = "core"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", f.Name, kind, f.Doc, code(slices.Concat(f.Requirements, f.Invariants)))
	}
	hold(t, doc, before+begin+b.String()+"\n"+end+after)
}

// TestArchivedReports reads what docs/reports has, as strictly as any report, and wants each told of beside it.
func TestArchivedReports(t *testing.T) {
	files, err := filepath.Glob("../docs/reports/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("want reports in docs/reports, got %q, %v", files, err)
	}
	index := read(t, "../docs/reports/README.md")
	for _, file := range files {
		r, err := report.Read(file)
		if err != nil {
			t.Error(err)
			continue
		}
		if r.Conformance == nil || r.Conformance.HistoryDigest == "" {
			t.Errorf("%s: want a profile, with the history's digest", file)
			continue
		}
		row := "(" + filepath.Base(file) + ")"
		_, rest, found := strings.Cut(index, row)
		line, _, _ := strings.Cut(rest, "\n")
		if result := string(r.Conformance.Profiles[0].Core.Result); !found || !strings.Contains(line, "| "+result+" |") {
			t.Errorf("docs/reports/README.md: want a row with %s that says %s", row, result)
		}
	}
}

// TestFeatures: a row that no feature has says nothing of a driver's conformance, and a feature's row that there is not could never pass.
func TestFeatures(t *testing.T) {
	ofDrivers := map[string]bool{}
	known := map[string]bool{}
	for _, r := range run.Requirements() {
		known[r.ID] = true
		ofDrivers[r.ID] = r.Boundary == history.Driver
	}
	for _, i := range invariants.All() {
		known[i.Name] = true
		ofDrivers[i.Name] = i.Boundary == history.Driver
	}
	seen := map[string]string{}
	for _, f := range report.Features {
		for _, row := range slices.Concat(f.Requirements, f.Invariants) {
			if !known[row] {
				t.Errorf("feature %s: there is no requirement or invariant %q", f.Name, row)
			}
			if other := seen[row]; other != "" {
				t.Errorf("%q is in features %s and %s", row, other, f.Name)
			}
			seen[row] = f.Name
		}
	}
	for row, of := range ofDrivers {
		if of && seen[row] == "" {
			t.Errorf("%q is on drivers, and in no feature", row)
		}
	}
}
