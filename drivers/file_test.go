package drivers

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"headroom/e2e/framework/history"
	"headroom/e2e/framework/strict/schema"
)

var update = flag.Bool("update", false, "write docs/driver.schema.json anew")

const schemaFile = "../docs/driver.schema.json"

// TestSchema holds docs/driver.schema.json, which editors use, to the types that Load fills.
func TestSchema(t *testing.T) {
	got, err := schema.Of(reflect.TypeFor[File](), schema.Options{Title: "Headroom driver", Dir: ".", Special: map[reflect.Type]map[string]any{
		reflect.TypeFor[LimitSource](): {"enum": LimitSources},
		reflect.TypeFor[Readiness]():   {"enum": Readinesses},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(schemaFile, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(schemaFile)
	if err != nil || string(want) != string(got) {
		t.Errorf("docs/driver.schema.json is not what the types say (%v): run go test ./drivers -run TestSchema -update", err)
	}
}

// own has everything that a definition may have beside what minimal has.
const own = `apiVersion: headroom/v1alpha1
kind: Driver
name: mine
limit: own
figures: {minInterval: 1s, cacheAge: 2s, lastGoodLife: 30s}
node:
  command: [/bin/sh, -c, "exit 0", "--drivername=${DRIVER_NAME}", "--nodeid=${NODE_ID}"]
  env: {CSI_ENDPOINT: "${ENDPOINT}", STATE: "${STATE_DIR}"}
  ready: probe
  startLimit: 90s
volumes:
  handles: [v1, v2]
  missing: v9
  parameters: {type: fast}
  context: {a: b}
causes:
  limit: {http: {method: POST, url: "http://127.0.0.1:1/${NODE_ID}", body: '{"max": ${LIMIT}}'}}
  foreign: {command: [/bin/true, "${FOREIGN}"]}
  outage: {begin: {command: [/bin/true]}, end: {command: [/bin/true]}}
  restart: {command: [/bin/true]}
`

func TestLoadAllFields(t *testing.T) {
	d, err := Load(write(t, own))
	if err != nil {
		t.Fatal(err)
	}
	if d.Limit != LimitOwn || d.NodeStart() != (Start{Ready: ReadyProbe, Limit: 90 * time.Second}) || !slices.Equal(d.Volumes.Handles, []string{"v1", "v2"}) ||
		d.Volumes.Missing != "v9" || d.Volumes.Parameters["type"] != "fast" || d.Volumes.Context["a"] != "b" || d.Causes.Outage == nil || d.Causes.Throttled != nil || !d.HasEnv() {
		t.Fatalf("got %+v", d)
	}
	cmd, err := d.NodeCommand(instance)
	if err != nil || !slices.Contains(cmd.Env, "CSI_ENDPOINT=unix:///run/d.sock") || !slices.Contains(cmd.Env, "STATE=/state") || len(cmd.Env) != len(os.Environ())+2 {
		t.Fatalf("want this process's variables and the definition's, got %q, %v", cmd.Env, err)
	}
	d, err = Load(write(t, minimal))
	if err != nil || d.Limit != LimitBackend || d.NodeStart() != (Start{Ready: ReadySocket}) || d.HasEnv() {
		t.Fatalf("want the defaults, got %+v, %v", d, err)
	}
	if cmd, err := d.NodeCommand(instance); err == nil && cmd.Env != nil {
		t.Fatalf("want no environment of its own, got %q", cmd.Env)
	}
}

// TestLoadEmptyTexts shows that a variable, an argument and a parameter may be empty, as they may be where they go.
func TestLoadEmptyTexts(t *testing.T) {
	text := own
	for from, to := range map[string]string{`STATE: "${STATE_DIR}"`: `STATE: ""`, `"exit 0"`: `""`, "type: fast": "type: ''", "a: b": "a: ''", "restart: {command: [/bin/true]}": "restart: {command: [/bin/true, '']}"} {
		text = strings.Replace(text, from, to, 1)
	}
	d, err := Load(write(t, text))
	if err != nil {
		t.Fatal(err)
	}
	cmd, err := d.NodeCommand(instance)
	if err != nil || cmd.Args[2] != "" || !slices.Contains(cmd.Env, "STATE=") || len(d.Volumes.Parameters) != 1 || len(d.Volumes.Context) != 1 || len(d.Causes.Restart.Command) != 2 {
		t.Errorf("want what is empty kept, got %q, %q, %+v, %v", cmd.Args, cmd.Env, d.Volumes, err)
	}
	if _, err := Lint(write(t, text)); err != nil {
		t.Errorf("want nothing wrong, got %v", err)
	}
}

func TestLoadRefusesFurtherFields(t *testing.T) {
	for name, c := range map[string]struct{ from, to, want string }{
		"name":                  {"name: mine", "name: My Driver", `:3: name: want at most 32 lower-case letters`},
		"limit":                 {"limit: own", "limit: cloud", `:4: limit: want one of [backend gate own fixed], got "cloud" (remedy: write one of these)`},
		"node ids":              {"limit: own", "limit: own\nnodeIDs: mine", `:5: nodeIDs: want one of [given own], got "mine"`},
		"own ids, a controller": {"limit: own", "limit: own\nnodeIDs: own\ncontroller: {command: [x, '${ENDPOINT}']}", `:5: nodeIDs: own goes with node processes that serve`},
		"cause of the gate":     {"limit: own", "limit: gate", `causes.limit: with limit: gate there is nothing to cause by it`},
		"variable":              {"STATE: ", "A-B: ", `:8: node.env.A-B: "A-B" is no name of a variable`},
		"variable's value":      {`"${STATE_DIR}"`, `"${STATE}"`, `:8: node.env.STATE: placeholder ${STATE}`},
		"endpoint nowhere":      {`"${ENDPOINT}"`, `x`, `:7: node.command: has no ${ENDPOINT}`},
		"ready":                 {"ready: probe", "ready: soon", `:9: node.ready: want one of [socket probe], got "soon"`},
		"start limit":           {"startLimit: 90s", "startLimit: 0s", `:10: node.startLimit: want more than 0`},
		"start limit, no unit":  {"startLimit: 90s", "startLimit: 90", `:10: node.startLimit: 90 has no unit`},
		"volume twice":          {"[v1, v2]", "[v1, v1]", `:12: volumes.handles[1]: volume "v1" is listed twice`},
		"provisioning":          {"parameters: {type: fast}", "provisioning: manual", `:14: volumes.provisioning: want one of [static dynamic], got "manual"`},
		"dynamic, per node":     {"parameters: {type: fast}", "provisioning: dynamic", `:14: volumes.provisioning: dynamic goes with a controller`},
		"missing is there":      {"missing: v9", "missing: v2", `:13: volumes.missing: volume "v2" is one of handles`},
		"both":                  {"restart: {command: [/bin/true]}", "restart: {command: [/bin/true], http: {url: 'http://x/'}}", `:20: causes.restart: want either command or http`},
		"neither":               {"restart: {command: [/bin/true]}", "restart: {}", `:20: causes.restart: want either command or http`},
		"no number":             {"${LIMIT}", "7", `:17: causes.limit: has no ${LIMIT}`},
		"another placeholder":   {"${FOREIGN}", "${ENDPOINT}", `:18: causes.foreign.command[1]: placeholder ${ENDPOINT}`},
		"URL":                   {"http://127.0.0.1:1/", "127.0.0.1:1/", `:17: causes.limit.http.url: want a URL`},
		"method":                {"method: POST", "method: post", `:17: causes.limit.http.method: want an HTTP method`},
		"no program":            {"[/bin/sh, -c,", "['', -c,", `:7: node.command[0]: want a program, got an empty text (remedy: write the program to run)`},
		"cause's program":       {"restart: {command: [/bin/true]}", `restart: {command: ["", x]}`, `:20: causes.restart.command[0]: want a program, got an empty text`},
		"empty handle":          {"[v1, v2]", "[v1, '']", `:12: volumes.handles[1]: want text, got "" (remedy: write text, or remove it)`},
		"variable of nothing":   {"STATE: \"${STATE_DIR}\"", "STATE: ", `:8: node.env.STATE: want text, got nothing`},
		"no method":             {"method: POST", "method: 'G ET'", `:17: causes.limit.http.method: want an HTTP method, got "G ET"`},
		"URL's host":            {"http://127.0.0.1:1/", "http://a b/", `:17: causes.limit.http.url: want a URL`},
		"URL's port":            {"http://127.0.0.1:1/", "http://127.0.0.1:65536/", `:17: causes.limit.http.url: want a URL`},
		"outage without an end": {", end: {command: [/bin/true]}", "", `:19: causes.outage: field "end" is missing`},
		"cause of a backend":    {"limit: own", "limit: backend", `causes.limit: with limit: backend there is nothing to cause by it`},
		"cause of a fixed one":  {"limit: own", "limit: fixed", `causes.outage.begin: with limit: fixed there is nothing to cause by it`},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(own, c.from, c.to, 1)
			if text == own {
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

// TestLacks shows what a definition's driver lacks, and what a run's header says of it.
func TestLacks(t *testing.T) {
	for text, want := range map[string]struct {
		bridged bool
		params  history.DriverParams
	}{
		minimal: {params: history.DriverParams{}},
		strings.Replace(minimal, "kind: Driver", "kind: Driver\nvolumes: {parameters: {type: fast}}", 1):                                     {bridged: true},
		strings.Replace(minimal, "kind: Driver", "kind: Driver\nnodeIDs: own", 1):                                                            {bridged: true},
		strings.Replace(minimal, "kind: Driver", "kind: Driver\nlimit: gate", 1):                                                             {bridged: true, params: history.DriverParams{Limit: "gate"}},
		strings.Replace(minimal, "kind: Driver", "kind: Driver\nlimit: fixed", 1):                                                            {bridged: true, params: history.DriverParams{Limit: "fixed"}},
		strings.Replace(strings.Replace(minimal, "kind: Driver", "kind: Driver\nlimit: fixed", 1), "${ENDPOINT}", "${ENDPOINT},${LIMIT}", 1): {bridged: true, params: history.DriverParams{Limit: "start"}},
		strings.Replace(minimal, "${ENDPOINT}", "${ENDPOINT},${RELEASE}", 1):                                                                 {params: history.DriverParams{Releases: true}},
	} {
		d, err := Load(write(t, text))
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		got := d.Params()
		if d.Bridged() != want.bridged || got.Limit != want.params.Limit || got.Releases != want.params.Releases {
			t.Errorf("want %+v, got bridged %t, %+v\n%s", want, d.Bridged(), got, text)
		}
		i := instance
		i.Limit = 7
		for _, node := range []string{"n1", ""} {
			i.NodeID = node
			b, capacity, err := d.Bridge(i, t.TempDir(), t.Logf)
			if err != nil || (capacity != nil) != (d.Limit == LimitGate && node != "") {
				t.Errorf("bridge before node %q: %v, %v\n%s", node, capacity, err, text)
			}
			if b.Handles("ControllerPublishVolume") != want.bridged {
				t.Errorf("bridge before node %q handles attaches: want %t\n%s", node, want.bridged, text)
			}
			if capacity != nil {
				capacity.Close()
			}
		}
	}
}

// TestStage: what a gate gives a driver has a directory on its node and asks for the limit there, and nothing comes before a driver that lacks nothing.
func TestStage(t *testing.T) {
	asked := make(chan struct{}, 1)
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		select {
		case asked <- struct{}{}:
		default:
		}
		http.Error(w, "no", http.StatusServiceUnavailable)
	}))
	defer backend.Close()
	i := instance
	i.Backend = backend.URL
	for name, c := range map[string]struct {
		text, node string
		want, asks bool
	}{
		"lacks nothing": {minimal, "n1", false, false},
		"own node ids":  {strings.Replace(minimal, "kind: Driver", "kind: Driver\nnodeIDs: own", 1), "n1", true, false},
		"no limit":      {strings.Replace(minimal, "kind: Driver", "kind: Driver\nlimit: gate", 1), "n1", true, true},
		"a controller":  {strings.Replace(minimal, "kind: Driver", "kind: Driver\nlimit: gate", 1), "", true, false},
	} {
		d, err := Load(write(t, c.text))
		if err != nil {
			t.Fatal(err)
		}
		i.NodeID = c.node
		state := ""
		if c.node != "" {
			state = filepath.Join(t.TempDir(), "a", "state")
		}
		s, err := d.Stage(t.Context(), i, state, t.Logf)
		if err != nil || (s != nil) != c.want {
			t.Fatalf("%s: want a stage: %t, got %v (error: %v)", name, c.want, s, err)
		}
		if info, err := os.Stat(state); c.want && c.node != "" && (err != nil || !info.IsDir()) {
			t.Errorf("%s: want its directory made, got %v", name, err)
		}
		if c.asks {
			select {
			case <-asked:
			case <-time.After(time.Minute):
				t.Errorf("%s: want the backend asked, it was not in a minute", name)
			}
		}
	}
}

// TestDynamic shows what a definition with dynamic volumes says to a run, and that nothing has to be given to its driver.
func TestDynamic(t *testing.T) {
	d, err := Load(write(t, minimal+"controller: {command: [d, '${ENDPOINT}']}\nvolumes: {provisioning: dynamic, parameters: {type: fast}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if p := d.Params(); !d.Dynamic() || d.Bridged() || !p.Dynamic || p.Parameters["type"] != "fast" {
		t.Errorf("want it dynamic, with its parameters and without a bridge, got %+v, bridged %t", p, d.Bridged())
	}
	if d, err = Load(write(t, minimal+"volumes: {provisioning: static, parameters: {type: fast}}\n")); err != nil || d.Dynamic() || !d.Bridged() || d.Params().Parameters != nil {
		t.Errorf("static: want a bridge and no StorageClass, got %+v, error %v", d, err)
	}
	for name, want := range map[string]bool{"steady": false, "steady-dynamic": true, "delete-leaks": true, "no-jitter": false} {
		if d, err := Load(name); err != nil || d.Dynamic() != want {
			t.Errorf("%s: want dynamic %t, got %+v, error %v", name, want, d, err)
		}
	}
}

func TestTemplate(t *testing.T) {
	text, err := Template("fast-disk")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), "\n"); n > 25 {
		t.Errorf("want 25 lines at most, got %d", n)
	}
	d, err := Load(write(t, string(text)))
	if err != nil || d.Name != "fast-disk" {
		t.Fatalf("want a definition that loads, got %+v, %v", d, err)
	}
	// What is commented out must be right too once it is not.
	var all []string
	for _, line := range strings.Split(string(text), "\n") {
		if bare, found := strings.CutPrefix(line, "# "); found && !strings.HasPrefix(bare, "A driver") {
			line = bare
		} else if bare, found := strings.CutPrefix(line, "#   "); found {
			line = "  " + bare
		} else if bare, found := strings.CutPrefix(line, "  # "); found {
			line = "  " + bare
		}
		all = append(all, line)
	}
	if _, err := Load(write(t, strings.Replace(strings.Join(all, "\n"), "limit: backend", "limit: own", 1))); err != nil {
		t.Errorf("with all comments taken away: %v\n%s", err, strings.Join(all, "\n"))
	}
	if _, err := Template("Fast Disk"); err == nil {
		t.Error("want a name refused that no definition can have")
	}
}

// TestTemplateOfEveryName: a name that YAML takes for something else than a text must load too.
func TestTemplateOfEveryName(t *testing.T) {
	const ends = "abcdefghijklmnopqrstuvwxyz0123456789"
	names := []string{"fast-disk", "true", "false", "null", "yes", "no", "on", "off", "nan", "inf", "1e3", "1e-3", "0x1f", "0o17", "017", "0b11", "12345", "2026-01-02", "1-1", "5-5-5",
		strings.Repeat("9", 32), "1e" + strings.Repeat("9", 30), "a" + strings.Repeat("-", 30) + "z"}
	for _, a := range ends {
		names = append(names, string(a))
		for _, b := range ends {
			names = append(names, string(a)+string(b))
			for _, between := range "e-x" {
				names = append(names, string(a)+string(between)+string(b))
			}
		}
	}
	for _, name := range names {
		text, err := Template(name)
		if err != nil {
			t.Errorf("want name %q accepted, got %v", name, err)
			continue
		}
		if d, err := decode("x.yaml", text); err != nil || d.Name != name {
			t.Errorf("name %q: want a definition that loads, got %+v, %v", name, d, err)
		}
	}
	if text, err := Template("fast-disk"); err != nil || !strings.Contains(string(text), "\nname: fast-disk\n") {
		t.Errorf("want a name that needs no quotes without any, got %v:\n%s", err, text)
	}
	for _, name := range []string{"", "-", "a-", "-a", "A", "a.b", "a b", "~", "a: b", "a\n", "\"", strings.Repeat("a", 33)} {
		if text, err := Template(name); err == nil {
			t.Errorf("want name %q refused, got:\n%s", name, text)
		}
	}
}

func TestLint(t *testing.T) {
	program := filepath.Join(t.TempDir(), "driver")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	good := strings.Replace(own, "/bin/sh", program, 1)
	notes, err := Lint(write(t, good))
	if err != nil || !strings.Contains(strings.Join(notes, "\n"), "causes.throttled is not given") || len(notes) != 1 {
		t.Fatalf("want one note, got %q, %v", notes, err)
	}
	fixed := strings.Replace(strings.Replace(good, "limit: own", "limit: fixed", 1), `, STATE: "${STATE_DIR}"`, "", 1)
	fixed, _, _ = strings.Cut(fixed, "causes:")
	if notes, err := Lint(write(t, fixed)); err != nil || len(notes) != 3 || !strings.Contains(notes[0], "do not apply") || !strings.Contains(notes[1], "${LIMIT}") || !strings.Contains(notes[2], "${STATE_DIR}") {
		t.Fatalf("want three notes, got %q, %v", notes, err)
	}
	for name, c := range map[string]struct{ from, to, want string }{
		"no such program":      {program, "/nowhere/driver", `:7: node.command[0]: stat /nowhere/driver: no such file or directory (remedy: build it`},
		"not in PATH":          {program, "no-such-program-anywhere", `:7: node.command[0]: driver "mine": program "no-such-program-anywhere"`},
		"none beside it":       {program, "./driver", `/driver: no such file or directory (remedy: build it`},
		"none of a controller": {"volumes:", "controller: {command: [/nowhere/driver, '${ENDPOINT}']}\nvolumes:", `controller.command[0]: stat /nowhere/driver`},
		"no controller's name": {"volumes:", "controller: {command: [/bin/sh, '${ENDPOINT}']}\nvolumes:", `controller.command: has no ${DRIVER_NAME}`},
		"not executable":       {program, "/etc/passwd", `cannot be executed: -rw-r--r--`},
		"a folder":             {program, "/etc", `cannot be executed: d`},
		"no driver name":       {"${DRIVER_NAME}", "x", `:7: node.command: has no ${DRIVER_NAME}`},
		"no node id":           {"--nodeid=${NODE_ID}", "--nodeid=x", `:7: node.command: has no ${NODE_ID}`},
		"no program of limit":  {`{http: {method: POST, url: "http://127.0.0.1:1/${NODE_ID}", body: '{"max": ${LIMIT}}'}}`, `{command: [./nope, "${LIMIT}"]}`, `:17: causes.limit.command[0]: stat `},
		"no foreign program":   {"foreign: {command: [/bin/true", "foreign: {command: [no-such-program-anywhere", `:18: causes.foreign.command[0]: driver "mine": program "no-such-program-anywhere"`},
		"no program of begin":  {"begin: {command: [/bin/true]}", "begin: {command: [/nowhere/begin]}", `:19: causes.outage.begin.command[0]: stat /nowhere/begin`},
		"no program of end":    {"end: {command: [/bin/true]}", "end: {command: [/etc]}", `:19: causes.outage.end.command[0]: /etc cannot be executed`},
		"what Load refuses":    {"ready: probe", "ready: soon", `:9: node.ready`},
		"what is not YAML":     {"kind: Driver", "kind: [", `not YAML`},
		"two things at a time": {"--nodeid=${NODE_ID}", "--nodeid=${NODE}", `:7: node.command: has no ${NODE_ID}`},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(good, c.from, c.to, 1)
			if text == good {
				t.Fatalf("case changes nothing: %q is not in the file", c.from)
			}
			if _, err := Lint(write(t, text)); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "remedy") {
				t.Fatalf("want %q and a remedy, got %v", c.want, err)
			}
		})
	}
	itsOwn := strings.NewReplacer("--nodeid=${NODE_ID}", "--x", "limit: own", "limit: own\nnodeIDs: own").Replace(good)
	if _, err := Lint(write(t, itsOwn)); err != nil {
		t.Errorf("node ids of its own: want no ${NODE_ID} asked for, got %v", err)
	}
	gate, _, _ := strings.Cut(strings.NewReplacer(`, STATE: "${STATE_DIR}"`, "", "limit: own", "limit: gate").Replace(good), "causes:")
	if notes, err := Lint(write(t, gate)); err != nil || len(notes) != 1 || !strings.Contains(notes[0], "limit: gate") {
		t.Errorf("a gate's limit, which the gate keeps: want one note, got %q, %v", notes, err)
	}
	for from, to := range map[string]string{"http://127.0.0.1:1/${NODE_ID}": "http://${NODE_ID}/", `[/bin/true, "${FOREIGN}"]`: `["/${FOREIGN}"]`} {
		text := strings.Replace(good, from, to, 1)
		if _, err := Lint(write(t, text)); err != nil || text == good {
			t.Errorf("%s: want what is known only once it is called let be, got %v", to, err)
		}
	}
	causes := write(t, strings.Replace(good, "begin: {command: [/bin/true]}", "begin: {command: [./nope]}", 1))
	d, err := Load(causes)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.LintCauses(false); err == nil || !strings.HasPrefix(err.Error(), causes+":19: causes.outage.begin.command[0]: stat ") {
		t.Errorf("want the program of a cause missed by those who load the definition, got %v", err)
	}
	if err := d.LintProcesses(); err != nil {
		t.Errorf("want causes let be by those who need none, got %v", err)
	}
	restart := write(t, strings.Replace(good, "restart: {command: [/bin/true]}", "restart: {command: [./nope]}", 1))
	if notes, err := Lint(restart); err != nil || len(notes) == 0 || !strings.Contains(strings.Join(notes, "\n"), "causes.restart.command[0]: stat ") {
		t.Errorf("a restart that only a driver which runs already needs: want a note, got %q, %v", notes, err)
	}
	if d, err = Load(restart); err != nil {
		t.Fatal(err)
	}
	if err := d.LintCauses(false); err != nil {
		t.Errorf("a driver that is started here: want its restart let be, got %v", err)
	}
	if err := d.LintCauses(true); err == nil || !strings.Contains(err.Error(), "causes.restart.command[0]: stat ") {
		t.Errorf("a driver that runs: want the program of its restart missed, got %v", err)
	}
	backend := strings.Replace(minimal, "./bin/driver", program, 1)
	if _, err := Lint(write(t, backend)); err == nil || !strings.Contains(err.Error(), "limit: with limit: backend, want a process that is given ${BACKEND}") {
		t.Errorf("want ${BACKEND} missed, got %v", err)
	}
	if _, err := Lint(filepath.Join(t.TempDir(), "none.yaml")); err == nil || !strings.Contains(err.Error(), "none.yaml") {
		t.Errorf("want a file that is not there to be named, got %v", err)
	}
}

