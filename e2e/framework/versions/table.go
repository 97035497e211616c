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
	DefaultVersion Version    `yaml:"default"`
	Skew           Skew       `yaml:"skew"`
	Features       []Feature  `yaml:"features"`
	Attachers      []Attacher `yaml:"attachers"`
	Kubernetes     []Release  `yaml:"kubernetes"`
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
	var minor Minor
	if minor.UnmarshalText([]byte("v"+strings.TrimPrefix(s, "v"))) == nil {
		for _, a := range slices.Backward(t.Attachers) {
			if a.Version.MinorOf() == minor {
				return t.LookupAttacher(a.Version)
			}
		}
		return t.LookupAttacher(Version("v" + strings.TrimPrefix(s, "v")))
	}
	v, err := Parse(s)
	if err != nil {
		return Attacher{}, fmt.Errorf("external-attacher %w or 4.12", err)
	}
	return t.LookupAttacher(v)
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
