package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"headroom/e2e/framework/entry"
	"headroom/e2e/framework/report"
)

// TestMain plays the child processes of the commands under test: where one of them starts itself, a child without a cluster answers.
func TestMain(m *testing.M) {
	entry.Dispatch() // this binary is also the drivers that it starts
	if os.Args[0] == "headroom" {
		os.Exit(fakeReplay(os.Args[1:]))
	}
	if os.Getenv(stuckVariable) != "" {
		stuck()
	}
	os.Exit(m.Run())
}

// violatesVariable holds what the child calls violated: DRIVER/SCENARIO=INVARIANT+INVARIANT,... ; "!" in place of invariants breaks the environment.
const violatesVariable = "HEADROOM_TEST_VIOLATES"

// violates is what the variable says of a scenario.
func violates(text []byte) (names []string) {
	var s struct {
		Metadata struct{ Name string }
		Driver   struct{ Name string }
	}
	if err := yaml.Unmarshal(text, &s); err != nil {
		return nil // it is no plan
	}
	for _, rule := range strings.Split(os.Getenv(violatesVariable), ",") {
		if of, what, ok := strings.Cut(rule, "="); ok && of == s.Driver.Name+"/"+s.Metadata.Name {
			names = append(names, strings.Split(what, "+")...)
		}
	}
	return names
}

// fakeReplay stands for `headroom replay FILE --run-dir DIR ...`: it judges the text of the file. What has a slow-stale-answer violates, what kills etcd
// has a broken environment, and what pauses the scheduler writes no report.
func fakeReplay(args []string) int {
	text, err := os.ReadFile(args[1])
	dir := args[slices.Index(args, "--run-dir")+1]
	if err != nil || args[0] != "replay" || os.MkdirAll(dir, 0o755) != nil {
		fmt.Println("the child was called with", args, err)
		return 2
	}
	r := report.Report{APIVersion: report.APIVersion, Kind: report.Kind, Run: "r", Invariants: []report.InvariantResult{
		{Name: "never-unbounded", Status: report.Held, Verdicts: []report.Verdict{{Status: report.Held}}},
	}}
	for _, name := range violates(text) {
		if name == "!" {
			r.Environment = append(r.Environment, report.EnvironmentProblem{Op: "start", Error: "no"})
			continue
		}
		r.Invariants = slices.DeleteFunc(r.Invariants, func(i report.InvariantResult) bool { return i.Name == name })
		r.Invariants = append(r.Invariants, report.InvariantResult{Name: name, Status: report.Violated, Verdicts: []report.Verdict{{Status: report.Violated}}})
	}
	switch has := func(s string) bool { return bytes.Contains(text, []byte(s)) }; {
	case has("target: kube-scheduler"):
		fmt.Println("it went wrong early")
		return report.ExitEnvironment
	case has("target: etcd"):
		r.Environment = []report.EnvironmentProblem{{Op: "start", Error: "no"}}
	case has("slow-stale-answer"):
		r.Invariants = append(r.Invariants, report.InvariantResult{
			Name: "attach-rechecked", Status: report.Violated, Verdicts: []report.Verdict{{Status: report.Violated, Boundary: "driver"}},
		})
	}
	r.Summary = r.Summarise()
	if err := report.Write(dir, r); err != nil {
		fmt.Println(err)
		return 2
	}
	return report.ExitCode(r)
}

// story12 is a scenario of 12 steps, one of which makes the fake child violate.
func story12(steps ...string) string {
	var out strings.Builder
	out.WriteString("apiVersion: headroom/v1alpha1\nkind: Scenario\nmetadata: {name: long, doc: d}\ntopology: {nodes: [{limit: 4}, {limit: 4}]}\nperiod: 10s\nsteps:\n")
	for i := range 11 - len(steps) {
		fmt.Fprintf(&out, "- quota: {node: node/1, limit: %d}\n", 4+i)
	}
	for _, s := range append(steps, "sleep: 30s") {
		out.WriteString("- " + s + "\n")
	}
	out.WriteString("expect: {invariants: [{invariant: never-unbounded, verdict: held}]}\n")
	return out.String()
}

// ranStory makes a run directory whose run violated attach-rechecked and played a scenario.
func ranStory(t *testing.T, text string) string {
	t.Helper()
	dir := ranSpecs(t, "steady", nil, "x")
	if err := os.MkdirAll(filepath.Join(dir, dirScenarios), 0o755); err != nil {
		t.Fatal(err)
	}
	if text != "" {
		if err := os.WriteFile(filepath.Join(dir, dirScenarios, "long.yaml"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
