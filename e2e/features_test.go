package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
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

// TestArchivedReportsDocs reads what docs/reports has, as strictly as any report, and holds the table beside them to them.
func TestArchivedReportsDocs(t *testing.T) {
	const doc, begin, end = "../docs/reports/README.md", "<!-- written by: go test ./e2e -run TestArchivedReportsDocs -update -->\n", "<!-- end -->\n"
	files, err := filepath.Glob("../docs/reports/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("want reports in docs/reports, got %q, %v", files, err)
	}
	before, rest, found := strings.Cut(read(t, doc), begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s: want the table of reports between %q and %q", doc, begin, end)
	}
	var b strings.Builder
	b.WriteString("\n| report | driver, its version, its limit | Kubernetes, attacher | rows | core | extended | made with | shows |\n|---|---|---|---|---|---|---|---|\n")
	for _, file := range files {
		row, err := archivedRow(file)
		if err != nil {
			t.Error(err)
		}
		b.WriteString(row)
	}
	hold(t, doc, before+begin+b.String()+"\n"+end+after)
}

// archivedRow is a report's row in the table of docs/reports.
func archivedRow(file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	made, rest, _ := strings.Cut(string(text), "\n")
	shows, _, _ := strings.Cut(rest, "\n")
	made, hasCommand := strings.CutPrefix(made, "# made with: ")
	shows, hasShows := strings.CutPrefix(shows, "# shows: ")
	r, err := report.Read(file)
	c := r.Conformance
	switch {
	case err != nil:
		return "", err
	case !hasCommand || !hasShows:
		return "", fmt.Errorf(`%s:1: want "# made with: COMMAND" and "# shows: WHAT" in its first lines`, file)
	case c == nil || c.HistoryDigest == "":
		return "", fmt.Errorf("%s: want a profile, with the history's digest", file)
	case !strings.HasSuffix(file, "-"+r.Versions["kube-apiserver"]+".yaml"):
		return "", fmt.Errorf("%s: it is of kube-apiserver %s, want that at its name's end", file, r.Versions["kube-apiserver"])
	}
	if path := regexp.MustCompile(`/(home|root|tmp|work|var/tmp)/\S*`).FindString(string(text)); path != "" {
		return "", fmt.Errorf("%s: want no path of the machine that made it, got %q", file, path)
	}
	s, p := r.Summary, c.Profiles[0]
	rows := []string{fmt.Sprintf("%d held", s.Held)}
	for _, n := range []struct {
		rows int
		what string
	}{
		{s.Violated, "violated"}, {s.Inconclusive, "inconclusive"}, {s.KnownUpstream, "known upstream"}, {s.NotJudged, "not judged"}, {s.Skipped, "skipped"},
	} {
		if n.rows > 0 {
			rows = append(rows, fmt.Sprintf("%d %s", n.rows, n.what))
		}
	}
	counts := func(g report.Group) string {
		return fmt.Sprintf("%s: %d passed, %d failed, %d skipped", g.Result, g.Statistics.Passed, g.Statistics.Failed, g.Statistics.Skipped)
	}
	extended := "none"
	if p.Extended != nil {
		extended = counts(*p.Extended) + " (" + strings.Join(p.SupportedFeatures, ", ") + ")"
	}
	name := filepath.Base(file)
	return fmt.Sprintf("| [%s](%s) | %s %s, %s | %s, %s | %s | %s | %s | `%s` | %s |\n", strings.TrimSuffix(name, ".yaml"), name, c.Driver, c.Version, c.Quota,
		r.Versions["kube-apiserver"], r.Versions["csi-attacher"], strings.Join(rows, ", "), counts(p.Core), extended, strings.ReplaceAll(made, "|", `\|`), shows), nil
}

// TestArchivedRowRefuses: a report that does not say how it was made, is of another version than its name says, or has a path of a machine is no archive.
func TestArchivedRowRefuses(t *testing.T) {
	good := read(t, "../docs/reports/hostpath-v1.36.3.yaml")
	for name, c := range map[string]struct{ file, text, want string }{
		"how":     {"hostpath-v1.36.3.yaml", strings.Replace(good, "# made with: ", "# ", 1), "made with"},
		"version": {"hostpath-v1.35.4.yaml", good, "it is of kube-apiserver v1.36.3"},
		"path":    {"hostpath-v1.36.3.yaml", good + "# /home/somebody/run\n", `"/home/somebody/run"`},
		"broken":  {"hostpath-v1.36.3.yaml", good + "held: 3\n", "held"},
	} {
		path := filepath.Join(t.TempDir(), c.file)
		if err := os.WriteFile(path, []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		if row, err := archivedRow(path); err == nil || !strings.Contains(err.Error(), c.want) || row != "" {
			t.Errorf("%s: want no row and an error with %q, got %q, %v", name, c.want, row, err)
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
