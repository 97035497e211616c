// Package drivers knows the drivers under test: what they declare of themselves and how to start them.
//
// Contract: a driver is one YAML file, read strictly. "steady" and its personas are built in; anything else is a path. A Definition makes
// commands; it starts nothing, and it does not check that what a driver declares is true, which is what the suite is for.
package drivers

import (
	"cmp"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"headroom/drivers/gate/bridge"
	"headroom/drivers/personas"
	"headroom/drivers/steady"
	"headroom/drivers/steady/policy"
	"headroom/e2e/framework/entry"
	"headroom/e2e/framework/history"
	"headroom/e2e/framework/input"
	"headroom/fixtures/quota"
)

//go:embed *.yaml manifests/*.yaml
var builtIn embed.FS

// builtInPrograms are first words of commands that mean programs of this binary.
var builtInPrograms = map[string]string{"headroom-steady": steadyProgram, "headroom-hostpathlike": hostpathProgram}

// Figures are what a driver declares of its policy.
type Figures struct {
	// MinInterval is the least time between two backend queries of a node.
	MinInterval time.Duration
	// CacheAge is how old an answer may be while the backend answers.
	CacheAge time.Duration
	// LastGoodLife is how long the last good value may be reported while it does not.
	LastGoodLife time.Duration
	// Step is how many volumes an answer may rise by per StepInterval; 0 means not limited.
	Step         int64
	StepInterval time.Duration
}

// Definition is a driver under test.
type Definition struct {
	// Name is "steady", a persona's name, or the name in the file.
	Name        string
	Description string
	// Limit is where the driver's limit comes from.
	Limit LimitSource
	// NodeIDs is who chooses node ids.
	NodeIDs NodeIDs
	Figures Figures
	// Volumes are what driver check attaches.
	Volumes Volumes
	// volumesGiven says that the file has static volumes.
	volumesGiven bool
	// Causes are how driver check brings about what it cannot cause from outside.
	Causes Causes
	// Persona is the mistake that the driver makes on purpose; nil when none is known.
	Persona *personas.Persona

	node, controller process
	// pods is nil where the definition has none.
	pods *podsRun
	// file and text are what was decoded.
	file string
	text []byte
	// dir is what a relative program in a command counts from; "" for built-in definitions.
	dir string
}

// process is a process of the driver: how it is started, and how it shows that it has.
type process struct {
	words []string
	env   map[string]string
	start Start
}

// Instance is one process to start.
type Instance struct {
	// Endpoint is the socket to serve on, unix:///path.
	Endpoint   string
	DriverName string
	// NodeID and StateDir may be empty for a controller.
	NodeID string
	Zone   string
	// StateDir is the instance's own; it keeps it over restarts.
	StateDir string
	// Backend is the base URL of the quota backend's data API.
	Backend string
	Seed    int64
	// Release is which release of the driver to play, for upgrades and rollbacks; "" means the first.
	Release string
	// Limit is how many volumes the node shall take, for drivers that are given it at their start.
	Limit int64
}

// Names lists what Load knows without a file: the built-in definitions and the personas.
func Names() []string {
	files, err := fs.Glob(builtIn, "*.yaml")
	if err != nil {
		panic(fmt.Sprintf("drivers: %v", err)) // the pattern is a constant
	}
	names := personas.Names()
	for _, f := range files {
		names = append(names, strings.TrimSuffix(f, ".yaml"))
	}
	slices.Sort(names)
	return names
}

// IsFile says whether Load reads a file: nameOrPath has a slash or ends in .yaml or .yml.
func IsFile(nameOrPath string) bool {
	return strings.Contains(nameOrPath, "/") || strings.HasSuffix(nameOrPath, ".yaml") || strings.HasSuffix(nameOrPath, ".yml")
}

// definitionRemedy is what to do where there is no definition.
const definitionRemedy = "correct the path, or write one with headroom driver init"

// Load returns a driver by name, or from a file.
func Load(nameOrPath string) (*Definition, error) {
	if IsFile(nameOrPath) {
		b, err := input.Read(nameOrPath, definitionRemedy)
		if err != nil {
			return nil, fmt.Errorf("driver definition: %w", err)
		}
		d, err := decode(nameOrPath, b)
		if err != nil {
			return nil, err
		}
		d.dir, err = filepath.Abs(filepath.Dir(nameOrPath))
		return d, err
	}
	b, err := builtIn.ReadFile(nameOrPath + ".yaml")
	if err == nil {
		return decode(nameOrPath+".yaml", b)
	}
	persona, err := personas.Find(nameOrPath)
	if err != nil {
		return nil, fmt.Errorf("no driver %q; there are: %s; or give a path to a .yaml file", nameOrPath, strings.Join(Names(), ", "))
	}
	reference := "steady"
	if persona.Dynamic {
		reference = "steady-dynamic"
	}
	d, err := Load(reference)
	if err != nil {
		return nil, err
	}
	d.Name, d.Description, d.Persona = persona.Name, persona.Doc, persona
	d.node.words = append(d.node.words, "--persona="+persona.Name)
	d.controller.words = append(d.controller.words, "--persona="+persona.Name)
	return d, nil
}

