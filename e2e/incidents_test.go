package e2e

import (
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"headroom/e2e/framework/reproduce"
	"headroom/e2e/framework/run"
	"headroom/e2e/framework/scenario"
)

const (
	incidentsDir = "../fixtures/incidents"
	resultsDir   = "../fixtures/results"
	// leastPlays is how often a scenario must have been played for a figure to mean something.
	leastPlays = 3
)

// stories loads scenarios, by file, and the results of their plays.
func stories(t *testing.T, pattern, results string) ([]*scenario.Scenario, reproduce.Results) {
	t.Helper()
	known := run.Catalog() // drivers are held to what there is by the tests of the command
	files, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	var all []*scenario.Scenario
	for _, file := range files {
		s, err := scenario.Load(file, []byte(read(t, file)), known)
		if err != nil {
			t.Fatal(err)
		}
		if want := s.Metadata.Name + ".yaml"; filepath.Base(file) != want {
			t.Errorf("%s: want it in %s, the file of its name", file, want)
		}
		all = append(all, s)
	}
	if len(all) == 0 {
		t.Fatalf("%s: want scenarios", pattern)
	}
	played, err := reproduce.Read(results, []byte(read(t, results)))
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range played.Rows {
		if !slices.ContainsFunc(all, func(s *scenario.Scenario) bool { return s.Metadata.Name == row.Scenario }) {
			t.Errorf("%s: there is no scenario %q (remedy: remove its row)", results, row.Scenario)
		}
	}
	return all, played
}

// reproduced are the figures of a scenario as it is, one for each combination of versions.
func reproduced(t *testing.T, s *scenario.Scenario, all reproduce.Results, least int) (versions, figures string) {
	t.Helper()
	rows, err := all.Current(s)
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) == 0 {
		t.Errorf("%s: no results of the scenario as it is (remedy: play it with headroom replay --times %d --results FILE)", s.Metadata.Name, least)
	}
	var v, f []string
	for _, r := range rows {
		if r.Played < least {
			t.Errorf("%s: want it played at least %d times on %s, got %d", r.Scenario, least, r.Kubernetes, r.Played)
		}
		v, f = append(v, r.Kubernetes+", attacher "+r.Attacher), append(f, r.String())
	}
	return strings.Join(v, "<br>"), strings.Join(f, "<br>")
}

// TestIncidents holds the table of the README to the incidents and to what was played of them.
func TestIncidents(t *testing.T) {
	all, results := stories(t, incidentsDir+"/*.yaml", resultsDir+"/incidents.yaml")
	table := "| incident | source | reproduces on | what shows it | command | reproduced |\n|---|---|---|---|---|---|\n"
	for _, s := range all {
		if strings.TrimSpace(s.Metadata.Source) == "" {
			t.Errorf("%s: want the public report that it comes from as its source", s.Metadata.Name)
		}
		versions, figures := reproduced(t, s, results, leastPlays)
		table += fmt.Sprintf("| `%s` | %s | %s | %s | `make incident NAME=%[1]s` | %[5]s |\n", s.Metadata.Name, links(s.Metadata.Source), versions, shows(s), figures)
	}
	between(t, "../README.md", "<!-- written by: go test ./e2e -run TestIncidents -update -->\n", "<!-- end of incidents -->\n", table)
}

// unplayed are public reports of which fixtures/incidents has no scenario.
var unplayed = []struct {
	name, source string
	// says is what shows it instead, or why nothing does.
	says string
	// file has the cases that show it, by their names; "" where nothing does.
	file  string
	cases []string
}{
	{
		name:   "job-burns-retries",
		source: "https://github.com/stellar/supercluster/blob/01b0a42777a73aad99b007f7e06ed1915b7433a6/src/MissionParallelCatchup/job_monitor.py",
		says:   "nothing yet: a scenario makes its pods itself, and has no Job",
	},
	{
		name: "zero-clamped-to-one", source: "https://github.com/kubernetes-sigs/aws-ebs-csi-driver/issues/1859",
		says: "nothing yet: a scenario makes its pods itself, and has no Deployment that makes others in place of those rejected",
	},
	{
		name: "ssa-on-old-server", source: "https://github.com/kubernetes/kops/issues/18305",
		says: "`headroom preflight` says that the server drops the period: no-go on 1.32, a warning on 1.34 with its gate off, nothing on 1.36. It judges what a " +
			"cluster says of itself, and its unit tests have such records; no cluster of 1.32 is played",
		file:  "framework/preflight/preflight_test.go",
		cases: []string{`"a field that 1.32 does not know"`, `"a field that 1.34 drops"`},
	},
	{
		name: "write-conflicts", source: "https://github.com/kubernetes/kubernetes/issues/129218",
		says: "nothing yet: it takes five drivers on one node, whose counts share one CSINode, and a scenario has one; and a writer that changes nothing of theirs, " +
			"while `stale-writer` writes counts",
	},
}

// TestUnplayedIncidents holds the list of reports without a scenario to what shows them, and to the incidents.
func TestUnplayedIncidents(t *testing.T) {
	table := "| report | source | shown by |\n|---|---|---|\n"
	for _, u := range unplayed {
		if files, err := filepath.Glob(filepath.Join(incidentsDir, u.name+"*.yaml")); err != nil || len(files) > 0 {
			t.Errorf("%s: want no scenario of a report that is listed as one without, got %v (%v)", u.name, files, err)
		}
		for _, c := range u.cases {
			if !strings.Contains(read(t, u.file), c) {
				t.Errorf("%s: %s has no case %s", u.name, u.file, c)
			}
		}
		table += fmt.Sprintf("| `%s` | %s | %s |\n", u.name, links(u.source), u.says)
	}
	between(t, "../docs/chaos.md", "<!-- written by: go test ./e2e -run TestUnplayedIncidents -update -->\n", "<!-- end of unplayed -->\n", table)
}

// between holds what a document says between two lines.
func between(t *testing.T, file, begin, end, want string) {
	t.Helper()
	before, rest, found := strings.Cut(read(t, file), begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s: want a table between %q and %q", file, begin, end)
	}
	hold(t, file, before+begin+"\n"+want+"\n"+end+after)
}

// links shortens the addresses of a source: "aws-ebs-csi-driver 2538".
func links(source string) string {
	var out []string
	for _, word := range strings.Fields(source) {
		of, number := path.Split(word)
		out = append(out, fmt.Sprintf("[%s %s](%s)", path.Base(path.Dir(path.Clean(of))), number, word))
	}
	return strings.Join(out, ", ")
}

// shows says what a scenario expects to be seen.
func shows(s *scenario.Scenario) string {
	var out []string
	for _, v := range s.Expect.Invariants {
		text := fmt.Sprintf("`%s` %s", v.Invariant, v.Verdict)
		if v.AtMost > 0 {
			text += fmt.Sprintf(" within %s", v.AtMost)
		}
		out = append(out, text)
	}
	for _, p := range s.Expect.Pods {
		count := "all"
		if p.Count > 0 {
			count = fmt.Sprint(p.Count)
		}
		out = append(out, fmt.Sprintf("%s of `%s` %s", count, p.Name, p.Are))
	}
	return strings.Join(out, "; ")
}
