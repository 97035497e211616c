package versions

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	kindconfigs "headroom/kind-configs"
)

// Feature gates that the table may name.
const (
	// MutableCSINodeAllocatableCount is the gate of KEP-4876, in kube-apiserver, kubelet and external-attacher.
	MutableCSINodeAllocatableCount = "MutableCSINodeAllocatableCount"
	// VolumeLimitScaling is the gate of CSIDriver.spec.preventPodSchedulingIfMissing.
	VolumeLimitScaling = "VolumeLimitScaling"
)

var knownGates = []string{MutableCSINodeAllocatableCount, VolumeLimitScaling}

// Stage is the maturity of a feature gate in one release.
type Stage string

const (
	// Absent is a gate that the release does not have: a component that is given it does not start.
	Absent Stage = "absent"
	Alpha  Stage = "alpha"
	Beta   Stage = "beta"
	GA     Stage = "ga"
)

// Gate is the state of a feature gate when no flag sets it.
type Gate struct {
	Stage   Stage `yaml:"stage"`
	Enabled bool  `yaml:"enabled"`
	// Locked gates end a component that is told otherwise.
	Locked bool `yaml:"locked"`
}

// Skew says how many minor versions a component may be older than kube-apiserver. None may be newer.
type Skew struct {
	KubeControllerManager int `yaml:"kubeControllerManager"`
	KubeScheduler         int `yaml:"kubeScheduler"`
	Kubelet               int `yaml:"kubelet"`
	// APIServers is how far API servers of one cluster may be apart.
	APIServers int `yaml:"apiServers"`
}

// Attacher is a release of external-attacher.
type Attacher struct {
	Version Version         `yaml:"version"`
	Gates   map[string]Gate `yaml:"gates"`
}

// Gate returns the state of a gate; one that the release does not have is Absent and off.
func (a Attacher) Gate(name string) Gate { return gate(a.Gates, name) }

// Provisioner is a release of external-provisioner.
type Provisioner struct {
	Version Version `yaml:"version"`
}

// Release is a release of Kubernetes and what runs with it.
type Release struct {
	Version Version         `yaml:"version"`
	Gates   map[string]Gate `yaml:"gates"`
	// Etcd is the version of the etcd server.
	Etcd Version `yaml:"etcd"`
	// Attacher is the version of external-attacher; the table has a row for it.
	Attacher Version `yaml:"attacher"`
	// Preview marks a pre-release, which is taken only where it is asked for.
	Preview bool `yaml:"preview,omitempty"`
	// Toolchain is the Go release that builds it, such as "go1.27.3", where that of this module is too old; "" otherwise.
	Toolchain string `yaml:"toolchain,omitempty"`
}

// Preview is what people may say for the newest pre-release of the table.
const Preview = "preview"

// Gate returns the state of a gate; one that the release does not have is Absent and off.
func (r Release) Gate(name string) Gate { return gate(r.Gates, name) }

func gate(gates map[string]Gate, name string) Gate {
	if g, ok := gates[name]; ok {
		return g
	}
	return Gate{Stage: Absent}
}

// Table is versions.yaml. Rows are in ascending order.
type Table struct {
	DefaultVersion Version       `yaml:"default"`
	Skew           Skew          `yaml:"skew"`
	Features       []Feature     `yaml:"features"`
	Attachers      []Attacher    `yaml:"attachers"`
	Provisioners   []Provisioner `yaml:"provisioners"`
	Kubernetes     []Release     `yaml:"kubernetes"`
}

// Known lists the Kubernetes versions of the table, in ascending order.
func (t Table) Known() []Version {
	known := make([]Version, 0, len(t.Kubernetes))
	for _, r := range t.Kubernetes {
		known = append(known, r.Version)
	}
	return known
}

// Lookup returns the row of v. The error lists the versions that the table has.
func (t Table) Lookup(v Version) (Release, error) {
	for _, r := range t.Kubernetes {
		if r.Version == v {
			return clone(r), nil
		}
	}
	return Release{}, fmt.Errorf("kubernetes version %q is not known; known: %s", v, join(t.Known()))
}

// LookupAttacher returns the row of an external-attacher version. The error lists the versions that the table has.
func (t Table) LookupAttacher(v Version) (Attacher, error) {
	var known []Version
	for _, a := range t.Attachers {
		if a.Version == v {
			a.Gates = maps.Clone(a.Gates)
			return a, nil
		}
		known = append(known, a.Version)
	}
	return Attacher{}, fmt.Errorf("external-attacher version %q is not known; known: %s", v, join(known))
}

