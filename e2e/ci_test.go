package e2e

import (
	"fmt"
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
		Steps []step
	}
}

// step is what the tests read of a step.
type step struct {
	ID, Name, If, Uses, Run string
	With, Env               map[string]string
}

// judging are the commands that can end red for the driver's sake.
var judging = regexp.MustCompile(`headroom\.sh|headroom (run|matrix|upgrade|replay|chaos|driver check)\b`)

// cacheMistakes says what keeps the components that one job got from the next one: a step that saves comes before all that the driver can turn red.
func cacheMistakes(steps []step) (wrong []string) {
	at := map[string]int{}
	for i, s := range steps {
		action, _, _ := strings.Cut(s.Uses, "@")
		switch {
		case action == "actions/cache":
			wrong = append(wrong, "actions/cache saves at the job's end, and only where that is green: want actions/cache/restore and actions/cache/save")
		case action == "actions/cache/restore", action == "actions/cache/save":
			at[strings.TrimPrefix(action, "actions/cache/")] = i + 1
		case strings.Contains(s.Run, "headroom binaries fetch"):
			at["fetch"] = i + 1
		case judging.MatchString(s.Run) && at["judge"] == 0:
			at["judge"] = i + 1
		}
	}
	order := []string{"restore", "fetch", "save", "judge"}
	for i, name := range order {
		if at[name] == 0 {
			return append(wrong, "no step to "+name)
		}
		if i > 0 && at[name] < at[order[i-1]] {
			wrong = append(wrong, name+" comes before "+order[i-1])
		}
	}
	restore, fetch, save := steps[at["restore"]-1], steps[at["fetch"]-1], steps[at["save"]-1]
	for _, with := range []string{"path", "key"} {
		if restore.With[with] == "" || restore.With[with] != save.With[with] {
			wrong = append(wrong, fmt.Sprintf("want one %s restored and saved, got %q and %q", with, restore.With[with], save.With[with]))
		}
	}
	onMiss := "steps." + restore.ID + ".outputs.cache-hit != 'true'"
	if rest, found := strings.CutSuffix(save.If, onMiss); !found || restore.ID == "" || strings.TrimSuffix(rest, " && ") != restore.If || fetch.If != restore.If {
		wrong = append(wrong, fmt.Sprintf("want what is got on the same condition, and saved where the cache missed, got %q, %q and %q", restore.If, fetch.If, save.If))
	}
	return wrong
}

