package drivers

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"

	"headroom/e2e/framework/input"
	"headroom/e2e/framework/strict"
)

// Template is a definition to start from, for a driver of that name.
func Template(name string) ([]byte, error) {
	if !nameForm.MatchString(name) {
		return nil, fmt.Errorf("name %q: want at most 32 lower-case letters, digits and dashes", name)
	}
	text, err := yaml.Marshal(name) // in quotes where YAML takes it for something else, such as true, 5 or 1e3
	if err != nil {
		return nil, fmt.Errorf("name %q: %w", name, err)
	}
	return fmt.Appendf(nil, template, name, bytes.TrimSpace(text)), nil
}

const template = `# A driver under test. After filling it in: headroom driver lint, headroom driver check --driver, headroom run --driver <this file>.
apiVersion: headroom/v1alpha1
kind: Driver
name: %[2]s
limit: backend          # where its limit comes from: backend (Headroom's, at ${BACKEND}), gate (it has none), own (its own service), fixed (${LIMIT})
figures:                # what the driver promises; the checks measure against it
  minInterval: 1s       # least time between two quota queries of a node
  cacheAge: 2s          # oldest answer while the quota service answers; at least minInterval
  lastGoodLife: 30s     # oldest answer while it does not; at least cacheAge
  # step: 2             # largest rise per stepInterval; leave both out when rises are not limited
  # stepInterval: 10s
node:                   # one process per node; a program with a slash counts from this file
  command: [./%[1]s, "--endpoint=${ENDPOINT}", "--drivername=${DRIVER_NAME}", "--nodeid=${NODE_ID}", "--backend=${BACKEND}"]
  # env: {LOG_LEVEL: debug, STATE: "${STATE_DIR}"}
  # ready: probe        # wait until Probe says ready; socket (the default) waits until it listens
# controller:           # one process per cluster; without it each node's process serves controller calls for its own node
#   command: [./%[1]s, --controller, "--endpoint=${ENDPOINT}", "--drivername=${DRIVER_NAME}", "--backend=${BACKEND}"]
# pods:                 # on kind: your own manifests
#   {manifests: [d.yaml], node: {workload: DaemonSet/n, container: d, socket: /csi/csi.sock}, controller: {workload: Deployment/c, container: d, socket: /csi/csi.sock}}
# volumes: {provisioning: dynamic, parameters: {type: fast}} # of a StorageClass: external-provisioner makes them; or static, or handles: [vol-1, ...]
# causes:               # with limit: own, how driver check changes what the driver sees: a command, or an http call
#   limit: {http: {url: "http://127.0.0.1:9000/nodes/${NODE_ID}", body: '{"max": ${LIMIT}}'}}
#   outage: {begin: {command: [./quota, stop]}, end: {command: [./quota, start]}}
`

// Lint reads the definition in a file and says all that is wrong with it: what Load refuses, and what would only show once the driver is started. notes
// are what is right and has a price: checks that will be skipped.
func Lint(path string) (notes []string, err error) {
	data, err := input.Read(path, definitionRemedy)
	if err != nil {
		return nil, fmt.Errorf("driver definition: %w", err)
	}
	def, f := read(path, data)
	if def == nil {
		return nil, f.Err()
	}
	if def.dir, err = filepath.Abs(filepath.Dir(path)); err != nil {
		return nil, err
	}
	sound := f.Err() == nil
	def.lint(f)
	def.lintCauses(f, false)
	if def.HasPods() && sound {
		err = def.lintPods(f)
	}
	if err := errors.Join(f.Err(), err); err != nil {
		return nil, err
	}
	notes = def.notes()
	if def.HasPods() {
		more, err := def.podNotes()
		return append(notes, more...), err
	}
	return notes, nil
}

// LintProcesses is Lint of what starts the driver's processes, for those who need no more.
func (d *Definition) LintProcesses() error {
	_, f := read(d.file, d.text)
	d.lint(f)
	return f.Err()
}

