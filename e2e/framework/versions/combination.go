package versions

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Combination is what runs together: a version of each component that a skew is about, and the gates that flags set. The controller manager and the
// scheduler are upgraded together, but each has its version here.
type Combination struct {
	APIServer         Version
	ControllerManager Version
	Scheduler         Version
	Kubelet           Version
	Attacher          Version
	// AttacherGate is what a flag makes of the attacher's MutableCSINodeAllocatableCount: "true", "false", or "" for the release's default.
	AttacherGate string
	// Provisioner is "" where none runs.
	Provisioner Version
}

// Of is the combination of a release: each component at its version.
func (r Release) Of() Combination {
	return Combination{APIServer: r.Version, ControllerManager: r.Version, Scheduler: r.Version, Kubelet: r.Version, Attacher: r.Attacher}
}

// Versions are the combination's versions by component kind.
func (c Combination) Versions() map[string]Version {
	all := map[string]Version{
		"kube-apiserver": c.APIServer, "kube-controller-manager": c.ControllerManager, "kube-scheduler": c.Scheduler, "kubelet": c.Kubelet,
		AttacherComponent: c.Attacher,
	}
	if c.Provisioner != "" {
		all[ProvisionerComponent] = c.Provisioner
	}
	return all
}

// Gates are the feature gates that flags set, by component kind.
func (c Combination) Gates() map[string]map[string]bool {
	if c.AttacherGate == "" {
		return nil
	}
	return map[string]map[string]bool{AttacherComponent: {MutableCSINodeAllocatableCount: c.AttacherGate == "true"}}
}

// Ran is the combination as the header of a history has it, for Table.Rules.
func (c Combination) Ran() map[string]string {
	ran := map[string]string{}
	for component, v := range c.Versions() {
		ran[component] = v.String()
	}
	for component, gates := range c.Gates() {
		for gate, on := range gates {
			ran[component+"/"+gate] = fmt.Sprint(on)
		}
	}
	return ran
}

// SkewError is a combination that the Kubernetes version skew policy does not support.
type SkewError struct {
	// Component is the one that breaks the rule: "kubelet".
	Component string
	Version   Version
	// Server is the kube-apiserver's version.
	Server Version
	// Rule is what the policy says.
	Rule string
}

func (e *SkewError) Error() string {
	return fmt.Sprintf("%s %s with kube-apiserver %s is not supported: %s (Kubernetes version skew policy)", e.Component, e.Version, e.Server, e.Rule)
}

// most is how many minor versions a component may be older than kube-apiserver.
func (s Skew) most(component string) int {
	return map[string]int{
		"kube-controller-manager": s.KubeControllerManager, "kube-scheduler": s.KubeScheduler, "kubelet": s.Kubelet,
	}[component]
}

// skewed are the components that the policy holds against kube-apiserver, in the order in which they are named.
var skewed = []string{"kube-controller-manager", "kube-scheduler", "kubelet"}

// Check returns a *SkewError for each component that is too new or too old for the API server, joined; nil when the combination is supported. No
// policy ties external-attacher to a version of Kubernetes.
func (s Skew) Check(c Combination) error {
	var errs []error
	of := c.Versions()
	for _, component := range skewed {
		if e := s.rule(component, of[component], c.APIServer); e != nil {
			errs = append(errs, e)
		}
	}
	return errors.Join(errs...)
}

// rule is the broken rule of one component; nil when none is.
func (s Skew) rule(component string, v, server Version) *SkewError {
	e := &SkewError{Component: component, Version: v, Server: server}
	most := s.most(component)
	switch older := server.Minor() - v.Minor(); {
	case v.Major() != server.Major():
		e.Rule = "both must be of one major version"
	case older < 0:
		e.Rule = component + " must not be newer than kube-apiserver"
	case older > most:
		e.Rule = fmt.Sprintf("%s may be up to %s older than kube-apiserver, not %d", component, minors(most), older)
	default:
		return nil
	}
	return e
}

func minors(n int) string {
	if n == 1 {
		return "1 minor version"
	}
	return fmt.Sprintf("%d minor versions", n)
}

// Upgrade returns an error when an API server must not go from one version to the other in one step: it skips a minor version, or goes back.
func (s Skew) Upgrade(from, to Version) error {
	e := &SkewError{Component: "kube-apiserver", Version: to, Server: from}
	switch steps := to.Minor() - from.Minor(); {
	case to.Major() != from.Major():
		e.Rule = "both must be of one major version"
	case steps < 0:
		e.Rule = "no rollback of a minor version of the control plane"
	case steps > s.APIServers:
		e.Rule = fmt.Sprintf("kube-apiserver must be upgraded one minor version at a time, not %d", steps)
	default:
		return nil
	}
	return e
}

// Variant is a release of external-attacher with its gate as it is run.
type Variant struct {
	Version Version
	// Gate is "true" or "false" where a flag sets it, "" for the release's default.
	Gate string
}

