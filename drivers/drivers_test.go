package drivers

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"headroom/drivers/steady/policy"
	"headroom/e2e/framework/entry"
	"headroom/e2e/framework/history"
)

func TestMain(m *testing.M) {
	entry.Dispatch()
	os.Exit(m.Run())
}

var instance = Instance{
	Endpoint: "unix:///run/d.sock", DriverName: "d.test", NodeID: "n1", Zone: "a", StateDir: "/state", Backend: "http://b", Seed: -7,
}

func TestLoadSteady(t *testing.T) {
	d, err := Load("steady")
	if err != nil {
		t.Fatal(err)
	}
	want := Figures{MinInterval: time.Second, CacheAge: 2 * time.Second, LastGoodLife: 30 * time.Second, Step: 2, StepInterval: 10 * time.Second}
	if d.Figures != want || d.Persona != nil || !d.HasController() || d.Description == "" {
		t.Fatalf("got %+v", d)
	}
	if p := d.Params(); p.Name != "steady" || p.Step != 2 || p.CacheAge != history.Duration(2*time.Second) ||
		p.LastGoodLife != history.Duration(30*time.Second) || p.StepInterval != history.Duration(10*time.Second) {
		t.Fatalf("params %+v", p)
	}
	c := policy.Config{MinInterval: d.Figures.MinInterval, CacheAge: d.Figures.CacheAge, LastGoodLife: d.Figures.LastGoodLife,
		Step: d.Figures.Step, StepInterval: d.Figures.StepInterval}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	node, err := d.NodeCommand(instance)
	if err != nil {
		t.Fatal(err)
	}
	wantArgs := []string{
		"headroom:steady", "--mode=node", "--endpoint=unix:///run/d.sock", "--driver-name=d.test", "--node-id=n1", "--zone=a", "--state-dir=/state",
		"--backend=http://b", "--seed=-7", "--release=1", "--min-interval=1s", "--cache-age=2s", "--last-good-life=30s", "--step=2", "--step-interval=10s",
	}
	if !slices.Equal(node.Args, wantArgs) {
		t.Fatalf("node command:\nwant %q\ngot  %q", wantArgs, node.Args)
	}
	controller, err := d.ControllerCommand(Instance{Endpoint: "unix:///c.sock", DriverName: "d.test", Backend: "http://b"})
	if err != nil || !slices.Contains(controller.Args, "--mode=controller") {
		t.Fatalf("controller command %q, %v", controller, err)
	}
}

func TestLoadPersona(t *testing.T) {
	d, err := Load("all-internal")
	if err != nil {
		t.Fatal(err)
	}
	reference, err := Load("steady")
	if err != nil {
		t.Fatal(err)
	}
	if d.Persona == nil || d.Persona.Root != "class-is-honest" || d.Params().Name != "all-internal" || d.Figures != reference.Figures {
		t.Fatalf("got %+v", d)
	}
	node, err := d.NodeCommand(instance)
	if err != nil {
		t.Fatal(err)
	}
	controller, err := d.ControllerCommand(instance)
	if err != nil || !slices.Contains(node.Args, "--persona=all-internal") || !slices.Contains(controller.Args, "--persona=all-internal") {
		t.Fatalf("want the persona in both commands, got %q and %q, %v", node.Args, controller.Args, err)
	}
}

