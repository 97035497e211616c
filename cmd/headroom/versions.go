package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"headroom/e2e/framework/binaries"
	"headroom/e2e/framework/run"
	"headroom/e2e/framework/versions"
)

// originFlags say where component binaries come from.
func originFlags(f *pflag.FlagSet, from *binaries.Origin) {
	var modes []string
	for _, m := range binaries.Modes {
		modes = append(modes, string(m))
	}
	f.StringVar((*string)(&from.Mode), "binaries", modes[0], "where component binaries that are not cached come from: "+strings.Join(modes, ", "))
	f.StringVar(&from.Mirror, "mirror", "", "directory or URL in the layout of the Kubernetes release site, for --binaries mirror and auto")
}

// versionFlags say which version of each component runs.
type versionFlags struct {
	kubernetes        string
	components, gates []string
	unsupported       bool
}

func (v *versionFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&v.kubernetes, "kubernetes", "", "Kubernetes version of all components, such as 1.36 or v1.36.3 (default "+versions.Default().Version.String()+")")
	f.StringSliceVar(&v.components, "component", nil, "version of a single component, such as kubelet=1.35; may be repeated")
	f.StringSliceVar(&v.gates, "gate", nil, "feature gate of a component, such as csi-attacher/"+versions.MutableCSINodeAllocatableCount+"=false; may be repeated")
	f.BoolVar(&v.unsupported, "allow-unsupported-skew", false, "run versions together that the Kubernetes version skew policy does not support")
	completeWith(cmd, "kubernetes", completeVersions)
}

// choose fills the options in. Whether there are such versions and gates, and whether they go together, is checked by the run.
func (v *versionFlags) choose(o *run.Options) error {
	o.AllowUnsupportedSkew = v.unsupported
	if v.kubernetes != "" {
		r, err := versions.Embedded().Find(v.kubernetes)
		if err != nil {
			return usageError{fmt.Errorf("--kubernetes: %w", err)}
		}
		o.Kubernetes = r.Version
	}
	for _, text := range v.components {
		component, version, ok := strings.Cut(text, "=")
		if !ok || component == "" || version == "" {
			return usageError{fmt.Errorf("--component %q: want COMPONENT=VERSION, such as kubelet=1.35", text)}
		}
		if o.Components[component] != "" {
			return usageError{fmt.Errorf("--component %q: %s has version %s already", text, component, o.Components[component])}
		}
		found, err := findVersion(component, version)
		if err != nil {
			return usageError{fmt.Errorf("--component %q: %w", text, err)}
		}
		if o.Components == nil {
			o.Components = map[string]versions.Version{}
		}
		o.Components[component] = found
	}
	for _, text := range v.gates {
		name, value, ok := strings.Cut(text, "=")
		component, gate, split := strings.Cut(name, "/")
		on, err := strconv.ParseBool(value)
		if !ok || !split || component == "" || gate == "" || err != nil {
			return usageError{fmt.Errorf("--gate %q: want COMPONENT/GATE=true or false, such as kubelet/%s=false", text, versions.MutableCSINodeAllocatableCount)}
		}
		if o.Gates == nil {
			o.Gates = map[string]map[string]bool{}
		}
		if o.Gates[component] == nil {
			o.Gates[component] = map[string]bool{}
		}
		if was, again := o.Gates[component][gate]; again && was != on {
			return usageError{fmt.Errorf("--gate %q: it is set to %t already", text, was)}
		}
		o.Gates[component][gate] = on
	}
	return nil
}

// findVersion is the version of a component that a person means.
func findVersion(component, text string) (versions.Version, error) {
	switch component {
	case versions.AttacherComponent:
		a, err := versions.Embedded().FindAttacher(text)
		return a.Version, err
	case versions.ProvisionerComponent:
		p, err := versions.Embedded().FindProvisioner(text)
		return p.Version, err
	}
	r, err := versions.Embedded().Find(text)
	return r.Version, err
}

// completeVersions offers the versions that there are.
func completeVersions(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var out []cobra.Completion
	for _, v := range versions.Embedded().Known() {
		out = append(out, v.String())
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}