// lint looks at what a definition means on this machine.
func (d *Definition) lint(f *strict.File) {
	if !d.HasProcess() {
		return
	}
	processes := map[string]process{"node": d.node}
	if d.HasController() {
		processes["controller"] = d.controller
	}
	for at, p := range processes {
		d.lintProgram(f, at+".command[0]", p.words)
		if !p.uses("DRIVER_NAME") {
			f.Fail(at+".command", "pass it, such as --drivername=${DRIVER_NAME}", "has no ${DRIVER_NAME}: several drivers run at once, under names of their own")
		}
	}
	if !d.node.uses("NODE_ID") && d.NodeIDs == NodeIDsGiven {
		f.Fail("node.command", "pass it, such as --nodeid=${NODE_ID}, or write nodeIDs: own", "has no ${NODE_ID}: every node would have the same")
	}
	if d.Limit == LimitBackend && !d.Uses("BACKEND") {
		f.Fail("limit", "pass ${BACKEND} to a process, or write limit: gate, own or fixed", "with limit: backend, want a process that is given ${BACKEND}")
	}
}

// LintCauses says which of the programs that causes name are not there to be run. runs says that the driver runs already: only such a one is restarted by a
// cause.
func (d *Definition) LintCauses(runs bool) error {
	_, f := read(d.file, d.text)
	d.lintCauses(f, runs)
	return f.Err()
}

func (d *Definition) lintCauses(f *strict.File, runs bool) {
	for _, c := range d.Causes.all() {
		if c.action != nil && len(c.action.Command) > 0 && (runs || c.action != d.Causes.Restart) {
			d.lintProgram(f, "causes."+c.name+".command[0]", c.action.Command)
		}
	}
}

// lintProgram looks for the program of a command on this machine.
func (d *Definition) lintProgram(f *strict.File, field string, words []string) {
	if remedy, err := d.missing(words); err != nil {
		f.Fail(field, remedy, "%v", err)
	}
}

// missing says why the program of a command cannot be run on this machine.
func (d *Definition) missing(words []string) (remedy string, err error) {
	if words[0] == "" || strings.Contains(words[0], "${") {
		return "", nil // a problem already, or known only once it is called
	}
	if _, err := d.executable(words); err != nil {
		return "install it, or give its path", err
	}
	path := d.program(words[0])
	if path == words[0] && !filepath.IsAbs(path) {
		return "", nil
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return "build it, or correct the path", err
	case info.IsDir() || info.Mode()&0o111 == 0:
		return "name the program itself, and make it executable", fmt.Errorf("%s cannot be executed: %s", path, info.Mode())
	}
	return "", nil
}

// notes say which checks a definition gives up.
func (d *Definition) notes() (notes []string) {
	switch d.Limit {
	case LimitGate:
		notes = append(notes, "limit: gate: what is judged of a limit is the gate's, and does not count for the driver")
	case LimitFixed:
		notes = append(notes, "limit: fixed: the checks of a limit that changes, and of its service's outages, do not apply")
		if d.HasProcess() && !d.Uses("LIMIT") {
			notes = append(notes, "no process is given ${LIMIT}: of the specs of a cluster that need a limit of their choice, none applies")
		}
	case LimitOwn:
		for _, c := range []struct {
			name  string
			given bool
		}{
			{"limit", d.Causes.Limit != nil}, {"foreign", d.Causes.Foreign != nil}, {"outage", d.Causes.Outage != nil}, {"throttled", d.Causes.Throttled != nil},
		} {
			if !c.given {
				notes = append(notes, "causes."+c.name+" is not given: driver check skips what needs it, and its result is partial")
			}
		}
	}
	if c := d.Causes.Restart; c != nil && len(c.Command) > 0 {
		if _, err := d.missing(c.Command); err != nil {
			notes = append(notes, fmt.Sprintf("causes.restart.command[0]: %v: driver check --socket would refuse it here", err))
		}
	}
	if d.HasProcess() && !d.Uses("STATE_DIR") && d.Limit != LimitGate {
		notes = append(notes, "no process is given ${STATE_DIR}: a driver that is restarted in an outage has no last good value")
	}
	return notes
}
