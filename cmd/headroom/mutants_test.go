package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"headroom/drivers/personas"
	"headroom/e2e/framework/mutants"
	"headroom/e2e/framework/plan"
)

// huntFor runs `headroom mutants` with children that call what violated says violated, and returns what it printed, and its exit code.
func huntFor(t *testing.T, violated string, args ...string) (string, int) {
	t.Helper()
	t.Setenv(violatesVariable, violated)
	out, err := try(t, append([]string{"mutants", "--run-dir", t.TempDir()}, args...)...)
	return out, exitCode(err)
}

// played counts the plays that a command's notes tell of.
func played(out string) int { return len(playNote.FindAllString(out, -1)) }

var playNote = regexp.MustCompile(`(?m)^[a-z-]+ seed \d+  `)

func TestMutants(t *testing.T) {
	for name, c := range map[string]struct {
		violated string
		args     string
		code     int
		plays    int // of personas and of their control
		want     []string
	}{
		"each at a seed of its own": {
			"negative/chaos-3=never-unbounded,stale-cache/chaos-1=answer-within-quota+quota-to-answer", "--personas stale-cache,negative --parallel 2", 0, 6,
			[]string{"negative                        .  .  R", "stale-cache                     R", "caught at seed 3 by never-unbounded", "steady                          c"},
		},
		"not caught": {
			"", "--personas negative --seeds 3", 1, 3, []string{"negative: not caught within 3 seeds: never-unbounded was never violated"},
		},
		"what it must not break": {
			"negative/chaos-1=never-unbounded+one-writer", "--personas negative", 1, 2,
			[]string{"negative, seed 1 of quota-outage:negative: violated one-writer, neither its root", "one-writer, which it must not break"},
		},
		"a seed that breaks something else only": {
			"negative/chaos-1=one-writer,negative/chaos-2=never-unbounded", "--personas negative", 1, 3, []string{"negative                        X  R", "violated one-writer"},
		},
		"the control violates something": {
			"negative/chaos-2=never-unbounded,steady/chaos-2=one-writer", "--personas negative", 1, 3,
			[]string{"steady                             X", "steady, seed 2 of quota-outage:negative: violated one-writer, though the driver has no mistake"},
		},
		"plays that told nothing": {
			"negative/chaos-1=!,negative/chaos-2=!", "--personas negative --seeds 2", 3, 0, []string{"not caught in 0 of 2 seeds, and the others are not played"},
		},
		"a violation outranks the environment": {
			"negative/chaos-1=never-unbounded+!", "--personas negative", 0, 2, []string{"negative                        R"},
		},
		"a persona that no plan shows": {
			"", "--personas create-hangs", 0, 0, []string{"create-hangs", "no plan can show it: "},
		},
		"crowded plans": {
			"no-jitter/chaos-2=phases-spread", "--personas no-jitter --parallel 2", 0, 3, []string{"no-jitter                       n  R"},
		},
	} {
		out, code := huntFor(t, c.violated, strings.Fields(c.args)...)
		if code != c.code || played(out) != c.plays {
			t.Errorf("%s: want exit code %d and %d plays, got %d and %d\n%s", name, c.code, c.plays, code, played(out), out)
		}
		for _, want := range c.want {
			if !strings.Contains(out, want) {
				t.Errorf("%s: want %q in\n%s", name, want, out)
			}
		}
	}
}

// TestMutantsGoOn shows that what the file of results has is not played again, and that what told nothing is.
func TestMutantsGoOn(t *testing.T) {
	file := filepath.Join(t.TempDir(), "plays.yaml")
	args := []string{"--personas", "negative", "--seeds", "3", "--results", file}
	out, code := huntFor(t, "negative/chaos-2=!", args...)
	if code != 3 || played(out) != 2 {
		t.Fatalf("want seeds 1 and 3 to tell something, got exit code %d\n%s", code, out)
	}
	const caught = "negative/chaos-2=never-unbounded"
	out, code = huntFor(t, caught, args...)
	if code != 0 || played(out) != 2 || !strings.Contains(out, "negative                        .  R  .") || !strings.Contains(out, "negative seed 2  caught") {
		t.Errorf("want seed 2 and its control played, got exit code %d\n%s", code, out)
	}
	if out, code = huntFor(t, "", args...); code != 0 || played(out) != 0 {
		t.Errorf("want nothing played, got exit code %d\n%s", code, out)
	}
	if out, code = huntFor(t, caught, append(args, "--duration", "3m")...); code != 0 || played(out) != 3 {
		t.Errorf("want other plans played, got exit code %d\n%s", code, out)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	r, err := mutants.Read(file, text)
	if err != nil || len(r.Rows) != 4 { // seed 3 is still that of the shorter plan
		t.Errorf("want the rows of the older plans of seeds 1 and 2 replaced, got %v\n%s", err, text)
	}
}

func TestMutantsRefuse(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.yaml")
	if err := os.WriteFile(bad, []byte("apiVersion: headroom/v1alpha1\nkind: Coverage\nrows: []\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ args, want string }{
		{"extra", `"extra"`},
		{"--personas nobody", `no persona "nobody"; there are: all-internal`},
		{"--personas steady", `no persona "steady"`},
		{"--seed 0", "--seed 0: want 1 or more"},
		{"--seeds 0", "--seeds 0: want 1 to 100"},
		{"--parallel 0", "--parallel 0: want 1 to 16"},
		{"--duration 1m", "duration 1m0s: want whole seconds from 2m44s"},
		{"--results " + bad, `bad.yaml:2: kind: want "MutantPlays", got "Coverage" (remedy: write MutantPlays, or name a file of headroom mutants --results)`},
		{"--results " + dir, "want a file, got a directory (remedy: name the file itself)"},
		{"--run-dir " + dir, "not empty"},
	} {
		out, err := try(t, append([]string{"mutants"}, strings.Fields(c.args)...)...)
		if exitCode(err) != 2 || !strings.Contains(err.Error()+out, c.want) {
			t.Errorf("mutants %s: want exit code 2 and %q, got %d: %v", c.args, c.want, exitCode(err), err)
		}
	}
}

// TestMutantsPlansLoad holds what personas are played with to what scenarios may be.
func TestMutantsPlansLoad(t *testing.T) {
	lines, err := mutants.Lines(personas.Names(), mutants.Options{Seed: 1, Seeds: 2, Duration: plan.Shortest + time.Second})
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range lines {
		for _, p := range l.Plans {
			if _, err := planned(p.Options); err != nil {
				t.Errorf("%s: %v", l.Name(), err)
			}
		}
	}
}
