package e2e

import (
	"fmt"
	"slices"
	"testing"

	"headroom/chaos"
)

// TestFaultTimes holds the table of docs/chaos.md to the plays in which each fault bit and healed.
func TestFaultTimes(t *testing.T) {
	all, results := stories(t, "../fixtures/scenarios/faults-*.yaml", resultsDir+"/faults.yaml")
	table := "| fault | on | shown by | bites | heals | in all |\n|---|---|---|---|---|---|\n"
	var lines []string
	shown := map[string]bool{}
	for _, s := range all {
		rows, err := results.Current(s)
		if err != nil {
			t.Fatal(err)
		}
		if len(rows) == 0 {
			t.Errorf("%s: no results of the scenario as it is (remedy: make fault-times)", s.Metadata.Name)
		}
		for _, r := range rows {
			if r.Reproduced < r.Played || r.Played == 0 {
				t.Errorf("%s: want every play to show that its faults bite and heal, got %s", s.Metadata.Name, r)
			}
			for _, f := range r.Faults {
				shown[f.Fault] = true
				lines = append(lines, fmt.Sprintf("| `%s` | %s | `%s` | %s | %s | %s |\n", f.Fault, f.Target, s.Metadata.Name, f.Bites, f.Heals, f.Took))
			}
		}
	}
	for _, name := range chaos.Names() {
		if !shown[name] {
			t.Errorf("fault %q: no play shows that it bites and heals", name)
		}
	}
	slices.Sort(lines)
	for _, l := range lines {
		table += l
	}
	between(t, "../docs/chaos.md", "<!-- written by: go test ./e2e -run TestFaultTimes -update -->\n", "<!-- end of faults -->\n", table)
}