// TestDefinitionFile shows that what is no file is refused with a remedy by all who read a definition, and does not hang.
func TestDefinitionFile(t *testing.T) {
	dir := t.TempDir()
	fifo, loop := filepath.Join(dir, "fifo"), filepath.Join(dir, "loop")
	if err := errors.Join(syscall.Mkfifo(fifo, 0o600), os.Symlink("loop", loop)); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		filepath.Join(dir, "none.yaml"): "no such file or directory (remedy: correct the path, or write one with headroom driver init)",
		dir:                             "want a file, got a directory (remedy: name the file itself)",
		fifo:                            "nobody writes into it, or it was read already (remedy: write it to a file, and name that)",
		loop:                            "(remedy: make the link name a file)",
		"/dev/zero":                     "want a file, got one of mode",
	} {
		_, loaded := Load(path)
		_, linted := Lint(path)
		for _, err := range []error{loaded, linted} {
			if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
				t.Errorf("want %s and %q, got %v", path, want, err)
			}
		}
	}
	// What a command writes can be linted: it is read once.
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	program := filepath.Join(dir, "driver")
	text := strings.Replace(own, "/bin/sh", program, 1)
	if err := errors.Join(os.WriteFile(program, []byte("#!/bin/sh\n"), 0o755), func() error { _, err := out.WriteString(text); return err }(), out.Close()); err != nil {
		t.Fatal(err)
	}
	if notes, err := Lint(fmt.Sprintf("/dev/fd/%d", in.Fd())); err != nil || len(notes) != 1 {
		t.Errorf("want what comes out of a pipe linted, got %q, %v", notes, err)
	}
}

