package personatest

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"headroom/drivers/personas"
	_ "headroom/e2e/conformance" // the specs
	"headroom/e2e/framework/report"
	"headroom/e2e/framework/run"
	"headroom/e2e/invariants"
)

// chosen are the personas to run: names, or "all".
var chosen = flag.String("personas", "all-internal,jump-recovery", "comma-separated personas to run beside the reference driver, or \"all\"")

// expectation is what one driver's run must come to.
type expectation struct {
	driver string
	// specs are those to run; none means all that are neither slow nor long.
	specs   []string
	exit    int
	root    string
	mayAlso []string
}

// dynamicControl are the specs of the reference driver with dynamic volumes, where a persona of it is chosen: a claim of each kind.
var dynamicControl = expectation{driver: "steady-dynamic", specs: []string{"ephemeral-volume", "several-claims", "statefulset-restart"}}

// table is the reference driver and the personas chosen. Beside all personas the reference driver runs all specs, beside a few it is their control
// and runs just theirs: `make e2e` runs it on all.
func table(t *testing.T) []expectation {
	names := strings.Split(*chosen, ",")
	if *chosen == "all" {
		names = personas.Names()
	}
	rows := []expectation{{driver: "steady"}}
	if *chosen != "all" {
		rows[0].specs = specsOf(t, names)
	}
	dynamic := false
	for _, name := range names {
		p, err := personas.Find(name)
		if err != nil {
			t.Fatal(err)
		}
		if p.Dynamic && !dynamic {
			rows, dynamic = append(rows, dynamicControl), true
		}
		rows = append(rows, expectation{driver: name, specs: p.Try, exit: 1, root: p.Root, mayAlso: p.MayAlso})
	}
	return rows
}

// specsOf lists what the personas are tried on, each spec once.
func specsOf(t *testing.T, names []string) (specs []string) {
	for _, name := range names {
		p, err := personas.Find(name)
		if err != nil {
			t.Fatal(err)
		}
		specs = append(specs, p.Try...)
	}
	slices.Sort(specs)
	return slices.Compact(specs)
}

// crowded says whether a spec of the row takes so many nodes that no other cell fits beside it.
func (e expectation) crowded() bool {
	return slices.ContainsFunc(run.Requirements(), func(r run.Requirement) bool {
		return slices.Contains(e.specs, r.ID) && slices.Contains(r.Labels, run.LabelLong)
	})
}

// flags choose the row's specs, long ones where they are named.
func (e expectation) flags() []string {
	if len(e.specs) == 0 {
		return []string{"--label-filter", "!slow"}
	}
	return []string{"--focus", "^(" + strings.Join(e.specs, "|") + ")$", "--label-filter", "long || !long", "--procs", strconv.Itoa(min(len(e.specs), 4))}
}

func TestPersonaTable(t *testing.T) {
	if testing.Short() {
		t.Skip("each row runs the suite on a cluster of real components, which takes minutes")
	}
	headroom := build(t)
	var m matrix
	t.Cleanup(func() { t.Logf("\n%s", m.String()) }) // once the rows that run side by side have ended
	for _, want := range table(t) {
		t.Run(want.driver, func(t *testing.T) {
			if want.root != "" && !want.crowded() {
				t.Parallel() // what is violated is violated on a busy machine too; that all held takes one that is not
			}
			dir := filepath.Join(t.TempDir(), "run")
			cmd := exec.Command(headroom, append([]string{"run", "--driver", want.driver, "--run-dir", dir}, want.flags()...)...)
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			exit := 0
			var failed *exec.ExitError
			switch err := cmd.Run(); {
			case errors.As(err, &failed):
				exit = failed.ExitCode()
			case err != nil:
				t.Fatal(err)
			}
			r, err := report.Read(filepath.Join(dir, report.FileReport))
			if err != nil {
				t.Fatalf("%v\n%s", err, out.String())
			}
			m.add(want, r)
			if problems := want.judge(exit, r); len(problems) > 0 {
				t.Errorf("driver %s:\n  %s\n%s", want.driver, strings.Join(problems, "\n  "), out.String())
			}
		})
	}
}

