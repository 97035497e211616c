package e2e

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"headroom/drivers/personas"
	_ "headroom/e2e/conformance"
	"headroom/e2e/framework/run"
	"headroom/e2e/invariants"
)

var update = flag.Bool("update", false, "write the generated documents")

const coverageHead = `# Coverage

What is checked, by what, and what shows that the check can fail. A persona is a driver with one mistake, and the whole suite is run on it; a golden
history is a small record that the invariant must call violated. Generated: ` + "`go test ./e2e -run TestCoverage -update`" + ` writes this file, and its
short form in the README.

`

// TestCoverage holds docs/coverage.md, and the short form of it in the README, to the code.
func TestCoverage(t *testing.T) {
	hold(t, "../docs/coverage.md", coverageHead+coverageOfInvariants(t)+"\n"+coverageOfRequirements(t))

	const readme, begin, end = "../README.md", "<!-- written by: go test ./e2e -run TestCoverage -update -->\n", "<!-- end -->\n"
	before, rest, found := strings.Cut(read(t, readme), begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s: want the table of what can fail between %q and %q", readme, begin, end)
	}
	hold(t, readme, before+begin+coverageInShort(t)+end+after)
}

// hold writes a file where that was asked for, and wants it to be so.
func hold(t *testing.T, path, want string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if read(t, path) != want {
		t.Errorf("%s is not what the code says; write it again with: go test ./e2e -run %s -update", path, t.Name())
	}
}

// judgedBy names, for specs that no persona fails, the invariants that judge the same: their personas and golden histories show that it would be seen.
var judgedBy = map[string][]string{
	"aligned-periods":        {"phases-spread"},
	"attach-outage":          {"recovers-after-heal"},
	"churn":                  {"detach-requeues", "no-leaked-attachment"},
	"deployment-rollout":     {"bind-within-seen", "no-leaked-attachment"},
	"driver-deregisters":     {"no-ghost"},
	"driver-down-at-tick":    {"tick-error-keeps"},
	"ephemeral-volume":       {"bind-within-seen", "detach-requeues"},
	"job-completes":          {"no-leaked-attachment"},
	"kubelet-restart":        {"kubelet-restart-keeps"},
	"more-claims-than-count": {"bind-within-seen", "pending-is-explained"},
	"more-demand-than-room":  {"bind-within-seen", "growth-requeues"},
	"other-drivers-volumes":  {"bind-within-seen"},
	"period-changes":         {"period-change-applies"},
	"recovery-steps":         {"gradual-recovery"},
	"several-claims":         {"bind-within-seen", "detach-requeues"},
	"shared-claim":           {"bind-within-seen"},
}

// onlyKubernetes are specs of rules of the API server, or of a component's command line: only another Kubernetes fails them.
var onlyKubernetes = []string{
	"count-stays", "entry-mutability", "error-code-absent", "error-code-dropped", "error-code-stored", "gate-locked-kube-apiserver", "gate-locked-kubelet",
	"guard-limits", "period-bounds", "period-dropped", "pod-not-rejected", "stale-write", "stale-writer",
}

// coverageInShort is a line for each spec and invariant, with what shows that it can fail.
func coverageInShort(t *testing.T) string {
	var b strings.Builder
	b.WriteString("\n| must hold | checked by | seen to fail on |\n|---|---|---|\n")
	for _, i := range invariants.All() {
		fmt.Fprintf(&b, "| `%s` | every run | %s |\n", i.Name, failsOn(t, i))
	}
	shown := map[string]bool{}
	for _, r := range requirements() {
		shown[r.ID] = true
		how := personasOf(t, r.ID)
		same, judged := judgedBy[r.ID]
		switch {
		case how != "" && judged:
			t.Errorf("spec %q: personas %s fail it, so it need not be in judgedBy", r.ID, how)
		case judged:
			how = "what " + code(slices.Clone(same)) + " fails on"
		case how == "" && slices.Contains(onlyKubernetes, r.ID):
			how = "nothing here: it would take another Kubernetes"
		case how == "":
			t.Errorf("spec %q: nothing shows that it can fail; let a persona fail it, or name the invariants that judge the same in judgedBy", r.ID)
		}
		fmt.Fprintf(&b, "| `%s` | its spec | %s |\n", r.ID, how)
	}
	for id, names := range judgedBy {
		for _, name := range names {
			if _, known := invariants.Find(name); !known || !shown[id] {
				t.Errorf("judgedBy: want a spec and its invariants, got %q and %q", id, name)
			}
		}
	}
	return b.String() + "\n"
}

