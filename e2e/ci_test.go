package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"headroom/e2e/framework/run"
)

const (
	ciWorkflow = "../docs/ci/headroom.yml"
	ciScript   = "../docs/ci/headroom.sh"
)

// workflow is what the tests read of docs/ci/headroom.yml.
type workflow struct {
	Jobs map[string]struct {
		Strategy struct {
			Matrix struct {
				Shard []struct{ Name, Focus string }
			}
		}
		Steps []struct {
			Run string
			Env map[string]string
		}
	}
}

// TestCIShardsHoldEverySpecOnce: a spec that no shard has would never run, and one of two would run twice.
func TestCIShardsHoldEverySpecOnce(t *testing.T) {
	var w workflow
	if err := yaml.Unmarshal([]byte(read(t, ciWorkflow)), &w); err != nil {
		t.Fatal(err)
	}
	shards := w.Jobs["headroom"].Strategy.Matrix.Shard
	if len(shards) < 2 {
		t.Fatalf("want shards, got %v", shards)
	}
	for _, r := range run.Requirements() {
		var in []string
		for _, s := range shards {
			if s.Focus != "none" && regexp.MustCompile(s.Focus).MatchString(r.ID) {
				in = append(in, s.Name)
			}
		}
		if len(in) != 1 {
			t.Errorf("spec %q: want it in one shard, got %q", r.ID, in)
		}
	}
}

// TestCIScript runs docs/ci/headroom.sh with a program in Headroom's place that ends as it is told.
func TestCIScript(t *testing.T) {
	script, err := filepath.Abs(ciScript)
	if err != nil {
		t.Fatal(err)
	}
	stub := filepath.Join(t.TempDir(), "headroom")
	text := `#!/bin/sh
echo "$@" >> "$CALLS"
case "$1 $2" in
"driver lint") exit "$LINT";;
"driver check") echo "kind: DriverCheck"; exit "$CHECK";;
"run --driver") mkdir -p "$OUT/run"; [ "$RUN" = 3 ] || echo {} > "$OUT/run/header.json"; exit "$RUN";;
"report $OUT/run") echo page > "$OUT/timeline.html";;
*) exit 9;;
esac
`
	if err := os.WriteFile(stub, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		focus            string
		lint, check, run int
		want             int
		calls            int
		timeline         bool
	}{
		"all held":             {"", 0, 0, 0, 0, 4, true},
		"no cluster":           {"none", 0, 0, 0, 0, 2, false},
		"definition":           {"", 2, 0, 0, 2, 1, false},
		"check is violated":    {"", 0, 1, 0, 1, 4, true},
		"check is partial":     {"none", 0, 4, 0, 4, 2, false},
		"run is violated":      {"^a", 0, 4, 1, 1, 4, true},
		"environment":          {"", 0, 4, 3, 3, 3, false},
		"violated outranks":    {"", 0, 1, 3, 1, 3, false},
		"inconclusive":         {"", 0, 0, 4, 4, 4, true},
		"another code is kept": {"", 0, 0, 130, 130, 4, true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			out, calls := filepath.Join(dir, "out"), filepath.Join(dir, "calls")
			cmd := exec.Command(script)
			cmd.Env = append(os.Environ(), "HEADROOM="+stub, "DRIVER=d.yaml", "OUT="+out, "FOCUS="+c.focus, "CALLS="+calls,
				"LINT="+strconv.Itoa(c.lint), "CHECK="+strconv.Itoa(c.check), "RUN="+strconv.Itoa(c.run))
			said, err := cmd.CombinedOutput()
			if got := cmd.ProcessState.ExitCode(); got != c.want {
				t.Errorf("want exit code %d, got %d (%v):\n%s", c.want, got, err, said)
			}
			if made := strings.Count(read(t, calls), "\n"); made != c.calls {
				t.Errorf("want %d calls, got %d:\n%s", c.calls, made, read(t, calls))
			}
			if _, err := os.Stat(filepath.Join(out, "timeline.html")); (err == nil) != c.timeline {
				t.Errorf("want a timeline: %t, got %v", c.timeline, err)
			}
		})
	}
	cmd := exec.Command(script)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	if said, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(said), "name the headroom binary") {
		t.Errorf("want what is missing named, got %v: %s", err, said)
	}
}
