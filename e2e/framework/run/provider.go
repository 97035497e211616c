package run

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"headroom/drivers"
	"headroom/e2e/framework/binaries"
	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/cluster/kind"
	"headroom/e2e/framework/cluster/local"
	"headroom/e2e/framework/report"
	"headroom/e2e/framework/scenario"
	"headroom/e2e/framework/versions"
)

// Providers are what Options.Provider may be; the first is the default.
var Providers = []string{"local", "kind"}

// checkProvider fills the provider in, and refuses a topology for one that has none.
func (p *plan) checkProvider() (err error) {
	if p.Provider == "" {
		p.Provider = Providers[0]
	}
	if !slices.Contains(Providers, p.Provider) {
		return &cluster.InputError{Err: fmt.Errorf("no provider %q; there are: %s", p.Provider, strings.Join(Providers, ", "))}
	}
	if p.Provider != "kind" {
		if p.Topology != "" {
			return &cluster.InputError{Err: fmt.Errorf("topology %q: provider %s makes the nodes that each spec asks for", p.Topology, p.Provider), Remedy: "leave it out, or choose --provider kind"}
		}
		if !p.definition.HasProcess() {
			return &cluster.InputError{
				Err:    fmt.Errorf("driver %q: its definition has pods and no node.command: provider %s starts processes", p.definition.Name, p.Provider),
				Remedy: "add node.command, and controller.command where there is one, or choose --provider kind",
			}
		}
		return nil
	}
	if p.definition.HasPods() {
		if _, err := p.definition.LintPods(); err != nil {
			return &cluster.InputError{Err: err}
		}
	}
	if len(p.Later) > 0 || p.NewDriver != "" {
		return &cluster.InputError{Err: errors.New("provider kind: versions do not change while a cluster runs"), Remedy: "choose --provider local"}
	}
	if len(p.Components)+len(p.Gates) > 0 {
		return &cluster.InputError{
			Err:    errors.New("provider kind: a node runs one version of Kubernetes with the gates of its configuration: no single component can be chosen"),
			Remedy: "give workers of another version in a --topology, or choose --provider local",
		}
	}
	if p.Topology == "" {
		p.Topology = kind.DefaultTopology
	}
	if p.topology, err = kind.LoadTopology(p.Topology); err != nil {
		return &cluster.InputError{Err: err}
	}
	if err := p.topology.Check(p.Kubernetes); err != nil {
		return &cluster.InputError{Err: err}
	}
	return nil
}

// newProvider gets what the provider needs of this machine, and notes the versions of components in the header.
func (p *plan) newProvider(ctx context.Context) (cluster.Provider, error) {
	if p.Provider == "kind" {
		return p.kind()
	}
	paths, err := p.ensureBinaries(ctx)
	if err != nil {
		return nil, err
	}
	return p.local(paths)
}

func (p *plan) kind() (cluster.Provider, error) {
	provider, err := kind.New(kind.Options{
		Run: p.run, RunDir: p.RunDir, Topology: p.topology, Drivers: map[string]string{p.definition.Name: p.reference}, Seed: p.Seed, Scale: p.Scale, Port: p.Port,
		Cache: p.Cache, From: p.From, Out: p.Out,
	})
	if err != nil {
		return nil, &cluster.InputError{Err: err}
	}
	release, err := versions.Lookup(p.Kubernetes)
	if err != nil {
		return nil, err
	}
	p.header.Versions = provider.Versions(release)
	return provider, writeJSON(filepath.Join(p.RunDir, report.FileHeader), p.header)
}

// equipped is a cluster that knows only once it is there which executables of its components this machine has.
type equipped interface{ Executables() map[string]string }

// attach reaches the cluster of a run that another process made.
func attach(ctx context.Context, dir string, info joinInfo) (cluster.Cluster, error) {
	if info.Header.Provider == "kind" {
		return kind.Attach(info.Cluster)
	}
	return local.Attach(ctx, local.Options{RunDir: dir}, info.Cluster)
}

// local is the local provider with this run's executables.
func (p *plan) local(paths binaries.Paths) (cluster.Provider, error) {
	o := local.Options{
		Run: p.run, RunDir: p.RunDir, Seed: p.Seed, Port: p.Port, Binaries: local.Binaries{}, Versions: map[string]versions.Version{},
		Drivers: map[string]string{p.definition.Name: p.reference}, Fetch: p.fetch, Gates: p.Gates,
		Scale: p.Scale, NodeLease: p.NodeLease,
	}
	if p.Figures != (scenario.Figures{}) {
		o.Figures = map[string]drivers.Figures{p.definition.Name: p.definition.Figures}
	}
	if p.newRelease != "" {
		key := p.definition.Name + "/2"
		o.Drivers[key], o.NewRelease = p.newRelease, map[string]string{p.definition.Name: key}
		if p.Figures != (scenario.Figures{}) {
			o.Figures[key] = p.definition.Figures
		}
	}
	p.executables = map[string]string{}
	for name, b := range paths {
		p.executables[name] = b.Path
		o.Binaries[name] = map[versions.Version]string{b.Version: b.Path}
		o.Versions[name] = b.Version
	}
	for name, byVersion := range p.later {
		for v, path := range byVersion {
			o.Binaries[name][v] = path
		}
	}
	return local.New(o)
}