// failsOn names what an invariant is violated by: personas, or else golden histories; and released Kubernetes where it is.
func failsOn(t *testing.T, i invariants.Invariant) string {
	var played []string
	for _, k := range i.KnownUpstream {
		if !slices.Contains(played, k.Scenario) {
			played = append(played, k.Scenario)
		}
	}
	released := ""
	if len(played) > 0 {
		released = "; released Kubernetes in scenario " + code(played)
	}
	if named := caughtBy(t, func(p *personas.Persona) bool { return p.Root == i.Name }); len(named) > 0 {
		return "drivers " + code(named) + released
	}
	named := goldens(t, i.Name)
	if len(named) > 2 {
		return fmt.Sprintf("records %s and %d more%s", code(named[:2]), len(named)-2, released)
	}
	return "records " + code(named) + released
}

func personasOf(t *testing.T, spec string) string {
	named := caughtBy(t, func(p *personas.Persona) bool { return slices.Contains(p.MayAlso, spec) })
	if len(named) == 0 {
		return ""
	}
	return "drivers " + code(named)
}

// goldens lists the golden histories that an invariant must call violated.
func goldens(t *testing.T, invariant string) []string {
	files, err := filepath.Glob("../fixtures/histories/" + invariant + "/violated*.jsonl")
	if err != nil || len(files) == 0 {
		t.Errorf("invariant %q: want a violated golden history, got none (error: %v)", invariant, err)
	}
	for n, f := range files {
		files[n] = strings.TrimSuffix(filepath.Base(f), ".jsonl")
	}
	return files
}

// requirements are the specs by name.
func requirements() []run.Requirement {
	all := run.Requirements()
	slices.SortFunc(all, func(a, b run.Requirement) int { return strings.Compare(a.ID, b.ID) })
	return all
}

func coverageOfInvariants(t *testing.T) string {
	var b strings.Builder
	b.WriteString("## Invariants\n\n| invariant | boundary | shown to fail by persona | by golden history | released Kubernetes that does not meet it: scenario |\n|---|---|---|---|---|\n")
	for _, i := range invariants.All() {
		var known []string
		for _, k := range i.KnownUpstream {
			known = append(known, fmt.Sprintf("%s: `%s`", k.Versions, k.Scenario))
		}
		caught := caughtBy(t, func(p *personas.Persona) bool { return p.Root == i.Name })
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", i.Name, i.Boundary, code(caught), code(goldens(t, i.Name)), strings.Join(known, ", "))
	}
	return b.String()
}

func coverageOfRequirements(t *testing.T) string {
	var b strings.Builder
	b.WriteString("## Requirements\n\n| spec | boundary | claim | personas that may fail it |\n|---|---|---|---|\n")
	for _, r := range requirements() {
		caught := caughtBy(t, func(p *personas.Persona) bool { return slices.Contains(p.MayAlso, r.ID) })
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", r.ID, r.Boundary, strings.ReplaceAll(r.Claim, "|", `\|`), code(caught))
	}
	return b.String()
}

// caughtBy lists the personas for which f holds.
func caughtBy(t *testing.T, f func(*personas.Persona) bool) []string {
	var names []string
	for _, name := range personas.Names() {
		p, err := personas.Find(name)
		if err != nil {
			t.Fatal(err)
		}
		if f(p) {
			names = append(names, name)
		}
	}
	return names
}

func code(names []string) string {
	for i, n := range names {
		names[i] = "`" + n + "`"
	}
	return strings.Join(names, ", ")
}
