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
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"headroom/drivers/personas"
	"headroom/e2e/framework/entry"
	"headroom/e2e/framework/history"
)

//go:embed *.yaml
var builtIn embed.FS

// builtInCommand is the first word of a command that means a program of this binary.
const builtInCommand = "headroom-steady"

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
	Figures     Figures
	// Persona is the mistake that the driver makes on purpose; nil when none is known.
	Persona *personas.Persona

	node, controller []string
	// dir is what a relative program in a command counts from; "" for built-in definitions.
	dir string
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

// Load returns a driver by name, or from a file when nameOrPath has a slash or ends in .yaml or .yml.
func Load(nameOrPath string) (*Definition, error) {
	if strings.Contains(nameOrPath, "/") || strings.HasSuffix(nameOrPath, ".yaml") || strings.HasSuffix(nameOrPath, ".yml") {
		b, err := os.ReadFile(nameOrPath)
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
	d, err := Load("steady")
	if err != nil {
		return nil, err
	}
	d.Name, d.Description, d.Persona = persona.Name, persona.Doc, persona
	d.node = append(d.node, "--persona="+persona.Name)
	d.controller = append(d.controller, "--persona="+persona.Name)
	return d, nil
}

// Files are the files that the definition's commands need, with absolute paths: the programs, where they are given by a path.
func (d *Definition) Files() []string {
	var files []string
	for _, argv := range [][]string{d.node, d.controller} {
		if len(argv) > 0 && strings.Contains(argv[0], "/") {
			files = append(files, d.program(argv[0]))
		}
	}
	return files
}

// program is the path of a command's first word.
func (d *Definition) program(word string) string {
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
	}
}

// HasController reports whether the driver has a controller process. Without one each node's process serves the controller calls for its
// own node, and whoever calls must route them by node id.
func (d *Definition) HasController() bool { return len(d.controller) > 0 }

// NodeCommand is the process to run on a node. Its environment, output and process attributes are the caller's to set.
func (d *Definition) NodeCommand(i Instance) (*exec.Cmd, error) {
	if i.NodeID == "" {
		return nil, fmt.Errorf("driver %q: node command: want a node id", d.Name)
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

func (d *Definition) command(argv []string, i Instance) (*exec.Cmd, error) {
	if i.Endpoint == "" || i.DriverName == "" {
		return nil, fmt.Errorf("driver %q: want an endpoint and a driver name, got %q and %q", d.Name, i.Endpoint, i.DriverName)
	}
	values := d.values(i)
	words := make([]string, len(argv))
	for n, word := range argv {
		out, err := expand(word, values)
		if err != nil {
			return nil, fmt.Errorf("driver %q: %w", d.Name, err)
		}
		words[n] = out
	}
	if words[0] == builtInCommand {
		return entry.Command(steadyProgram, words[1:]...), nil
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

func placeholders(values map[string]string) string {
	names := make([]string, 0, len(values))
	for name := range values {
		names = append(names, "${"+name+"}")
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}