func TestDo(t *testing.T) {
	asked := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // what is missing shows
		asked <- r.Method + " " + r.URL.Path + " " + string(body)
		if r.URL.Path == "/no" {
			http.Error(w, "not today", http.StatusConflict)
		}
	}))
	defer server.Close()
	dir := t.TempDir()
	script := filepath.Join(dir, "script")
	if err := os.WriteFile(script, []byte("#!/bin/sh\nset -e\necho \"$@\" > "+dir+"/said\necho at work\n[ \"$1\" != fail ]\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	d := &Definition{Name: "mine", dir: dir}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := d.Do(ctx, Action{HTTP: &HTTPCall{URL: server.URL + "/${NODE_ID}", Body: `{"max": ${LIMIT}}`}}, "n1", 7, 0); err != nil {
		t.Fatal(err)
	}
	if got := <-asked; got != `PUT /n1 {"max": 7}` {
		t.Errorf("got %s", got)
	}
	err := d.Do(ctx, Action{HTTP: &HTTPCall{Method: "POST", URL: server.URL + "/no"}}, "n1", 0, 0)
	if err == nil || !strings.Contains(err.Error(), "409") || !strings.Contains(err.Error(), "not today") {
		t.Errorf("want status and answer, got %v", err)
	}
	if err := d.Do(ctx, Action{Command: []string{"./script", "${NODE_ID}", "${FOREIGN}"}}, "n1", 7, 2); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(dir + "/said"); err != nil || string(got) != "n1 2\n" {
		t.Errorf("got %q, %v", got, err)
	}
	if err := d.Do(ctx, Action{Command: []string{"./script", "fail"}}, "n1", 0, 0); err == nil || !strings.Contains(err.Error(), "at work") {
		t.Errorf("want the output of a command that fails, got %v", err)
	}
	if err := d.Do(ctx, Action{Command: []string{"./none"}}, "n1", 0, 0); err == nil || !strings.Contains(err.Error(), "none") {
		t.Errorf("want the program named that is not there, got %v", err)
	}
	// A command may leave something running that still has its output.
	if err := d.Do(ctx, Action{Command: []string{"/bin/sh", "-c", "sleep 60 & echo $! > " + dir + "/pid"}}, "n1", 0, 0); err != nil {
		t.Errorf("want a command that leaves a process behind to succeed, got %v", err)
	}
	if pid, err := os.ReadFile(dir + "/pid"); err == nil {
		_ = d.Do(ctx, Action{Command: []string{"/bin/kill", strings.TrimSpace(string(pid))}}, "n1", 0, 0)
	}
	cut, stop := context.WithCancel(ctx)
	stop()
	if err := d.Do(cut, Action{Command: []string{"/bin/sleep", "60"}}, "n1", 0, 0); err == nil {
		t.Error("want an interrupted command to fail")
	}
}