func TestLoadUnknownListsTheKnown(t *testing.T) {
	_, err := Load("nobody")
	for _, want := range []string{`"nobody"`, "steady", "all-internal", "unlimited-on-outage", ".yaml"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
	if _, err := Load("./none.yaml"); err == nil || !strings.Contains(err.Error(), "none.yaml") {
		t.Errorf("want an error with the path, got %v", err)
	}
	for _, name := range Names() {
		if _, err := Load(name); err != nil {
			t.Errorf("known driver %q: %v", name, err)
		}
	}
}

const minimal = `apiVersion: headroom/v1alpha1
kind: Driver
name: mine
figures:
  minInterval: 1m
  cacheAge: 2m
  lastGoodLife: 1h
node:
  command: ["./bin/driver", "--endpoint=${ENDPOINT}", "--both=${NODE_ID}${ZONE}", "cost $5"]
`

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "mine.yaml")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestLoadFile(t *testing.T) {
	path := write(t, minimal)
	d, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if d.Name != "mine" || d.HasController() || d.Figures.Step != 0 {
		t.Fatalf("got %+v", d)
	}
	i := instance
	i.Zone = "${NODE_ID}" // a value is not a template
	cmd, err := d.NodeCommand(i)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{filepath.Join(filepath.Dir(path), "bin", "driver"), "--endpoint=unix:///run/d.sock", "--both=n1${NODE_ID}", "cost $5"}
	if !slices.Equal(cmd.Args, want) || cmd.Path != want[0] {
		t.Fatalf("want %q, got %q at %q", want, cmd.Args, cmd.Path)
	}
	if _, err := d.ControllerCommand(i); err == nil {
		t.Fatal("want an error for a controller that is not declared")
	}
	if _, err := d.NodeCommand(Instance{Endpoint: "unix:///x", DriverName: "d"}); err == nil {
		t.Fatal("want an error without a node id")
	}
	if _, err := d.NodeCommand(Instance{NodeID: "n1"}); err == nil {
		t.Fatal("want an error without an endpoint")
	}
	d, err = Load(write(t, strings.Replace(minimal, "./bin/driver", "no-such-program-anywhere", 1)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.NodeCommand(i); err == nil || !strings.Contains(err.Error(), "no-such-program-anywhere") {
		t.Fatalf("want an error that names the program, got %v", err)
	}
}

func TestLoadRefuses(t *testing.T) {
	cases := map[string]struct {
		from, to string // replaced in minimal
		want     string // line, field and problem
	}{
		"unknown field":          {"name: mine", "nmae: mine", `:3: nmae: unknown field`},
		"unknown nested field":   {"cacheAge: 2m", "cacheage: 2m", `:6: figures.cacheage: unknown field`},
		"duplicate key":          {"name: mine", "name: mine\nname: yours", `:4: name: duplicate key "name", first on line 3`},
		"missing unit":           {"cacheAge: 2m", "cacheAge: 120", `:6: figures.cacheAge: 120 has no unit (remedy: write the unit, such as 120s)`},
		"not a duration":         {"cacheAge: 2m", "cacheAge: soon", `:6: figures.cacheAge: want a duration, got "soon"`},
		"negative":               {"cacheAge: 2m", "cacheAge: -2m", `:6: figures.cacheAge`},
		"nothing":                {"cacheAge: 2m", "cacheAge:", `:6: figures.cacheAge: want a value, got nothing`},
		"duration as a list":     {"cacheAge: 2m", "cacheAge: [2m]", `:6: figures.cacheAge: want a value, got a list`},
		"missing figure":         {"  cacheAge: 2m\n", "", `:5: figures: field "cacheAge" is missing`},
		"missing name":           {"name: mine\n", "", `:1: field "name" is missing`},
		"name is a number":       {"name: mine", "name: 7", `:3: name: want text, got "7"`},
		"version":                {"v1alpha1", "v2", `:1: apiVersion: want "headroom/v1alpha1", got "headroom/v2" (remedy: write headroom/v1alpha1)`},
		"kind":                   {"kind: Driver", "kind: Pod", `:2: kind: want "Driver", got "Pod"`},
		"contradicting ages":     {"cacheAge: 2m", "cacheAge: 2s", `:6: figures.cacheAge: 2s is less than minInterval 1m0s`},
		"contradicting lives":    {"lastGoodLife: 1h", "lastGoodLife: 1m", `:7: figures.lastGoodLife: 1m0s is less than cacheAge 2m0s`},
		"step without interval":  {"lastGoodLife: 1h", "lastGoodLife: 1h\n  step: 2", `:8: figures.step: 2 without a stepInterval`},
		"interval without step":  {"lastGoodLife: 1h", "lastGoodLife: 1h\n  stepInterval: 2s", `:8: figures.stepInterval: 2s without a step`},
		"step below 0":           {"lastGoodLife: 1h", "lastGoodLife: 1h\n  step: -1", `:8: figures.step`},
		"step is a fraction":     {"lastGoodLife: 1h", "lastGoodLife: 1h\n  step: 1.5", `:8: figures.step`},
		"unknown placeholder":    {"${ZONE}", "${ZONES}", `:9: node.command[2]: placeholder ${ZONES}`},
		"placeholder not closed": {"${ZONE}", "${ZONE", `:9: node.command[2]: placeholder ${ZONE: want one of`},
		"no endpoint":            {"${ENDPOINT}", "x", `:9: node.command: has no ${ENDPOINT}`},
		"command is a string":    {`["./bin/driver", "--endpoint=${ENDPOINT}", "--both=${NODE_ID}${ZONE}", "cost $5"]`, "./x ${ENDPOINT}", `:9: node.command: want a list, got "./x ${ENDPOINT}"`},
		"no words":               {`["./bin/driver", "--endpoint=${ENDPOINT}", "--both=${NODE_ID}${ZONE}", "cost $5"]`, "[]", `:9: node.command: has no words`},
		"no time at all":         {"minInterval: 1m", "minInterval: 0s", `:5: figures.minInterval: want a duration above 0, got 0s`},
		"empty program":          {`"./bin/driver"`, `""`, `:9: node.command[0]: want a program`},
		"word of nothing":        {`"cost $5"`, `~`, `:9: node.command[3]: want text`},
		"node is a list":         {"node:\n  command", "node:\n - command", `:9: node: want a mapping of fields, got a list`},
		"alias":                  {"name: mine", "name: &a mine\ndescription: *a", `:4: description: anchors and aliases are not supported`},
		"two documents":          {"kind: Driver", "kind: Driver\n---\n", `want one document, got a second`},
		"not YAML":               {"kind: Driver", "kind: [", `not YAML`},
		"empty":                  {minimal, "", `:1: the file is empty`},
		"a scalar":               {minimal, "driver", `:1: want a mapping of fields, got "driver"`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(minimal, c.from, c.to, 1)
			if text == minimal {
				t.Fatalf("case changes nothing: %q is not in the file", c.from)
			}
			path := write(t, text)
			_, err := Load(path)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), path) || !strings.Contains(err.Error(), "remedy") {
				t.Fatalf("want the file, %q and a remedy, got %v", c.want, err)
			}
		})
	}
}