// Files are the files that the definition's commands need, with absolute paths: the programs, where they are given by a path.
func (d *Definition) Files() []string {
	var files []string
	for _, p := range []process{d.node, d.controller} {
		if len(p.words) == 0 {
			continue
		}
		if path := d.program(p.words[0]); strings.Contains(path, "/") {
			files = append(files, path)
		}
	}
	return files
}

// hostpathVariable names the variable that puts a real hostpathplugin in the place of its stand-in.
const hostpathVariable = "HOSTPATHPLUGIN"

// program is the path of a command's first word.
func (d *Definition) program(word string) string {
	if plugin := os.Getenv(hostpathVariable); plugin != "" && builtInPrograms[word] == hostpathProgram {
		return plugin
	}
	if d.dir != "" && strings.Contains(word, "/") && !filepath.IsAbs(word) {
		return filepath.Join(d.dir, word)
	}
	return word
}

// Params are the declared figures as checks use them.
func (d *Definition) Params() history.DriverParams {
	return history.DriverParams{
		Name:         d.Name,
		MinInterval:  history.Duration(d.Figures.MinInterval),
		CacheAge:     history.Duration(d.Figures.CacheAge),
		LastGoodLife: history.Duration(d.Figures.LastGoodLife),
		Step:         d.Figures.Step,
		StepInterval: history.Duration(d.Figures.StepInterval),
		Limit:        d.source(),
		Releases:     d.Uses("RELEASE"),
		Dynamic:      d.Dynamic(),
		Parameters:   d.parameters(),
	}
}

// Dynamic says whether external-provisioner makes the volumes of claims.
func (d *Definition) Dynamic() bool { return d.Volumes.Provisioning == Dynamic }

// parameters are those of the driver's StorageClass, where it has one.
func (d *Definition) parameters() map[string]string {
	if !d.Dynamic() {
		return nil
	}
	return d.Volumes.Parameters
}

// source is where the limit comes from, as a history's header says it.
func (d *Definition) source() string {
	switch {
	case d.Limit == LimitBackend:
		return ""
	case d.Limit == LimitFixed && d.Uses("LIMIT"):
		return history.LimitStart
	}
	return string(d.Limit)
}

// Bridged says whether the driver lacks something that the gate before it gives.
func (d *Definition) Bridged() bool {
	return d.Limit != LimitBackend || d.volumesGiven || d.NodeIDs == NodeIDsOwn
}

// Bridge is the stage that gives the driver what it lacks, before the instance given: a node's, or a controller when it has no NodeID. state is a
// directory of the bridge's own on a node. The policy it comes with, if any, is to be run.
func (d *Definition) Bridge(i Instance, state string, logf func(format string, args ...any)) (*bridge.Bridge, *policy.Policy, error) {
	o := bridge.Options{
		Node: i.NodeID, Volumes: d.Limit != LimitBackend || d.volumesGiven, NodeIDs: d.NodeIDs == NodeIDsOwn,
		Parameters: d.Volumes.Parameters, Context: d.Volumes.Context,
	}
	if d.Limit != LimitGate {
		return bridge.New(o), nil, nil
	}
	backend := quota.NewClient(i.Backend, "gate/"+i.NodeID)
	o.Backend = backend
	if i.NodeID == "" {
		return bridge.New(o), nil, nil
	}
	var b *bridge.Bridge
	var err error
	o.Policy, err = steady.Capacity(state, i.Seed, policy.Options{
		Node: i.NodeID, Backend: backend, Logf: logf, Attachments: func() int64 { return b.Attachments() },
		Config: policy.Config{
			MinInterval: d.Figures.MinInterval, CacheAge: d.Figures.CacheAge, LastGoodLife: d.Figures.LastGoodLife,
			Step: d.Figures.Step, StepInterval: d.Figures.StepInterval,
		},
	})
	if err != nil {
		return nil, nil, err
	}
	b = bridge.New(o)
	return b, o.Policy, nil
}

// HasController reports whether the driver has a controller process. Without one each node's process serves the controller calls for its
// own node, and whoever calls must route them by node id.
func (d *Definition) HasController() bool { return len(d.controller.words) > 0 }