// probed is an Identity service that says whether it is ready; nil says nothing.
type probed struct {
	csi.UnimplementedIdentityServer
	ready *wrapperspb.BoolValue
}

func (p probed) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{Ready: p.ready}, nil
}

func TestStartCheck(t *testing.T) {
	dir, err := os.MkdirTemp("", "s")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	serve := func(name string, s *grpc.Server) string {
		l, err := net.Listen("unix", filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		go func() { _ = s.Serve(l) }()
		t.Cleanup(s.Stop)
		return filepath.Join(dir, name)
	}
	ready, unready, terse := grpc.NewServer(), grpc.NewServer(), grpc.NewServer()
	csi.RegisterIdentityServer(ready, probed{ready: wrapperspb.Bool(true)})
	csi.RegisterIdentityServer(unready, probed{ready: wrapperspb.Bool(false)})
	csi.RegisterIdentityServer(terse, probed{})
	sockets := map[string]string{"ready": serve("r", ready), "unready": serve("u", unready), "terse": serve("t", terse), "silent": serve("s", grpc.NewServer()), "none": filepath.Join(dir, "none")}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, c := range []struct {
		socket string
		ready  Readiness
		want   string // "" for ready
	}{
		{"ready", ReadyProbe, ""}, {"ready", ReadySocket, ""}, {"unready", ReadySocket, ""}, {"silent", ReadySocket, ""},
		{"terse", ReadyProbe, ""}, // CSI: without a word it is ready
		{"unready", ReadyProbe, "not ready"}, {"silent", ReadyProbe, "Unimplemented"}, {"none", ReadySocket, "no such file"}, {"none", ReadyProbe, "no such file"},
	} {
		err := Start{Ready: c.ready}.Check(ctx, sockets[c.socket])
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s by %s: want %q, got %v", c.socket, c.ready, c.want, err)
		}
	}
}
