package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"

	"headroom/drivers"
	"headroom/e2e/framework/binaries"
	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/cluster/local"
	"headroom/e2e/framework/report"
	"headroom/e2e/framework/versions"
)

// Ran is what a run with these options has in its header: versions by component, and the gates that were set. The error is a *cluster.InputError.
func Ran(o Options) (map[string]string, error) {
	if o.Kubernetes == "" {
		o.Kubernetes = versions.Default().Version
	}
	all, err := o.combination()
	if err != nil {
		return nil, err
	}
	ran := all.Ran()
	maps.Copy(ran, gateValues(o.Gates))
	return ran, nil
}

// combination is the versions that run together; Kubernetes is filled in.
func (o Options) combination() (versions.Combination, error) {
	release, err := versions.Lookup(o.Kubernetes)
	if err != nil {
		return versions.Combination{}, &cluster.InputError{Err: err}
	}
	all, err := release.Of().With(o.Components)
	if err != nil {
		return all, &cluster.InputError{Err: err}
	}
	return all, nil
}

// gateValues are gates as a header has them, and as checks look for them: what is not the version's default.
func gateValues(all map[string]map[string]bool) map[string]string {
	values := map[string]string{}
	for component, gates := range all {
		for gate, on := range gates {
			values[component+"/"+gate] = strconv.FormatBool(on)
		}
	}
	return values
}

// checkVersions refuses what cannot run, or must not run together.
func (p *plan) checkVersions() error {
	table := versions.Embedded()
	all, err := p.combination()
	if err != nil {
		return err
	}
	of := all.Versions()
	for _, component := range versions.Versioned {
		if err := table.Row(component, of[component]); err != nil {
			return &cluster.InputError{Err: fmt.Errorf("%s: %w", component, err)}
		}
	}
	if v := p.Components[versions.ProvisionerComponent]; v != "" {
		if err := table.Row(versions.ProvisionerComponent, v); err != nil {
			return &cluster.InputError{Err: fmt.Errorf("%s: %w", versions.ProvisionerComponent, err)}
		}
		if !p.definition.Dynamic() {
			return &cluster.InputError{
				Err:    fmt.Errorf("%s %s: driver %q has static volumes, and no external-provisioner runs beside it", versions.ProvisionerComponent, v, p.definition.Name),
				Remedy: "leave the version out, or write volumes: {provisioning: dynamic} into the driver's definition",
			}
		}
	}
	if err := p.checkGates(of); err != nil {
		return err
	}
	for _, v := range p.Later {
		release, err := table.Lookup(v)
		if err != nil {
			return &cluster.InputError{Err: err}
		}
		if err := p.checkGates(release.Of().Versions()); err != nil {
			return err
		}
	}
	if err := table.Skew.Check(all); err != nil && !p.AllowUnsupportedSkew {
		return &cluster.InputError{Err: err, Remedy: "choose other versions, or add --allow-unsupported-skew to see what comes of it"}
	}
	return nil
}

// checkGates refuses gates that components of these versions do not take.
func (p *plan) checkGates(of map[string]versions.Version) error {
	for _, component := range slices.Sorted(maps.Keys(p.Gates)) {
		v, known := of[component]
		if !known {
			return &cluster.InputError{Err: fmt.Errorf("component %q takes no feature gates; there are %q", component, versions.Versioned)}
		}
		for _, gate := range slices.Sorted(maps.Keys(p.Gates[component])) {
			var bad *versions.GateError
			if err := versions.Embedded().CheckGate(component, v, gate, p.Gates[component][gate]); errors.As(err, &bad) {
				return &cluster.InputError{Err: err, Remedy: bad.Remedy()}
			}
		}
	}
	return nil
}

// wanted lists, for each Kubernetes version, which of its components run. etcd is that of the run's own version.
func (o Options) wanted() map[versions.Version][]string {
	all := map[versions.Version][]string{o.Kubernetes: {"etcd"}}
	for _, component := range versions.Versioned {
		v := o.Kubernetes
		if own, ok := o.Components[component]; ok && component != versions.AttacherComponent {
			v = own
		}
		all[v] = append(all[v], component)
	}
	if o.provisions() {
		all[o.Kubernetes] = append(all[o.Kubernetes], versions.ProvisionerComponent)
	}
	return all
}

// provisions says whether the driver's definition asks for external-provisioner. One that cannot be loaded asks for nothing: Check says what is wrong.
func (o Options) provisions() bool {
	d, err := drivers.Load(cmp.Or(o.Driver, DefaultDriver))
	return err == nil && d.Dynamic()
}