// HasEnv reports whether a process of the driver needs variables of its own.
func (d *Definition) HasEnv() bool { return len(d.node.env)+len(d.controller.env) > 0 }

// Uses reports whether a process of the driver is given a placeholder, such as BACKEND.
func (d *Definition) Uses(placeholder string) bool {
	return d.node.uses(placeholder) || d.controller.uses(placeholder)
}

func (p process) uses(placeholder string) bool {
	texts := slices.Concat(p.words, slices.Collect(maps.Values(p.env)))
	return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(text, "${"+placeholder+"}") })
}

// NodeCommand is the process to run on a node. Its output and process attributes are the caller's to set.
func (d *Definition) NodeCommand(i Instance) (*exec.Cmd, error) {
	if i.NodeID == "" {
		return nil, fmt.Errorf("driver %q: node command: want a node id", d.Name)
	}
	if !d.HasProcess() {
		return nil, d.errNoProcess()
	}
	return d.command(d.node, i)
}

// ControllerCommand is the controller process. It is an error to ask for one that HasController denies.
func (d *Definition) ControllerCommand(i Instance) (*exec.Cmd, error) {
	if !d.HasController() {
		return nil, fmt.Errorf("driver %q has no controller command: its node processes serve controller calls", d.Name)
	}
	return d.command(d.controller, i)
}

func (d *Definition) command(p process, i Instance) (*exec.Cmd, error) {
	if i.Endpoint == "" || i.DriverName == "" {
		return nil, fmt.Errorf("driver %q: want an endpoint and a driver name, got %q and %q", d.Name, i.Endpoint, i.DriverName)
	}
	values := d.values(i)
	words, err := expandAll(p.words, values)
	if err != nil {
		return nil, fmt.Errorf("driver %q: %w", d.Name, err)
	}
	cmd, err := d.executable(words)
	if err != nil || len(p.env) == 0 {
		return cmd, err
	}
	cmd.Env = os.Environ()
	for _, name := range slices.Sorted(maps.Keys(p.env)) {
		value, err := expand(p.env[name], values)
		if err != nil {
			return nil, fmt.Errorf("driver %q: variable %s: %w", d.Name, name, err)
		}
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	return cmd, nil
}

// executable is a command of words in which nothing is left to replace.
func (d *Definition) executable(words []string) (*exec.Cmd, error) {
	if program, ok := builtInPrograms[words[0]]; ok && d.program(words[0]) == words[0] {
		return entry.Command(program, words[1:]...), nil
	}
	cmd := exec.Command(d.program(words[0]), words[1:]...)
	if cmd.Err != nil {
		return nil, fmt.Errorf("driver %q: program %q: %w", d.Name, words[0], cmd.Err)
	}
	return cmd, nil
}

// values are the placeholders that a command may have.
func (d *Definition) values(i Instance) map[string]string {
	return map[string]string{
		"ENDPOINT": i.Endpoint, "DRIVER_NAME": i.DriverName, "NODE_ID": i.NodeID, "ZONE": i.Zone, "STATE_DIR": i.StateDir, "BACKEND": i.Backend,
		"LIMIT":          strconv.FormatInt(i.Limit, 10),
		"SEED":           strconv.FormatInt(i.Seed, 10),
		"RELEASE":        cmp.Or(i.Release, "1"),
		"MIN_INTERVAL":   d.Figures.MinInterval.String(),
		"CACHE_AGE":      d.Figures.CacheAge.String(),
		"LAST_GOOD_LIFE": d.Figures.LastGoodLife.String(),
		"STEP":           strconv.FormatInt(d.Figures.Step, 10),
		"STEP_INTERVAL":  d.Figures.StepInterval.String(),
	}
}

// errPlaceholder marks a command word with a placeholder that means nothing.
var errPlaceholder = errors.New("placeholder")

// expand replaces ${NAME} in word. What is put in is not looked at again.
func expand(word string, values map[string]string) (string, error) {
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(word, "${")
		out.WriteString(before)
		if !found {
			return out.String(), nil
		}
		name, after, closed := strings.Cut(rest, "}")
		value, known := values[name]
		if !closed || !known {
			return "", fmt.Errorf("%w ${%s: want one of %s", errPlaceholder, rest, placeholders(values))
		}
		out.WriteString(value)
		word = after
	}
}

// expandAll is expand for each word.
func expandAll(words []string, values map[string]string) ([]string, error) {
	out := make([]string, len(words))
	for i, word := range words {
		var err error
		if out[i], err = expand(word, values); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func placeholders(values map[string]string) string {
	names := make([]string, 0, len(values))
	for name := range values {
		names = append(names, "${"+name+"}")
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}
