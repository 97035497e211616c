package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"headroom/e2e/framework/scenario"
)

const late = "fault: {name: slow-stale-answer, target: driver@2, params: {hold: 20s}}"

func TestShrinkCommand(t *testing.T) {
	dir, out := t.TempDir(), filepath.Join(t.TempDir(), "small.yaml")
	text, err := try(t, "shrink", ranStory(t, story12(late, "heal: slow-stale-answer")), "--run-dir", dir, "--out", out, "--parallel", "2")
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	for _, want := range []string{"1 of 12 steps on 1 of 2 nodes: attach-rechecked violated 3 of 3 times", "1. slow-stale-answer on driver@1", out} {
		if !strings.Contains(text, want) {
			t.Errorf("want %q, got %s", want, text)
		}
	}
	data, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	s, err := scenario.Load(out, data, catalog(out))
	if err != nil || len(s.Expect.Invariants) != 1 || s.Expect.Invariants[0].Verdict != scenario.Violated || !strings.Contains(s.Metadata.Doc, "3 of 3") {
		t.Errorf("want a scenario that expects the violation, got %v\n%s", err, data)
	}
	kept, err := filepath.Glob(filepath.Join(dir, "*", dirRun))
	if err != nil || len(kept) == 0 || len(kept) > 12 {
		t.Errorf("want the runs that showed it, and no others, got %v (%v)", kept, err)
	}
}

// TestShrinkGoesOn shows that a shrinking that goes on after an interruption plays nothing again, and ends with the same.
func TestShrinkGoesOn(t *testing.T) {
	run, dir := ranStory(t, story12(late, "heal: slow-stale-answer")), t.TempDir()
	first, err := try(t, "shrink", run, "--run-dir", dir)
	if err != nil {
		t.Fatalf("%v\n%s", err, first)
	}
	all, err := os.ReadFile(filepath.Join(dir, fileTold))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(all), "\n")
	half := strings.Join(lines[:len(lines)/2], "") + `{"scenario":"cut of` // as a process leaves it that is killed
	if err := os.WriteFile(filepath.Join(dir, fileTold), []byte(half), 0o644); err != nil {
		t.Fatal(err)
	}
	again, err := try(t, "shrink", run, "--run-dir", dir, "--resume")
	if err != nil {
		t.Fatalf("%v\n%s", err, again)
	}
	smallest := func(text string) string {
		_, end, _ := strings.Cut(text, " trials, ")
		_, steps, _ := strings.Cut(end, "\n") // the time that it took is before
		return steps
	}
	if smallest(first) == "" || smallest(first) != smallest(again) {
		t.Errorf("want the same twice, got\n%s\nand\n%s", first, again)
	}
	now, err := os.ReadFile(filepath.Join(dir, fileTold))
	if err != nil || strings.Count(string(now), "\n") != strings.Count(string(all), "\n") {
		t.Errorf("want as many trials in all as without an interruption, got\n%s\nand\n%s (%v)", all, now, err)
	}
}

// TestTwelveSteps holds the plan that shows shrinking on a cluster to its name, and what became of it to three steps for the same invariant.
func TestTwelveSteps(t *testing.T) {
	for file, steps := range map[string]int{"twelve-steps": 12, "twelve-steps-shrunk": 3} {
		stories, err := loadStories([]string{"../../fixtures/plans/" + file + ".yaml"})
		if err != nil || len(stories[0].Steps) != steps || stories[0].Metadata.Name != "twelve-steps" {
			t.Fatalf("%s: want twelve-steps in %d steps, got %v", file, steps, err)
		}
		if e := stories[0].Expect.Invariants; len(e) != 1 || e[0].Invariant != "no-stale-overwrite-kubelet" {
			t.Errorf("%s: want it to expect what it is shrunk for, got %v", file, e)
		}
	}
}

func TestShrinkThatShowsNothing(t *testing.T) {
	for name, c := range map[string]struct {
		steps []string
		code  int
		want  string
	}{
		"it does not show again":   {nil, 4, "did not show again when it was played 2 times"},
		"no trial tells anything":  {[]string{"fault: {name: component-pause, target: etcd}"}, 3, "told nothing"},
		"no trial writes a report": {[]string{"fault: {name: component-pause, target: kube-scheduler}"}, 3, "output.log says why"},
	} {
		text, err := try(t, "shrink", ranStory(t, story12(c.steps...)), "--run-dir", t.TempDir())
		if exitCode(err) != c.code || !strings.Contains(text+err.Error(), c.want) {
			t.Errorf("%s: want exit code %d and %q, got %d: %v\n%s", name, c.code, c.want, exitCode(err), err, text)
		}
	}
}

func TestShrinkRefuses(t *testing.T) {
	good, none := ranStory(t, story12(late)), ranStory(t, "")
	several := ranStory(t, story12(late))
	if err := os.WriteFile(filepath.Join(several, dirScenarios, "other.yaml"), []byte(story12()), 0o644); err != nil {
		t.Fatal(err)
	}
	bad := ranStory(t, strings.Replace(story12(late), "driver@2", "driver@3", 1))
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "old"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ args, want string }{
		{"", "name the directory"},
		{"/nowhere", "does not exist"},
		{full, "no run directory"},
		{ranSpecs(t, "steady", nil), "violated no invariant"},
		{none, "played no scenario"},
		{good + " --resume", "say with --run-dir where the trials are"},
		{good + " --resume --run-dir " + full, "holds no trials.jsonl"},
		{several, "choose one with --scenario: long, other"},
		{good + " --scenario short", "played: long"},
		{good + " --invariant nosuch", "never-unbounded"},
		{good + " --invariant never-unbounded", "it violated: attach-rechecked"},
		{good + " --tries 0", "--tries 0: want 1 to 20"},
		{good + " --confirm 0", "--confirm 0"},
		{good + " --parallel 99", "--parallel 99"},
		{good + " --deadline 5s", "--deadline 5s: want 1m or more"},
		{good + " --run-dir " + full, "not empty"},
		{bad, "long.yaml:"},
	} {
		out, err := try(t, append([]string{"shrink"}, strings.Fields(c.args)...)...)
		if exitCode(err) != 2 || !strings.Contains(err.Error()+out, c.want) {
			t.Errorf("shrink %s: want exit code 2 and %q, got %d: %v", c.args, c.want, exitCode(err), err)
		}
	}
}
