package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"headroom/e2e/framework/plan"
	"headroom/e2e/framework/scenario"
)

// failing are seeds whose plans violate invariants: what a driver's mistake looks like among faults, and what released Kubernetes does.
var failing = []struct {
	name string
	plan.Options
	// violated are what the plan shows, the first one above all.
	violated []string
	doc      string
}{
	{
		name: "negative", Options: plan.Options{Seed: 1, Faults: []string{"quota"}, Driver: "negative"}, violated: []string{"never-unbounded", "answer-within-quota"},
		doc: "The driver passes a negative limit on, and its nodes become unlimited.",
	},
	{
		name: "idle-writes", Options: plan.Options{Seed: 11, Faults: []string{"csi"}}, violated: []string{"write-budget"},
		doc: "An answer of -1 makes the kubelet write CSINode at every tick, though nothing changes: known upstream.",
	},
	{
		name: "stale-owner", Options: plan.Options{Seed: 22, Faults: []string{"object", "csi"}}, violated: []string{"csinode-owned"},
		doc: "After a Node was replaced, the kubelet makes its CSINode for the UID that is gone: known upstream.",
	},
}

// leastSeedPlays is how often a seed is played before its figure says something.
const leastSeedPlays = 10

// TestFailingSeeds holds fixtures/seeds, and the table in docs/chaos.md, to what the seeds stand for and to how often that was shown.
func TestFailingSeeds(t *testing.T) {
	for _, f := range failing {
		f.Duration = plan.Shortest
		s, err := plan.New(f.Options)
		if err != nil {
			t.Fatal(err)
		}
		s.Metadata.Name, s.Metadata.Doc = f.name, f.doc+" "+s.Metadata.Doc
		s.Alone = false // its faults act on its own nodes and driver
		s.Expect = scenario.Expect{}
		for _, name := range f.violated {
			s.Expect.Invariants = append(s.Expect.Invariants, scenario.Verdict{Invariant: name, Verdict: scenario.Violated})
		}
		text, err := s.Encode()
		if err != nil {
			t.Fatal(err)
		}
		hold(t, filepath.Join("../fixtures/seeds", f.name+".yaml"), string(text))
	}
	all, results := stories(t, "../fixtures/seeds/*.yaml", resultsDir+"/seeds.yaml")
	if len(all) != len(failing) {
		t.Errorf("fixtures/seeds: want %d files, got %d", len(failing), len(all))
	}
	table := "| seed | driver | violates | reproduces on | reproduced |\n|---|---|---|---|---|\n"
	for _, s := range all {
		for _, f := range failing {
			if f.name != s.Metadata.Name {
				continue
			}
			if s.Shared() {
				t.Errorf("%s: it acts on what scenarios share, so that it cannot play beside its copies", f.name)
			}
			versions, figures := reproduced(t, s, results, leastSeedPlays)
			for _, r := range results.Rows {
				if r.Scenario == f.name && 10*r.Reproduced < 9*r.Played {
					t.Errorf("%s: want at least 9 of 10 plays to show it, got %s", f.name, r)
				}
			}
			driver := f.Driver
			if driver == "" {
				driver = "steady"
			}
			table += fmt.Sprintf("| `%s`: --seed %d --faults %s --duration %s | `%s` | `%s` | %s | %s |\n", f.name, f.Seed, strings.Join(f.Faults, ","),
				plan.Shortest.Round(time.Second), driver, f.violated[0], versions, figures)
		}
	}
	const docs, begin, end = "../docs/chaos.md", "<!-- written by: go test ./e2e -run TestFailingSeeds -update -->\n", "<!-- end of seeds -->\n"
	between(t, docs, begin, end, table)
}