// build makes the headroom command, unless HEADROOM_BIN names one.
func build(t *testing.T) string {
	if path := os.Getenv("HEADROOM_BIN"); path != "" {
		return path
	}
	path := filepath.Join(t.TempDir(), "headroom")
	cmd := exec.Command("go", "build", "-o", path, "headroom/cmd/headroom")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0") // what the Makefile builds, so that little is compiled again
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build headroom: %v\n%s", err, out)
	}
	return path
}

// judge compares a run with what was expected of it.
func (e expectation) judge(exit int, r report.Report) []string {
	var problems []string
	if exit != e.exit {
		problems = append(problems, fmt.Sprintf("exit code: want %d, got %d", e.exit, exit))
	}
	broken := violated(r)
	if e.root != "" && !slices.Contains(broken, e.root) {
		problems = append(problems, "not caught: want "+e.root+" violated, got violated: "+strings.Join(broken, " "))
	}
	for _, name := range broken {
		if name != e.root && !slices.Contains(e.mayAlso, name) {
			problems = append(problems, "false alarm: "+name+" is violated, which is neither the root nor among what may break with it")
		}
	}
	if len(r.Requirements) == 0 {
		problems = append(problems, "no spec ran")
	}
	return problems
}

// violated lists the requirements and invariants that a report calls violated.
func violated(r report.Report) []string {
	var names []string
	for _, q := range r.Requirements {
		if q.Status == report.Violated {
			names = append(names, q.ID)
		}
	}
	for _, i := range r.Invariants {
		if i.Status == report.Violated {
			names = append(names, i.Name)
		}
	}
	return names
}

// TestCrowded keeps rows with many nodes apart from others.
func TestCrowded(t *testing.T) {
	for specs, want := range map[string]bool{"count-drop": false, "count-drop aligned-periods": true, "": false} {
		if got := (expectation{specs: strings.Fields(specs)}).crowded(); got != want {
			t.Errorf("%q: want crowded %t, got %t", specs, want, got)
		}
	}
}

// TestJudgeCanFail shows that each kind of wrong run is noticed.
func TestJudgeCanFail(t *testing.T) {
	run := func(broken ...string) report.Report {
		r := report.Report{Requirements: []report.Requirement{{ID: "count-drop", Status: report.Held}}}
		for _, name := range broken {
			r.Invariants = append(r.Invariants, report.InvariantResult{Name: name, Status: report.Violated})
		}
		return r
	}
	persona := expectation{driver: "p", exit: 1, root: "root", mayAlso: []string{"also"}}
	for name, tc := range map[string]struct {
		want expectation
		exit int
		run  report.Report
		bad  string
	}{
		"caught":             {persona, 1, run("root"), ""},
		"caught, and more":   {persona, 1, run("root", "also"), ""},
		"not caught":         {persona, 1, run("also"), "not caught"},
		"false alarm":        {persona, 1, run("root", "other"), "false alarm: other"},
		"passes":             {persona, 0, run("root"), "exit code: want 1, got 0"},
		"environment":        {persona, 3, run("root"), "exit code: want 1, got 3"},
		"steady":             {expectation{driver: "steady"}, 0, run(), ""},
		"steady is accused":  {expectation{driver: "steady"}, 1, run("root"), "false alarm: root"},
		"steady without run": {expectation{driver: "steady"}, 0, report.Report{}, "no spec ran"},
	} {
		got := strings.Join(tc.want.judge(tc.exit, tc.run), "\n")
		if (tc.bad == "") != (got == "") || !strings.Contains(got, tc.bad) {
			t.Errorf("%s: want %q, got %q", name, tc.bad, got)
		}
	}
}

// TestPersonasNameWhatExists finds a root or a consequence that is misspelt. Invariants that are not written yet may be named as consequences.
func TestPersonasNameWhatExists(t *testing.T) {
	for _, name := range personas.Names() {
		p, err := personas.Find(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := invariants.Find(p.Root); !ok {
			t.Errorf("persona %s: no invariant %q, which it names as its root", name, p.Root)
		}
	}
}