// Provisioner is the version of external-provisioner that runs where no other is named.
func (t Table) Provisioner() Version {
	if len(t.Provisioners) == 0 {
		return "" // Only a Table that Load did not make.
	}
	return t.Provisioners[len(t.Provisioners)-1].Version
}

// LookupProvisioner returns the row of an external-provisioner version. The error lists the versions that the table has.
func (t Table) LookupProvisioner(v Version) (Provisioner, error) {
	var known []Version
	for _, p := range t.Provisioners {
		if p.Version == v {
			return p, nil
		}
		known = append(known, p.Version)
	}
	return Provisioner{}, fmt.Errorf("external-provisioner version %q is not known; known: %s", v, join(known))
}

// Find returns the row that a person means: a version such as "v1.36.3" or "1.36.3", a minor release such as "1.36", or "preview". The error lists the
// versions that the table has.
func (t Table) Find(s string) (Release, error) {
	if s == Preview {
		for _, r := range slices.Backward(t.Kubernetes) {
			if r.Preview {
				return clone(r), nil
			}
		}
		return Release{}, fmt.Errorf("no pre-release of kubernetes is known; known: %s", join(t.Known()))
	}
	var minor Minor
	if minor.UnmarshalText([]byte("v"+strings.TrimPrefix(s, "v"))) == nil {
		for _, r := range slices.Backward(t.Kubernetes) {
			if r.Version.MinorOf() == minor {
				return clone(r), nil
			}
		}
		return Release{}, fmt.Errorf("kubernetes minor release %q is not known; known: %s", s, join(t.Known()))
	}
	v, err := Parse(s)
	if err != nil {
		return Release{}, fmt.Errorf("%w or 1.36", err)
	}
	return t.Lookup(v)
}

// FindAttacher returns the row that a person means: an external-attacher version such as "v4.12.0", or a minor release such as "4.12".
func (t Table) FindAttacher(s string) (Attacher, error) {
	known := make([]Version, 0, len(t.Attachers))
	for _, a := range t.Attachers {
		known = append(known, a.Version)
	}
	v, err := meant(s, known)
	if err != nil {
		return Attacher{}, fmt.Errorf("external-attacher %w or 4.12", err)
	}
	return t.LookupAttacher(v)
}

// FindProvisioner is the same of external-provisioner: "v5.3.0" or "5.3".
func (t Table) FindProvisioner(s string) (Provisioner, error) {
	known := make([]Version, 0, len(t.Provisioners))
	for _, p := range t.Provisioners {
		known = append(known, p.Version)
	}
	v, err := meant(s, known)
	if err != nil {
		return Provisioner{}, fmt.Errorf("external-provisioner %w or 5.3", err)
	}
	return t.LookupProvisioner(v)
}

// meant is the version that a person means: of a minor release the newest one known, or what was said where none is.
func meant(s string, known []Version) (Version, error) {
	var minor Minor
	if minor.UnmarshalText([]byte("v"+strings.TrimPrefix(s, "v"))) != nil {
		return Parse(s)
	}
	for _, v := range slices.Backward(known) {
		if v.MinorOf() == minor {
			return v, nil
		}
	}
	return Version("v" + strings.TrimPrefix(s, "v")), nil
}

// Default returns the row of the default version.
func (t Table) Default() Release {
	i := slices.IndexFunc(t.Kubernetes, func(r Release) bool { return r.Version == t.DefaultVersion })
	if i < 0 {
		return Release{} // Only a Table that Load did not make.
	}
	return clone(t.Kubernetes[i])
}

// clone keeps callers from changing the table that all share.
func clone(r Release) Release {
	r.Gates = maps.Clone(r.Gates)
	return r
}

var embedded = sync.OnceValue(func() Table {
	t, err := Load(kindconfigs.VersionsFile, kindconfigs.Versions)
	if err != nil {
		panic(err) // The file is compiled in and a test loads it: this is a broken build.
	}
	return t
})

// Embedded is the table that is compiled in. Callers must not change its rows.
func Embedded() Table { return embedded() }

// Lookup returns the row of v in the embedded table. The error lists the versions that it has.
func Lookup(v Version) (Release, error) { return embedded().Lookup(v) }

// Default returns the default row of the embedded table.
func Default() Release { return embedded().Default() }

func join(known []Version) string {
	names := make([]string, 0, len(known))
	for _, v := range known {
		names = append(names, string(v))
	}
	return strings.Join(names, ", ")
}
