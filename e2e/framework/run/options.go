// Package run is the engine: it makes a run's cluster, watches it, lends parts of it to specs, and judges the history at the end.
//
// Contract: a Session is one run in one run directory. Start makes it and Finish ends it, whatever happened between; other processes of the same
// run Join it. Phases follow each other: create, steady, faults, heal, quiesce, collect, check. Whatever fails on the harness's side is a
// *cluster.EnvironmentError, never a verdict on the product.
//
// It does not say what is required: requirements and invariants do.
package run

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	mathrand "math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"headroom/drivers"
	"headroom/e2e/framework/binaries"
	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/cluster/kind"
	"headroom/e2e/framework/cluster/local"
	"headroom/e2e/framework/history"
	"headroom/e2e/framework/scenario"
	"headroom/e2e/framework/versions"
)

// DefaultSlack is what is added to every bound.
const DefaultSlack = 2 * time.Second

// DefaultDriver is the driver under test where none is named.
const DefaultDriver = "steady"

// Options say what to run.
type Options struct {
	// RunDir is where the run is recorded; it must be empty or not exist. "" means a new directory below runs/.
	RunDir string
	// Driver is the driver under test: a built-in's or persona's name, or a path.
	Driver string
	// Provider is one of Providers; "" means the first.
	Provider string
	// Topology names a kind cluster's nodes, or is a path to a file; "" means the provider's default.
	Topology string
	// Kubernetes is the version of every component that Components does not name; zero means the newest that is supported by default.
	Kubernetes versions.Version
	// Components are versions of single components, and Gates their feature gates.
	Components map[string]versions.Version
	Gates      map[string]map[string]bool
	// Later are Kubernetes versions that components will be swapped to; their gates are checked and their executables got with the others.
	Later []versions.Version
	// NewDriver is the definition that plays the driver's releases from 2 on; "" means that the driver plays them itself.
	NewDriver string
	// NodeLease is how long a kubelet's lease is good for; 0 means the kubelet's default.
	NodeLease time.Duration
	// AllowUnsupportedSkew runs versions together that the Kubernetes version skew policy does not support.
	AllowUnsupportedSkew bool
	// From says where binaries come from that the cache does not have.
	From binaries.Origin
	// Figures override what the driver declares of its policy; zero ones stay.
	Figures scenario.Figures
	// Cache is the root of the binaries' cache; "" means the user's.
	Cache string
	// Seed drives all random choices; 0 means a new one.
	Seed int64
	// Port is the API server's port on the host; 0 means any.
	Port int
	// Scale stretches what is waited for and allowed, for drivers under a debugger; 0 means 1. Kubernetes' own constants stay what they are.
	Scale float64
	// Out receives progress.
	Out io.Writer
}

// stretch is d, longer by a factor.
func stretch(d time.Duration, scale float64) time.Duration { return time.Duration(float64(d) * scale) }

// plan is Options, checked and filled in.
type plan struct {
	Options
	run        string
	definition *drivers.Definition
	topology   kind.Topology
	reference  string // what drivers.Load takes, with an absolute path
	newRelease string // the same for NewDriver, "" where it is the driver itself
	header     history.Header
	// executables are those of the local provider's components, by name.
	executables map[string]string
	// dirMade says that the run directory was not there before.
	dirMade bool
	// later are those of the versions that components will be swapped to.
	later local.Binaries
}

// Check refuses what Start would refuse before it starts anything, but for a run directory that cannot be used. Its errors are *cluster.InputError.
func Check(o Options) error {
	_, err := check(o)
	return err
}

// prepare checks everything that can be checked before anything starts, and makes the run directory last.
func prepare(o Options) (*plan, error) {
	p, err := check(o)
	if err != nil {
		return nil, err
	}
	_, err = os.Stat(p.RunDir)
	p.dirMade = errors.Is(err, fs.ErrNotExist)
	return p, MakeRunDir(p.RunDir)
}

