package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"headroom/e2e/framework/coverage"
	"headroom/e2e/framework/plan"
	"headroom/e2e/framework/report"
	"headroom/e2e/framework/scenario"
)

func TestPrintPlan(t *testing.T) {
	one, err := try(t, "chaos", "--seed", "7", "--duration", "3m", "--faults", "quota,csi-slow", "--print-plan")
	if err != nil {
		t.Fatal(err)
	}
	s, err := scenario.Load("plan.yaml", []byte(one), catalog("plan.yaml"))
	if err != nil || s.Metadata.Name != "chaos-7" || s.Driver.Name != defaultDriver {
		t.Errorf("want a plan that can be played, got %v\n%s", err, one)
	}
	if two, err := try(t, "chaos", "--seed", "7", "--duration", "3m", "--faults", "quota,csi-slow", "--print-plan"); err != nil || one != two {
		t.Errorf("want the same plan again, got %v\n%s", err, two)
	}
	file := filepath.Join(t.TempDir(), "coverage.yaml")
	text, err := coverage.Coverage{Runs: []string{"r"}}.Encode()
	if err != nil || os.WriteFile(file, text, 0o644) != nil {
		t.Fatal(err)
	}
	if got, err := try(t, "chaos", "--seed", "7", "--print-plan", "--coverage", file); err != nil || !strings.Contains(got, "the coverage sha256:") {
		t.Errorf("want the plan to name the coverage, got %v\n%s", err, got)
	}
}

func TestChaosRefuses(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.yaml")
	if err := os.WriteFile(bad, []byte(strings.Replace(goodStory, "node/1", "node/3", 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ args, want string }{
		{"extra", `"extra"`},
		{"--seed 0", "--seed 0: want 1 or more"},
		{"--seed x", "--seed"},
		{"--duration 1m", "duration 1m0s: want whole seconds from"},
		{"--duration 5", "missing unit"},
		{"--faults quotas", `no fault or group "quotas"; groups: quota, network`},
		{"--faults quota-outage:flaky", `fault "quota-outage" has no mode "flaky"; there are: refuse, hang`},
		{"--faults quota:throttle", `no fault or group "quota:throttle"`},
		{"--nodes 1", "1 nodes: want 2 to 24"},
		{"--nodes x", "--nodes"},
		{"--quiet 1m", "a quiet end of 1m0s: want whole seconds, and 2m2s or more"},
		{"--quiet 20m", "want whole seconds from 20m42s"},
		{"--driver nosuch", `"nosuch"`},
		{"--seeds 0", "--seeds 0: want 1 to 10000"},
		{"--seeds 2 --parallel 0", "--parallel 0: want 1 to 16"},
		{"--seeds 2 --print-plan", "--print-plan prints one plan"},
		{"--until-failure", "say with --seeds"},
		{"--seeds 3 --parallel 2 --port 6443", "cannot share it"},
		{"--coverage /nowhere", "headroom coverage --file"},
		{"--coverage " + bad, "unknown field"},
		{"--plan " + bad + " --seed 7", "--seed: the plan of --plan is made already"},
		{"--plan " + bad + " --seeds 7", "--seeds: the plan"},
		{"--plan " + bad, `"node/3" is node 3 of 1`},
		{"--plan /nowhere.yaml", "nowhere.yaml"},
		{"--seeds 2 --run-dir " + dir, "not empty"},
	} {
		out, err := try(t, append([]string{"chaos"}, strings.Fields(c.args)...)...)
		if exitCode(err) != 2 || !strings.Contains(err.Error()+out, c.want) {
			t.Errorf("chaos %s: want exit code 2 and %q, got %d: %v", c.args, c.want, exitCode(err), err)
		}
	}
}

// TestSeveralSeeds plays with children that have no cluster; they call each plan with a slow-stale-answer violated.
func TestSeveralSeeds(t *testing.T) {
	violates := func(seed int64) bool {
		p, err := planned(plan.Options{Seed: seed, Duration: 3 * time.Minute, Faults: []string{"csi"}})
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(string(p.text), "slow-stale-answer")
	}
	first := int64(1)
	for violates(first) || violates(first+1) || !violates(first+2) {
		first++
	}
	from := []string{"chaos", "--seed", formatSeed(first), "--duration", "3m", "--faults", "csi"}
	dir := t.TempDir()
	out, err := try(t, append(from, "--seeds", "5", "--run-dir", dir, "--until-failure", "--parallel", "1")...)
	if exitCode(err) != report.ExitViolated || !strings.Contains(out, "3 of 5 seeds played: 2 held, 1 violated") || !strings.Contains(out, "attach-rechecked") {
		t.Errorf("want it stopped at the violation, got exit code %d\n%s", exitCode(err), out)
	}
	if b, err := os.ReadFile(filepath.Join(dir, formatSeed(first), filePlan)); err != nil || !strings.Contains(string(b), "chaos-"+formatSeed(first)) {
		t.Errorf("want the plan beside its run, got %v", err)
	}
	out, err = try(t, append(from, "--seeds", "2", "--run-dir", t.TempDir(), "--parallel", "2")...)
	if err != nil || !strings.Contains(out, "2 of 2 seeds played: 2 held") {
		t.Errorf("want both held, got exit code %d\n%s", exitCode(err), out)
	}
}

// TestPlannedPlansLoad holds what the planner makes to what scenarios may be, each group alone included.
func TestPlannedPlansLoad(t *testing.T) {
	for i, group := range append(plan.Groups(), "") {
		o := plan.Options{Seed: int64(i + 1), Duration: 5 * time.Minute}
		if group != "" {
			o.Faults = []string{group}
		}
		if _, err := planned(o); err != nil {
			t.Errorf("%q: %v", group, err)
		}
	}
}

func TestReplayKeepsItsScenario(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a.yaml")
	if err := os.WriteFile(filepath.Join(dir, "mine.yaml"), driverFile(t), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(goodStory, "NAME", "a", 1)+"driver: {name: ./mine.yaml}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	stories, err := loadStories([]string{file})
	if err != nil {
		t.Fatal(err)
	}
	runDir := t.TempDir()
	if err := stories[0].keep(runDir); err != nil {
		t.Fatal(err)
	}
	again, err := loadStories([]string{filepath.Join(runDir, dirScenarios, "a.yaml")})
	if err != nil || again[0].Driver.Name != filepath.Join(dir, "mine.yaml") {
		t.Errorf("want the same scenario with its driver's whole path, got %v, %+v", err, again)
	}
}

// driverFile is a driver's file.
func driverFile(t *testing.T) []byte {
	text, err := os.ReadFile("../../docs/writing-a-driver.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "```yaml\n")
	yaml, _, _ := strings.Cut(rest, "```")
	return []byte(yaml)
}
