package scenario

import (
	"bytes"
	"fmt"

	"go.yaml.in/yaml/v3"

	"headroom/e2e/framework/history"
	"headroom/e2e/framework/versions"
)

// Identity of a scenario file.
const (
	APIVersion = "headroom/v1alpha1"
	Kind       = "Scenario"
)

// MaxName is how many letters a scenario's name has at most.
const MaxName = 32

// Scenario is one story: a cluster, what is done to it in which order, and what must be seen.
type Scenario struct {
	APIVersion string   `yaml:"apiVersion"`
	Kind       string   `yaml:"kind"`
	Metadata   Metadata `yaml:"metadata"`
	Topology   Layout   `yaml:"topology"`
	// Driver is the driver under test; the reference driver when left out.
	Driver Driver `yaml:"driver,omitempty"`
	// Period is how often the kubelet asks the driver, in whole seconds and at least 10s. Left out, the CSIDriver has none and nothing refreshes a count.
	Period *history.Duration `yaml:"period,omitempty"`
	// Alone gives the scenario the cluster for itself: any CSINode that is added or grows lets the scheduler look at every pod that waits for room again.
	Alone bool `yaml:"alone,omitempty"`
	// Limit bounds the scenario, the making of its nodes included; 5m when left out.
	Limit history.Duration `yaml:"limit,omitempty"`
	// Steps are done one after the other.
	Steps []Step `yaml:"steps"`
	// Expect is what makes the scenario pass.
	Expect Expect `yaml:"expect"`
}

// Metadata says what the scenario is about.
type Metadata struct {
	// Name is the scenario's id: lower-case letters, digits and dashes, at most MaxName. Nodes and reports carry it.
	Name string `yaml:"name"`
	// Doc is what it shows, in a sentence or two.
	Doc string `yaml:"doc"`
	// Source is the document, source line or public report that it comes from.
	Source string   `yaml:"source,omitempty"`
	Labels []string `yaml:"labels,omitempty"`
}

// Layout is the cluster that the scenario needs.
type Layout struct {
	// Kubernetes is the version of every component that is not named in Components; the default version when left out.
	Kubernetes versions.Version `yaml:"kubernetes,omitempty"`
	// Components are versions of single components: kube-apiserver, kube-controller-manager, kube-scheduler, kubelet, csi-attacher, and csi-provisioner where
	// the driver's definition has volumes.provisioning: dynamic.
	Components map[string]versions.Version `yaml:"components,omitempty"`
	// AllowUnsupportedSkew takes components that the Kubernetes version skew policy does not let run together.
	AllowUnsupportedSkew bool `yaml:"allowUnsupportedSkew,omitempty"`
	// Gates are feature gates by component, such as kubelet: {MutableCSINodeAllocatableCount: true}.
	Gates map[string]map[string]bool `yaml:"gates,omitempty"`
	// Nodes are the scenario's own. Targets count them from 1.
	Nodes []Node `yaml:"nodes"`
}

// Node is a node as the quota backend knows it.
type Node struct {
	// Limit is how many volumes the backend lets be attached, foreign ones included.
	Limit int64 `yaml:"limit"`
	// Foreign is how many of them are taken outside Kubernetes.
	Foreign int64  `yaml:"foreign,omitempty"`
	Zone    string `yaml:"zone,omitempty"`
}

// Driver is the driver under test.
type Driver struct {
	// Name is a built-in driver, a persona, or a path to a driver's file, counted from the scenario's own.
	Name string `yaml:"name"`
	// Figures override what the driver declares of its policy.
	Figures *Figures `yaml:"figures,omitempty"`
}

// Figures are declared policy figures; those left out stay as the driver declares them.
type Figures struct {
	MinInterval  history.Duration `yaml:"minInterval,omitempty"`
	CacheAge     history.Duration `yaml:"cacheAge,omitempty"`
	LastGoodLife history.Duration `yaml:"lastGoodLife,omitempty"`
	// Step is how many volumes an answer may rise by per StepInterval.
	Step         int64            `yaml:"step,omitempty"`
	StepInterval history.Duration `yaml:"stepInterval,omitempty"`
}

// Encode writes the scenario as a file that Load reads back to the same.
func (s *Scenario) Encode() ([]byte, error) {
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if err := enc.Encode(s); err != nil {
		return nil, fmt.Errorf("encode scenario %q: %w", s.Metadata.Name, err)
	}
	return out.Bytes(), enc.Close()
}

// Version is the version of a component kind in the scenario's topology; "" for one that has none of its own here.
func (l Layout) Version(component string) versions.Version {
	if v, ok := l.Components[component]; ok {
		return v
	}
	release, err := versions.Lookup(l.Release())
	switch {
	case err != nil:
		return ""
	case component == versions.AttacherComponent:
		return release.Attacher
	case component == versions.ProvisionerComponent:
		return versions.Embedded().Provisioner()
	case component == "etcd":
		return release.Etcd
	}
	return release.Version
}

// Release is the Kubernetes version of the topology.
func (l Layout) Release() versions.Version {
	if l.Kubernetes == "" {
		return versions.Default().Version
	}
	return l.Kubernetes
}
