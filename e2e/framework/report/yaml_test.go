package report

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReadRefuses(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("testdata", "held.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	good := string(b)
	for name, tc := range map[string]struct{ old, new, want string }{
		"unknown field":        {"provider: local", "provider: local\nextra: 1", "report.yaml:6: field extra not found"},
		"repeated field":       {"provider: local", "provider: local\nprovider: kind", "report.yaml:6: mapping key \"provider\" already defined"},
		"duration, no unit":    {"elapsed: 44.2s", "elapsed: 44.2", `report.yaml:13: want a duration with a unit, such as 1.5s, got "44.2"`},
		"no status":            {"status: Held", "status: Passed", "want one of Held, Violated"},
		"other version":        {"headroom/v1alpha1", "headroom/v9", `got "headroom/v9"`},
		"other kind":           {"kind: Report", "kind: Scenario", `got "headroom/v1alpha1" and "Scenario"`},
		"status left out":      {"    status: Held\n    started: 1s\n", "    started: 1s\n", "requirements[0]: want id and status"},
		"edited":               {"status: Held", "status: Violated", "the rows say"},
		"counts edited":        {"exitCode: 0", "exitCode: 1", "the rows say"},
		"two documents":        {"harness: {}", "harness: {}\n---\na: 1", "want one document"},
		"no YAML":              {"kind: Report", "kind: [", "line "},
		"number where text is": {"seed: 42", "seed: many", "report.yaml:4: cannot unmarshal"},
	} {
		t.Run(name, func(t *testing.T) {
			bad := strings.Replace(good, tc.old, tc.new, 1)
			if bad == good {
				t.Fatalf("the golden file does not contain %q", tc.old)
			}
			path := filepath.Join(t.TempDir(), FileReport)
			if err := os.WriteFile(path, []byte(bad), 0o644); err != nil {
				t.Fatal(err)
			}
			_, err := Read(path)
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("want an error with %q that names the file, got %v", tc.want, err)
			}
		})
	}
}

func TestWriteIsWholeOrNotAtAll(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, FileReport), 0o755); err != nil { // in the way of the rename
		t.Fatal(err)
	}
	err := Write(dir, Build(fixtures["held"]()))
	if err == nil || !strings.Contains(err.Error(), FileReport) {
		t.Errorf("want an error that names %s, got %v", FileReport, err)
	}
	entries, _ := filepath.Glob(filepath.Join(dir, ".*"))
	if len(entries) != 0 {
		t.Errorf("left over: %v", entries)
	}
	if err := Write(filepath.Join(dir, "none"), Report{}); err == nil {
		t.Error("want an error for a directory that does not exist")
	}
}
