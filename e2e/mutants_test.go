package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"headroom/drivers/personas"
	"headroom/e2e/framework/mutants"
	"headroom/e2e/framework/plan"
)

// TestChaosMutants holds the table of docs/chaos.md to the plans that personas are to be caught in, and to what was played of them.
func TestChaosMutants(t *testing.T) {
	const file = resultsDir + "/mutants.yaml"
	results, err := mutants.Read(file, []byte(read(t, file)))
	if err != nil {
		t.Fatal(err)
	}
	lines, err := mutants.Lines(personas.Names(), mutants.Options{Seed: 1, Seeds: 10, Duration: plan.Shortest})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range staleMutants(t, lines, results) {
		t.Errorf("%s: %s (remedy: remove its row, and play it again with make chaos-mutants)", file, s)
	}
	table := "| persona | faults | root | caught | with it | the control |\n|---|---|---|---|---|---|\n"
	for _, l := range lines {
		table += mutantRow(t, l, results)
	}
	between(t, "../docs/chaos.md", "<!-- written by: go test ./e2e -run TestChaosMutants -update -->\n", "<!-- end of mutants -->\n", table)
}

// staleMutants lists the plays of plans that are none any more.
func staleMutants(t *testing.T, lines []mutants.Line, results mutants.Results) (out []string) {
	t.Helper()
	var now []string
	for _, l := range lines {
		for _, p := range l.Plans {
			c, err := mutants.ControlOf(p)
			if err != nil {
				t.Fatal(err)
			}
			now = append(now, p.Digest, c.Digest)
		}
	}
	for _, r := range results.Rows {
		if !slices.Contains(now, r.Digest) {
			out = append(out, fmt.Sprintf("%s, seed %d of %s: it is not the plan of that seed", r.Driver, r.Seed, strings.Join(r.Faults, ",")))
		}
	}
	return out
}

// mutantRow is a persona's row.
func mutantRow(t *testing.T, l mutants.Line, results mutants.Results) string {
	t.Helper()
	if why := l.Persona.Chaos.Never; why != "" {
		return fmt.Sprintf("| `%s` | | `%s` | no plan can show it: %s | | |\n", l.Name(), l.Root(), why)
	}
	first := l.Plans[0]
	faults := "`" + strings.Join(first.Faults, "`, `") + "`"
	if first.Nodes > 0 {
		faults += fmt.Sprintf(", %d nodes", first.Nodes)
	}
	if first.Quiet > 0 {
		faults += fmt.Sprintf(", %s quiet", first.Quiet.Round(time.Second))
	}
	head := fmt.Sprintf("| `%s` | %s | `%s` | ", l.Name(), faults, l.Root())
	p, row, caught := l.Caught(results)
	if !caught {
		played := 0
		for _, p := range l.Plans {
			if _, ok := results.Of(p); ok {
				played++
			}
		}
		switch played {
		case 0:
			return head + "not played yet | | |\n"
		case len(l.Plans):
			return head + fmt.Sprintf("not within %d seeds | | |\n", played)
		}
		return head + fmt.Sprintf("not in %d of %d seeds, and the others are not played | | |\n", played, len(l.Plans))
	}
	strays := l.Strays(row)
	var with []string
	for _, name := range row.Violated {
		switch {
		case slices.Contains(strays, name):
			with = append(with, "`"+name+"`, which it does not declare")
		case name != l.Root():
			with = append(with, "`"+name+"`")
		}
	}
	return head + fmt.Sprintf("at seed %d of plan %d, %s, attacher %s | %s | %s |\n", p.Seed, row.Plan, row.Kubernetes, row.Attacher,
		strings.Join(with, "; "), controlOf(t, p, results))
}

// controlOf says what became of the control of a plan.
func controlOf(t *testing.T, p mutants.Plan, results mutants.Results) string {
	t.Helper()
	c, err := mutants.ControlOf(p)
	if err != nil {
		t.Fatal(err)
	}
	row, played := results.Of(c)
	switch {
	case !played:
		return "not played yet"
	case len(row.Violated) > 0:
		return "violates `" + strings.Join(row.Violated, "`, `") + "`"
	}
	return "violates nothing"
}

// TestMutantsTableSaysWhatWasPlayed shows each kind of row, and that a play of another plan is found.
func TestMutantsTableSaysWhatWasPlayed(t *testing.T) {
	lines, err := mutants.Lines([]string{"negative"}, mutants.Options{Seed: 1, Seeds: 2, Duration: plan.Shortest})
	if err != nil {
		t.Fatal(err)
	}
	l := lines[0]
	control, err := mutants.ControlOf(l.Plans[1])
	if err != nil {
		t.Fatal(err)
	}
	row := func(p mutants.Plan, root, violated string) mutants.Row {
		r := mutants.Row{Driver: p.Driver, Faults: p.Faults, Seed: p.Seed, Plan: plan.Version, Digest: p.Digest, Kubernetes: p.Kubernetes, Attacher: p.Attacher}
		r.Root, r.Violated = root, strings.Fields(violated)
		return r
	}
	var results mutants.Results
	for _, c := range []struct {
		add  mutants.Row
		want string
	}{
		{mutants.Row{}, "| not played yet | | |\n"},
		{row(l.Plans[0], "Held", ""), "| not in 1 of 2 seeds, and the others are not played | | |\n"},
		{row(l.Plans[1], "Held", ""), "| not within 2 seeds | | |\n"},
		{row(l.Plans[1], "Violated", "never-unbounded one-writer write-budget"), "| `one-writer`, which it does not declare; `write-budget` | not played yet |\n"},
		{row(control, "", ""), " | violates nothing |\n"},
		{row(control, "", "one-writer"), " | violates `one-writer` |\n"},
	} {
		if c.add.Driver != "" {
			results.Add(c.add)
		}
		if got := mutantRow(t, l, results); !strings.HasSuffix(got, c.want) {
			t.Errorf("want %q, got %q", c.want, got)
		}
	}
	if stale := staleMutants(t, lines, results); len(stale) != 0 {
		t.Errorf("want nothing stale, got %q", stale)
	}
	results.Rows[0].Digest = "0"
	if stale := staleMutants(t, lines, results); len(stale) != 1 || !strings.Contains(stale[0], "negative, seed 1") {
		t.Errorf("want the row of another plan found, got %q", stale)
	}
}
