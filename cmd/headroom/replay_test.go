package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"headroom/e2e/framework/scenario"
	"headroom/e2e/invariants"
)

// runReplay runs the command and returns its exit code and what it says.
func runReplay(args ...string) (int, string) {
	var out bytes.Buffer
	cmd := rootCommand()
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SetArgs(append([]string{"replay"}, args...))
	err := cmd.Execute()
	if err != nil {
		out.WriteString(err.Error())
	}
	return exitCode(err), out.String()
}

const goodStory = `apiVersion: headroom/v1alpha1
kind: Scenario
metadata: {name: NAME, doc: d}
topology: {nodes: [{limit: 4}]}
steps:
- wait: {within: 15s, count: {node: node/1, is: 4}}
expect: {invariants: [{invariant: never-unbounded, verdict: held}]}
`

func TestReplayRefusesBeforeItStartsAnything(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := file("good.yaml", strings.Replace(goodStory, "NAME", "good", 1))
	same := file("same.yaml", strings.Replace(goodStory, "NAME", "good", 1))
	bad := file("bad.yaml", strings.NewReplacer("NAME", "bad", "node/1", "node/3", "never-unbounded", "never-bounded").Replace(goodStory))
	figures := file("figures.yaml", strings.Replace(goodStory, "NAME", "figures", 1)+"driver: {name: steady, figures: {cacheAge: 1ms}}\n")
	second := file("second.yaml", strings.Replace(goodStory, "NAME", "good-2", 1))
	long := file("long.yaml", strings.Replace(goodStory, "NAME", strings.Repeat("x", 31), 1))
	runDir := filepath.Join(dir, "run")
	for name, c := range map[string]struct {
		args []string
		want []string
	}{
		"nothing":        {nil, []string{"want at least one scenario file"}},
		"no such file":   {[]string{filepath.Join(dir, "none.yaml")}, []string{"none.yaml", "remedy: name a file"}},
		"a folder":       {[]string{dir}, []string{"scenario: read " + dir + ": want a file, got a directory (remedy: name the file itself)"}},
		"a device":       {[]string{"/dev/zero"}, []string{"scenario: read /dev/zero: want a file, got one of mode"}},
		"results, none":  {[]string{"--results", "/dev/zero", good}, []string{"--results: read /dev/zero: want a file, got one of mode"}},
		"figures":        {[]string{figures}, []string{figures + ":8: driver.figures: driver figures: cacheAge 1ms is less than minInterval 1s"}},
		"a bad file":     {[]string{good, bad}, []string{bad + ":6: steps[0].wait.count.node", `"node/3" is node 3 of 1`, bad + ":7: ", `unknown invariant "never-bounded"`}},
		"bad files":      {[]string{bad, filepath.Join(dir, "none.yaml")}, []string{bad + ":6:", "none.yaml"}},
		"the same twice": {[]string{good, same}, []string{same, `"good" is the name of ` + good + " too"}},
		"times":          {[]string{"--times", "0", good}, []string{"--times 0: want 1 to 100"}},
		"a long name":    {[]string{"--times", "2", long}, []string{"at most 32 letters", "remedy: give it a shorter one"}},
		"a copy's name":  {[]string{"--times", "2", good, second}, []string{`"good-2" is the name of another scenario`}},
		"results":        {[]string{"--results", good, good}, []string{good + ":", "unknown field", "metadata"}},
		"procs":          {[]string{"--procs", "0", good}, []string{"--procs 0: want 1 to 16"}},
	} {
		code, text := runReplay(append(c.args, "--run-dir", runDir)...)
		if code != 2 {
			t.Errorf("%s: want exit code 2, got %d", name, code)
		}
		for _, want := range c.want {
			if !strings.Contains(text, want) {
				t.Errorf("%s: want %q, got %q", name, want, text)
			}
		}
		if _, err := os.Stat(runDir); err == nil {
			t.Fatalf("%s: it made a run directory", name)
		}
	}
	if code, text := runReplay("--check", good); code != 0 || !strings.Contains(text, "nothing wrong") {
		t.Errorf("a good file: want exit code 0, got %d: %s", code, text)
	}
}

// TestRecordedScenariosLoad holds those that fixtures/runs was recorded from to what there is.
func TestRecordedScenariosLoad(t *testing.T) {
	files, err := filepath.Glob("../../fixtures/runs/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("want scenarios, got %v (%v)", files, err)
	}
	if _, err := loadStories(files); err != nil {
		t.Error(err)
	}
}

// TestFixtureScenariosLoad holds the scenarios of the repository to what there is, and each known defect to a scenario that shows it.
func TestFixtureScenariosLoad(t *testing.T) {
	files, err := filepath.Glob("../../fixtures/scenarios/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("want scenarios, got %v (%v)", files, err)
	}
	stories, err := loadStories(files)
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]bool{}
	for _, s := range stories {
		if want := s.Metadata.Name + ".yaml"; filepath.Base(s.file) != want {
			t.Errorf("%s: want it in %s, the file of its name", s.file, want)
		}
		for _, v := range s.Expect.Invariants {
			if v.Verdict == "violated" {
				shown[s.Metadata.Name] = true
			}
		}
	}
	for _, i := range invariants.All() {
		for _, k := range i.KnownUpstream {
			if k.Scenario != "" && !shown[k.Scenario] {
				t.Errorf("invariant %q: want a scenario %q that shows its known defect", i.Name, k.Scenario)
			}
		}
	}
}

// TestIncidentsLoad holds the incidents to what there is: their drivers, faults and invariants. The rest is in the tests of package e2e.
func TestIncidentsLoad(t *testing.T) {
	files, err := filepath.Glob("../../fixtures/incidents/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("want incidents, got %v (%v)", files, err)
	}
	if _, err := loadStories(files); err != nil {
		t.Error(err)
	}
}

// TestDocsScenarioLoads holds the example of the documentation to the decoder.
func TestDocsScenarioLoads(t *testing.T) {
	text, err := os.ReadFile("../../docs/writing-a-scenario.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "```yaml\n")
	example, _, found := strings.Cut(rest, "```")
	if _, err := scenario.Load("docs/writing-a-scenario.md", []byte(example), catalog("docs/writing-a-scenario.md")); err != nil || !found {
		t.Errorf("the example: %v", err)
	}
}

func TestGroupsShareAClusterOnlyWhereTheyCan(t *testing.T) {
	dir := t.TempDir()
	var files []string
	for name, edit := range map[string]string{
		"a": "", "b": "", "e": "", "c": "driver: {name: all-internal}\n", "d": "driver: {name: steady, figures: {cacheAge: 3s}}\n",
	} {
		path := filepath.Join(dir, name+".yaml")
		text := strings.Replace(goodStory, "NAME", name, 1) + edit
		if name == "e" {
			text = strings.Replace(text, "expect:", "- component: {target: kube-apiserver, do: restart}\nexpect:", 1)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		files = append(files, path)
	}
	stories, err := loadStories(files)
	if err != nil {
		t.Fatal(err)
	}
	all, err := groups(stories)
	if err != nil || len(all) != 4 {
		t.Errorf("want 4 clusters, got %d (%v)", len(all), err)
	}
}

func TestDriverOfCountsFromTheFile(t *testing.T) {
	for name, want := range map[string]string{"steady": "steady", "mine.yaml": "dir/mine.yaml", "../x/d.yml": "x/d.yml", "/abs/d.yaml": "/abs/d.yaml"} {
		if got := driverOf("dir/s.yaml", name); got != want {
			t.Errorf("%q: want %q, got %q", name, want, got)
		}
	}
}