// Variants are the attachers that are worth a run of their own: each of the releases named, or of all when none is, as it is, and with the gate turned
// on where it is off by default.
func (t Table) Variants(only ...Version) []Variant {
	var all []Variant
	for _, a := range t.Attachers {
		if len(only) > 0 && !slices.Contains(only, a.Version) {
			continue
		}
		all = append(all, Variant{Version: a.Version})
		if g := a.Gate(MutableCSINodeAllocatableCount); g.Stage != Absent && !g.Enabled && !g.Locked {
			all = append(all, Variant{Version: a.Version, Gate: "true"})
		}
	}
	return all
}

// Between lists the rows from one version to another, both included, in ascending order; zero versions are the first row and the last that is no
// pre-release.
func (t Table) Between(from, to Version) []Release {
	var rows []Release
	for _, r := range t.Kubernetes {
		if (from == "" || r.Version.Compare(from) >= 0) && (to == "" && !r.Preview || to != "" && r.Version.Compare(to) <= 0) {
			rows = append(rows, clone(r))
		}
	}
	return rows
}

// Supported lists every supported combination of the given releases with the variants of the given attachers, or of all when none is given, in ascending
// order of API server, then controller manager and scheduler, then kubelet, then attacher. Controller manager and scheduler have one version.
func (t Table) Supported(rows []Release, attachers ...Version) []Combination {
	var all []Combination
	variants := t.Variants(attachers...)
	for _, server := range rows {
		for _, manager := range rows {
			for _, node := range rows {
				for _, attacher := range variants {
					c := Combination{
						APIServer: server.Version, ControllerManager: manager.Version, Scheduler: manager.Version, Kubelet: node.Version,
						Attacher: attacher.Version, AttacherGate: attacher.Gate,
					}
					if t.Skew.Check(c) == nil {
						all = append(all, c)
					}
				}
			}
		}
	}
	return all
}

// String names the combination in a few words, as an id: "api1.36.3-ctl1.35.4-kubelet1.34.4-attacher4.11.0-gate-true".
func (c Combination) String() string {
	parts := []string{"api" + c.APIServer.Number(), "ctl" + c.ControllerManager.Number()}
	if c.Scheduler != c.ControllerManager {
		parts = append(parts, "sched"+c.Scheduler.Number())
	}
	parts = append(parts, "kubelet"+c.Kubelet.Number(), "attacher"+c.Attacher.Number())
	if c.AttacherGate != "" {
		parts = append(parts, "gate-"+c.AttacherGate)
	}
	return strings.Join(parts, "-")
}

// Versioned are the components that can have a version of their own, in the order in which they are upgraded, but that an attacher goes with its driver.
var Versioned = []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", AttacherComponent}

// Named are the components whose version a topology may name: those of Versioned, and external-provisioner where it runs.
var Named = append(slices.Clone(Versioned), ProvisionerComponent)

// With is the combination with other versions of some components. An unknown component is an error that lists the known ones.
func (c Combination) With(components map[string]Version) (Combination, error) {
	places := map[string]*Version{
		"kube-apiserver": &c.APIServer, "kube-controller-manager": &c.ControllerManager, "kube-scheduler": &c.Scheduler, "kubelet": &c.Kubelet,
		AttacherComponent: &c.Attacher, ProvisionerComponent: &c.Provisioner,
	}
	for _, name := range slices.Sorted(maps.Keys(components)) {
		place, known := places[name]
		if !known {
			return c, fmt.Errorf("component %q has no version of its own; known: %s", name, strings.Join(Named, ", "))
		}
		*place = components[name]
	}
	return c, nil
}

// GateError is a feature gate that a component does not take.
type GateError struct {
	Component string
	Version   Version
	Gate      string
	// Locked is the value that the gate has for good; nil where the component does not have it at all.
	Locked *bool
}

func (e *GateError) Error() string {
	if e.Locked != nil {
		return fmt.Sprintf("%s %s has %s locked to %t and would exit", e.Component, e.Version, e.Gate, *e.Locked)
	}
	return fmt.Sprintf("%s %s has no feature gate %q that Headroom knows", e.Component, e.Version, e.Gate)
}

// Remedy says what to do about it.
func (e *GateError) Remedy() string {
	if e.Locked != nil {
		return "remove it, or choose an older version"
	}
	return "remove it"
}

// CheckGate returns a *GateError when a component at version v, which has a row, would not start with the gate set to on.
func (t Table) CheckGate(component string, v Version, name string, on bool) error {
	g := t.gateAt(component, name, v)
	switch {
	case g.Stage == Absent:
		return &GateError{Component: component, Version: v, Gate: name}
	case g.Locked && g.Enabled != on:
		return &GateError{Component: component, Version: v, Gate: name, Locked: &g.Enabled}
	}
	return nil
}

// Row returns an error when the table has no row for a component's version; it lists those that it has.
func (t Table) Row(component string, v Version) error {
	switch component {
	case AttacherComponent:
		_, err := t.LookupAttacher(v)
		return err
	case ProvisionerComponent:
		_, err := t.LookupProvisioner(v)
		return err
	}
	_, err := t.Lookup(v)
	return err
}
