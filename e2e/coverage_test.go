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
history is a small record that the invariant must call violated. Generated: ` + "`go test ./e2e -run TestCoverage -update`" + ` writes this file.

`

// TestCoverage holds docs/coverage.md to the code.
func TestCoverage(t *testing.T) {
	const path = "../docs/coverage.md"
	want := coverageHead + coverageOfInvariants(t) + "\n" + coverageOfRequirements(t)
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got := read(t, path); got != want {
		t.Errorf("%s is not what the code says; write it again with: go test ./e2e -run TestCoverage -update", path)
	}
}

func coverageOfInvariants(t *testing.T) string {
	var b strings.Builder
	b.WriteString("## Invariants\n\n| invariant | boundary | shown to fail by persona | by golden history | released Kubernetes that does not meet it: scenario |\n|---|---|---|---|---|\n")
	for _, i := range invariants.All() {
		goldens, err := filepath.Glob("../fixtures/histories/" + i.Name + "/violated*.jsonl")
		if err != nil || len(goldens) == 0 {
			t.Errorf("invariant %q: want a violated golden history, got none (error: %v)", i.Name, err)
		}
		for n, g := range goldens {
			goldens[n] = strings.TrimSuffix(filepath.Base(g), ".jsonl")
		}
		var known []string
		for _, k := range i.KnownUpstream {
			known = append(known, fmt.Sprintf("%s: `%s`", k.Versions, k.Scenario))
		}
		caught := caughtBy(t, func(p *personas.Persona) bool { return p.Root == i.Name })
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", i.Name, i.Boundary, code(caught), code(goldens), strings.Join(known, ", "))
	}
	return b.String()
}

func coverageOfRequirements(t *testing.T) string {
	var b strings.Builder
	b.WriteString("## Requirements\n\n| spec | boundary | claim | personas that may fail it |\n|---|---|---|---|\n")
	all := run.Requirements()
	slices.SortFunc(all, func(a, b run.Requirement) int { return strings.Compare(a.ID, b.ID) })
	for _, r := range all {
		caught := caughtBy(t, func(p *personas.Persona) bool { return p.Root == r.ID || slices.Contains(p.MayAlso, r.ID) })
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
