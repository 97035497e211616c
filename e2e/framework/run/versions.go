package run

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"

	"headroom/e2e/framework/binaries"
	"headroom/e2e/framework/report"
	"headroom/e2e/framework/versions"
)

// checkVersions refuses what cannot run, or must not run together.
func (p *plan) checkVersions() error {
	table := versions.Embedded()
	release, err := table.Lookup(p.Kubernetes)
	if err != nil {
		return &InputError{Err: err}
	}
	all, err := release.Of().With(p.Components)
	if err != nil {
		return &InputError{Err: err}
	}
	of := all.Versions()
	for _, component := range versions.Versioned {
		if err := table.Row(component, of[component]); err != nil {
			return &InputError{Err: fmt.Errorf("%s: %w", component, err)}
		}
	}
	for _, component := range slices.Sorted(maps.Keys(p.Gates)) {
		v, known := of[component]
		if !known {
			return &InputError{Err: fmt.Errorf("component %q takes no feature gates; there are %q", component, versions.Versioned)}
		}
		for _, gate := range slices.Sorted(maps.Keys(p.Gates[component])) {
			var bad *versions.GateError
			if err := table.CheckGate(component, v, gate, p.Gates[component][gate]); errors.As(err, &bad) {
				return &InputError{Err: err, Remedy: bad.Remedy()}
			}
		}
	}
	if err := table.Skew.Check(all); err != nil && !p.AllowUnsupportedSkew {
		return &InputError{Err: err, Remedy: "choose other versions, or add --allow-unsupported-skew to see what comes of it"}
	}
	return nil
}

// wanted lists, for each Kubernetes version, which of its components run. etcd is that of the run's own version.
func (p *plan) wanted() map[versions.Version][]string {
	all := map[versions.Version][]string{p.Kubernetes: {"etcd"}}
	for _, component := range versions.Versioned {
		v := p.Kubernetes
		if own, ok := p.Components[component]; ok && component != versions.AttacherComponent {
			v = own
		}
		all[v] = append(all[v], component)
	}
	return all
}

// ensureBinaries gets the executables that run, and no others, and notes their versions in the header.
func (p *plan) ensureBinaries(ctx context.Context) (binaries.Paths, error) {
	paths := binaries.Paths{}
	wanted := p.wanted()
	for _, v := range slices.SortedFunc(maps.Keys(wanted), versions.Version.Compare) {
		got, err := binaries.Ensure(ctx, binaries.Options{
			Cache: p.Cache, Kubernetes: v, Attacher: p.Components[versions.AttacherComponent], Components: wanted[v], From: p.From, Out: p.Out,
		})
		if err != nil {
			return nil, err
		}
		maps.Copy(paths, got)
	}
	for name, b := range paths {
		p.header.Versions[name] = b.Version.String()
	}
	for component, gates := range p.Gates {
		for gate, on := range gates { // as checks look for them: what is not the version's default
			p.header.Versions[component+"/"+gate] = strconv.FormatBool(on)
		}
	}
	return paths, writeJSON(filepath.Join(p.RunDir, report.FileHeader), p.header)
}

// fetch gets a component's executable at another version, for upgrades.
func (p *plan) fetch(ctx context.Context, component string, v versions.Version) (string, error) {
	o := binaries.Options{Cache: p.Cache, Kubernetes: v, Components: []string{component}, From: p.From, Out: p.Out}
	if component == versions.AttacherComponent {
		o.Kubernetes, o.Attacher = p.Kubernetes, v
	}
	paths, err := binaries.Ensure(ctx, o)
	return paths[component].Path, err
}