// Provide gets the executables that runs with these options will need, each once. Errors are those of
// binaries.Ensure.
func Provide(ctx context.Context, all []Options) error {
	type place struct{ kubernetes, attacher, provisioner versions.Version }
	needed := map[place][]string{}
	for _, o := range all {
		for v, components := range o.wanted() {
			for _, component := range components {
				at := place{kubernetes: v}
				if component == versions.AttacherComponent && o.Components[component] != "" {
					at = place{kubernetes: versions.Default().Version, attacher: o.Components[component]}
				}
				if component == versions.ProvisionerComponent {
					at = place{kubernetes: versions.Default().Version, provisioner: o.Components[component]}
				}
				if !slices.Contains(needed[at], component) {
					needed[at] = append(needed[at], component)
				}
			}
		}
	}
	places := slices.SortedFunc(maps.Keys(needed), func(a, b place) int {
		return cmp.Or(a.kubernetes.Compare(b.kubernetes), a.attacher.Compare(b.attacher), a.provisioner.Compare(b.provisioner))
	})
	for _, at := range places {
		_, err := binaries.Ensure(ctx, binaries.Options{
			Cache: all[0].Cache, Kubernetes: at.kubernetes, Attacher: at.attacher, Provisioner: at.provisioner, Components: needed[at],
			From: all[0].From, Out: all[0].Out,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// ensureBinaries gets the executables that run, and no others, and notes their versions in the header.
func (p *plan) ensureBinaries(ctx context.Context) (binaries.Paths, error) {
	paths := binaries.Paths{}
	wanted := p.wanted()
	for _, v := range slices.SortedFunc(maps.Keys(wanted), versions.Version.Compare) {
		got, err := binaries.Ensure(ctx, binaries.Options{
			Cache: p.Cache, Kubernetes: v, Attacher: p.Components[versions.AttacherComponent], Provisioner: p.Components[versions.ProvisionerComponent],
			Components: wanted[v], From: p.From, Out: p.Out,
		})
		if err != nil {
			return nil, err
		}
		maps.Copy(paths, got)
	}
	if err := p.ensureLater(ctx); err != nil {
		return nil, err
	}
	for name, b := range paths {
		p.header.Versions[name] = b.Version.String()
	}
	maps.Copy(p.header.Versions, gateValues(p.Gates))
	return paths, writeJSON(filepath.Join(p.RunDir, report.FileHeader), p.header)
}

// ensureLater gets the executables that components will be swapped to.
func (p *plan) ensureLater(ctx context.Context) error {
	p.later = local.Binaries{}
	for _, v := range p.Later {
		got, err := binaries.Ensure(ctx, binaries.Options{Cache: p.Cache, Kubernetes: v, Components: versions.Versioned, From: p.From, Out: p.Out})
		if err != nil {
			return err
		}
		for name, b := range got {
			if p.later[name] == nil {
				p.later[name] = map[versions.Version]string{}
			}
			p.later[name][b.Version] = b.Path
		}
	}
	return nil
}

// Obtainable refuses a run whose executables the cache does not have where nothing else may be asked for them.
func Obtainable(ctx context.Context, o Options) error {
	if o.From.Mode != binaries.FromCache {
		return nil
	}
	for _, v := range append([]versions.Version{o.Kubernetes}, o.Later...) {
		needed := append([]string{"etcd"}, versions.Versioned...)
		if o.provisions() {
			needed = append(needed, versions.ProvisionerComponent)
		}
		all, err := binaries.List(ctx, binaries.Options{
			Cache: o.Cache, Kubernetes: v, Provisioner: o.Components[versions.ProvisionerComponent], Components: needed, From: o.From,
		})
		if err != nil {
			return err
		}
		for _, s := range all {
			if s.State != binaries.Cached {
				return &cluster.InputError{
					Err: fmt.Errorf("kubernetes %s: %s %s is %s in the cache, and --binaries cache makes nothing", v, s.Component.Name, s.Component.Version, s.State),
					Remedy: fmt.Sprintf("bring it here with `headroom binaries fetch --kubernetes %s%s`, or choose another --binaries",
						v.Number(), map[bool]string{true: " " + versions.ProvisionerComponent}[s.Component.Name == versions.ProvisionerComponent]),
				}
			}
		}
	}
	return nil
}

// fetch gets a component's executable at another version, for upgrades.
func (p *plan) fetch(ctx context.Context, component string, v versions.Version) (string, error) {
	o := binaries.Options{Cache: p.Cache, Kubernetes: v, Components: []string{component}, From: p.From, Out: p.Out}
	switch component {
	case versions.AttacherComponent:
		o.Kubernetes, o.Attacher = p.Kubernetes, v
	case versions.ProvisionerComponent:
		o.Kubernetes, o.Provisioner = p.Kubernetes, v
	}
	paths, err := binaries.Ensure(ctx, o)
	return paths[component].Path, err
}

// Rule is what comes of a feature of kind-configs/versions.yaml in this run.
func (s *Session) Rule(feature string) versions.Applied {
	return versions.Embedded().Works(feature, s.Header.Versions)
}