func check(o Options) (*plan, error) {
	if o.Out == nil {
		o.Out = io.Discard
	}
	if o.Driver == "" {
		o.Driver = DefaultDriver
	}
	p := &plan{Options: o}
	var err error
	if p.definition, err = drivers.Load(o.Driver); err != nil {
		return nil, &cluster.InputError{Err: err}
	}
	if p.reference, err = absolute(o.Driver, p.definition); err != nil {
		return nil, &cluster.InputError{Err: err}
	}
	if err := p.checkNewDriver(); err != nil {
		return nil, err
	}
	if p.definition.Figures, err = Override(p.definition.Figures, o.Figures); err != nil {
		return nil, &cluster.InputError{Err: err, Remedy: "correct driver.figures of the scenario"}
	}
	if o.Kubernetes == "" {
		p.Kubernetes = versions.Default().Version
	}
	if err := p.checkVersions(); err != nil {
		return nil, err
	}
	if err := p.From.Check(); err != nil {
		return nil, &cluster.InputError{Err: err}
	}
	if err := p.checkProvider(); err != nil {
		return nil, err
	}
	if p.Provider == Providers[0] && drivers.IsFile(o.Driver) { // elsewhere its commands are not this machine's
		if err := p.definition.LintProcesses(); err != nil {
			return nil, &cluster.InputError{Err: err}
		}
	}
	if o.Scale == 0 {
		p.Scale = 1
	} else if !drivers.GoodScale(o.Scale) {
		return nil, &cluster.InputError{Err: fmt.Errorf("timeout scale %g: want 1 to %d", o.Scale, drivers.MaxScale)}
	}
	if o.Seed == 0 {
		p.Seed = int64(mathrand.Uint32()) + 1 // short enough to type
	}
	id := make([]byte, 4)
	if _, err := rand.Read(id); err != nil {
		return nil, err
	}
	p.run = time.Now().UTC().Format("20060102-150405") + "-" + hex.EncodeToString(id)
	if o.RunDir == "" {
		p.RunDir = filepath.Join("runs", p.run)
	}
	if p.RunDir, err = filepath.Abs(p.RunDir); err != nil {
		return nil, &cluster.InputError{Err: err}
	}
	p.header = history.Header{
		Schema: history.Schema, Run: p.run, Seed: p.Seed, Provider: p.Provider, Topology: p.topology.Name, Versions: map[string]string{},
		Params: history.Params{Slack: history.Duration(stretch(DefaultSlack, p.Scale)), Driver: p.definition.Params()},
	}
	return p, nil
}

// absolute is what drivers.Load takes for a definition wherever it is called.
func absolute(nameOrPath string, d *drivers.Definition) (string, error) {
	if _, err := os.Stat(nameOrPath); err == nil && d.Name != nameOrPath {
		return filepath.Abs(nameOrPath)
	}
	return nameOrPath, nil
}

// checkNewDriver loads the driver's new release. It must have the same processes as the old one.
func (p *plan) checkNewDriver() error {
	if p.NewDriver == "" || p.NewDriver == p.Driver {
		return nil
	}
	to, err := drivers.Load(p.NewDriver)
	if err != nil {
		return &cluster.InputError{Err: err}
	}
	if to.HasController() != p.definition.HasController() {
		return &cluster.InputError{Err: fmt.Errorf("driver %q has a controller of its own: %t, and its new release %q: %t; want the same of both", p.definition.Name, p.definition.HasController(), to.Name, to.HasController())}
	}
	if to.Dynamic() != p.definition.Dynamic() {
		return &cluster.InputError{
			Err:    fmt.Errorf("driver %q has dynamic volumes: %t, and its new release %q: %t", p.definition.Name, p.definition.Dynamic(), to.Name, to.Dynamic()),
			Remedy: "write the same volumes.provisioning into both definitions",
		}
	}
	p.newRelease, err = absolute(p.NewDriver, to)
	if err != nil {
		return &cluster.InputError{Err: err}
	}
	return nil
}

// MakeRunDir makes an empty run directory, or takes an empty one. Its errors are *cluster.InputError.
func MakeRunDir(dir string) error {
	fresh := "give an empty or a new directory with --run-dir"
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return &cluster.InputError{Err: fmt.Errorf("run directory %s cannot be made: %w", dir, err), Remedy: fresh}
		}
	case err != nil:
		return &cluster.InputError{Err: fmt.Errorf("run directory: %w", err), Remedy: fresh}
	case len(entries) > 0:
		return &cluster.InputError{Err: fmt.Errorf("run directory %s is not empty: it holds %q", dir, entries[0].Name()), Remedy: fresh}
	}
	probe, err := os.CreateTemp(dir, ".writable-*")
	if err != nil {
		return &cluster.InputError{Err: fmt.Errorf("run directory %s cannot be written: %w", dir, err), Remedy: fresh}
	}
	return errors.Join(probe.Close(), os.Remove(probe.Name()))
}