// TestCIKeepsComponents: what is slow to build is kept, whatever becomes of the driver.
func TestCIKeepsComponents(t *testing.T) {
	text := read(t, ciWorkflow)
	from, to := strings.Index(text, "      - name: Keep the components\n"), strings.Index(text, "      - name: Let an ordinary user")
	if from < 0 || to < from {
		t.Fatal("want a step that keeps the components")
	}
	save := text[from:to]
	last := "      - name: Keep reports and timeline\n"
	for name, c := range map[string]struct{ from, to, want string }{
		"as it is":           {"", "", ""},
		"at the job's end":   {"actions/cache/restore@", "actions/cache@", "only where that is green"},
		"saved nowhere":      {save, "", "no step to save"},
		"got nowhere":        {"binaries fetch", "binaries list", "no step to fetch"},
		"saved too late":     {"", "", "judge comes before save"},
		"nothing is judged":  {"headroom/docs/ci/headroom.sh", "true", "no step to judge"},
		"another key":        {save, strings.Replace(save, "key: headroom-", "key: other-", 1), "want one key"},
		"another path":       {save, strings.Replace(save, "~/.cache/headroom", "~/.cache", 1), "want one path"},
		"saved each time":    {" && steps.cache.outputs.cache-hit != 'true'", "", "where the cache missed"},
		"an id that is none": {"id: cache", "id: cached", "where the cache missed"},
		"saved where green":  {"if: matrix.shard.focus != 'none' && steps", "if: success() && steps", "on the same condition"},
	} {
		changed := strings.Replace(text, c.from, c.to, 1)
		if name == "saved too late" {
			changed = strings.Replace(strings.Replace(text, save, "", 1), last, save+last, 1)
		}
		if name != "as it is" && changed == text {
			t.Errorf("%s: the case changes nothing", name)
		}
		var w workflow
		if err := yaml.Unmarshal([]byte(changed), &w); err != nil {
			t.Fatal(err)
		}
		got := strings.Join(cacheMistakes(w.Jobs["headroom"].Steps), "; ")
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: want %q, got %q", name, c.want, got)
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
"report $OUT/run") [ "$REPORT" = 0 ] || exit "$REPORT"; echo page > "$OUT/timeline.html";;
*) exit 9;;
esac
`
	if err := os.WriteFile(stub, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		focus                    string
		lint, check, run, report int
		// before is a file that is in the folder for reports already.
		before   string
		want     int
		calls    int
		timeline bool
		says     string
	}{
		"all held":                        {"", 0, 0, 0, 0, "", 0, 4, true, "reports in "},
		"no cluster":                      {"none", 0, 0, 0, 0, "", 0, 2, false, "reports in "},
		"definition":                      {"", 2, 0, 0, 0, "", 2, 1, false, "what is wrong with d.yaml"},
		"check is violated":               {"", 0, 1, 0, 0, "", 1, 4, true, "reports in "},
		"check is partial":                {"none", 0, 4, 0, 0, "", 4, 2, false, "reports in "},
		"run is violated":                 {"^a", 0, 4, 1, 0, "", 1, 4, true, "reports in "},
		"environment":                     {"", 0, 4, 3, 0, "", 3, 3, false, "reports in "},
		"violated outranks":               {"", 0, 1, 3, 0, "", 1, 3, false, "reports in "},
		"inconclusive":                    {"", 0, 0, 4, 0, "", 4, 4, true, "reports in "},
		"another code is kept":            {"", 0, 0, 130, 0, "", 130, 4, true, "reports in "},
		"a focus that is none":            {"(", 0, 0, 2, 0, "", 2, 4, true, "reports in "},
		"no timeline":                     {"", 0, 0, 0, 2, "", 3, 4, false, "reports in "},
		"no timeline of a violated one":   {"", 0, 1, 0, 2, "", 1, 4, false, "reports in "},
		"no timeline of a violated run":   {"", 0, 0, 1, 3, "", 1, 4, false, "reports in "},
		"no timeline of an open run":      {"", 0, 0, 4, 139, "", 3, 4, false, "reports in "},
		"a second time":                   {"", 0, 0, 0, 0, "run/header.json", 2, 0, false, "run is there, of an earlier run: remove "},
		"a second time, of a check":       {"none", 0, 0, 0, 0, "driver-check.yaml", 2, 0, false, "name another folder with OUT"},
		"a second time, of a page":        {"none", 0, 0, 0, 0, "timeline.html", 2, 0, true, "timeline.html is there"},
		"beside what is somebody else's":  {"", 0, 0, 0, 0, "notes.txt", 0, 4, true, "reports in "},
		"a folder that cannot be written": {"", 0, 0, 0, 0, ".", 3, 1, false, "cannot be written"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			out, calls := filepath.Join(dir, "out"), filepath.Join(dir, "calls")
			old := filepath.Join(out, c.before)
			if c.before != "" {
				if err := os.MkdirAll(filepath.Dir(old), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(old, []byte("old"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.WriteFile(calls, nil, 0o644); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(script)
			cmd.Env = append(os.Environ(), "HEADROOM="+stub, "DRIVER=d.yaml", "OUT="+out, "FOCUS="+c.focus, "CALLS="+calls,
				"LINT="+strconv.Itoa(c.lint), "CHECK="+strconv.Itoa(c.check), "RUN="+strconv.Itoa(c.run), "REPORT="+strconv.Itoa(c.report))
			said, err := cmd.CombinedOutput()
			if got := cmd.ProcessState.ExitCode(); got != c.want {
				t.Errorf("want exit code %d, got %d (%v):\n%s", c.want, got, err, said)
			}
			lines := strings.Split(strings.TrimSpace(string(said)), "\n")
			if last := lines[len(lines)-1]; !strings.HasPrefix(last, "headroom: exit code "+strconv.Itoa(c.want)+", ") || !strings.Contains(last, c.says) {
				t.Errorf("want the last line to say exit code %d and %q, got %q", c.want, c.says, last)
			}
			if made := strings.Count(read(t, calls), "\n"); made != c.calls {
				t.Errorf("want %d calls, got %d:\n%s", c.calls, made, read(t, calls))
			}
			if _, err := os.Stat(filepath.Join(out, "timeline.html")); (err == nil) != c.timeline {
				t.Errorf("want a timeline: %t, got %v", c.timeline, err)
			}
			if c.before != "" && read(t, old) != "old" {
				t.Errorf("want %s as it was, got %q", c.before, read(t, old))
			}
		})
	}
	for unset, want := range map[string]string{"HEADROOM": "name the headroom binary", "DRIVER": "name the definition"} {
		cmd := exec.Command(script)
		for name, value := range map[string]string{"PATH": os.Getenv("PATH"), "HEADROOM": stub, "DRIVER": "d.yaml"} {
			if name != unset {
				cmd.Env = append(cmd.Env, name+"="+value)
			}
		}
		if said, err := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != 2 || !strings.Contains(string(said), want) {
			t.Errorf("without %s: want exit code 2 and what is missing named, got %v: %s", unset, err, said)
		}
	}
}
