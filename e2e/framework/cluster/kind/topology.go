package kind

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"headroom/e2e/framework/input"
	"headroom/e2e/framework/strict"
	"headroom/e2e/framework/versions"
	kindconfigs "headroom/kind-configs"
)

// DefaultTopology is what a run uses that names none.
const DefaultTopology = "one-worker"

// Topology is the nodes of a cluster: one control plane at the run's version, and workers.
type Topology struct {
	Name string
	// Image is the node image of every node that names none and has the run's version; "" means one that is assembled.
	Image   string
	Workers []Worker
}

// Worker is one worker node.
type Worker struct {
	// Kubernetes is the version of the node's image; zero means the run's.
	Kubernetes versions.Version
	// Image is the node's image; "" means the topology's.
	Image string
}

// maxWorkers keeps a slip of the pen from filling a machine.
const maxWorkers = 20

// document is a topology file. The nodes of the tree are kept for the lines of errors.
type document struct {
	APIVersion string      `yaml:"apiVersion"`
	Kind       string      `yaml:"kind"`
	Image      string      `yaml:"image"`
	Workers    []yaml.Node `yaml:"workers"`
}

type workerFields struct {
	Kubernetes string `yaml:"kubernetes"`
	Image      string `yaml:"image"`
}

// TopologyNames lists the built-in topologies.
func TopologyNames() []string {
	entries, err := kindconfigs.Topologies.ReadDir(".")
	if err != nil {
		panic(fmt.Sprintf("kind: topologies: %v", err)) // they are compiled in
	}
	var names []string
	for _, e := range entries {
		if "kind-configs/"+e.Name() != kindconfigs.VersionsFile {
			names = append(names, strings.TrimSuffix(e.Name(), ".yaml"))
		}
	}
	return names
}

// LoadTopology returns a topology by name, or from a file when nameOrPath has a slash or ends in .yaml. It is read strictly: unknown fields, duplicate
// keys and a second document are errors, which name file, line and field.
func LoadTopology(nameOrPath string) (Topology, error) {
	if strings.Contains(nameOrPath, "/") || strings.HasSuffix(nameOrPath, ".yaml") {
		b, err := input.Read(nameOrPath, "correct the path")
		if err != nil {
			return Topology{}, fmt.Errorf("topology: %w", err)
		}
		return decodeTopology(nameOrPath, b)
	}
	if !slices.Contains(TopologyNames(), nameOrPath) {
		return Topology{}, fmt.Errorf("no topology %q; there are: %s; or give a path to a .yaml file", nameOrPath, strings.Join(TopologyNames(), ", "))
	}
	b, err := kindconfigs.Topologies.ReadFile(nameOrPath + ".yaml")
	if err != nil {
		return Topology{}, err
	}
	t, err := decodeTopology("kind-configs/"+nameOrPath+".yaml", b)
	t.Name = nameOrPath
	return t, err
}

func decodeTopology(file string, data []byte) (Topology, error) {
	t := Topology{Name: file}
	in := yaml.NewDecoder(bytes.NewReader(data))
	in.KnownFields(true)
	var d document
	if err := in.Decode(&d); errors.Is(err, io.EOF) {
		return t, fmt.Errorf("%s:1: the file is empty", file)
	} else if err != nil {
		return t, strict.Misread(file, data, err)
	}
	if err := in.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return t, fmt.Errorf("%s: want one document, got a second", file)
	}
	if d.APIVersion != "headroom/v1alpha1" || d.Kind != "KindTopology" {
		return t, fmt.Errorf("%s: want apiVersion headroom/v1alpha1 and kind KindTopology, got %q and %q", file, d.APIVersion, d.Kind)
	}
	if n := len(d.Workers); n < 1 || n > maxWorkers {
		return t, fmt.Errorf("%s: workers: want 1 to %d, got %d", file, maxWorkers, n)
	}
	t.Image = d.Image
	for i := range d.Workers {
		w, err := decodeWorker(&d.Workers[i])
		if err != nil {
			return t, fmt.Errorf("%s:%d: workers[%d]: %w", file, d.Workers[i].Line, i, err)
		}
		t.Workers = append(t.Workers, w)
	}
	return t, nil
}

func decodeWorker(n *yaml.Node) (Worker, error) {
	// A node decodes leniently, its text does not.
	text, err := yaml.Marshal(n)
	if err != nil {
		return Worker{}, err
	}
	in := yaml.NewDecoder(bytes.NewReader(text))
	in.KnownFields(true)
	var f workerFields
	if err := in.Decode(&f); err != nil {
		_, field, _ := strings.Cut(err.Error(), ": ")
		return Worker{}, errors.New(strings.TrimSpace(field)) // its line would be that of the text
	}
	w := Worker{Image: f.Image}
	if f.Kubernetes == "" {
		return w, nil
	}
	if w.Kubernetes, err = versions.Parse(f.Kubernetes); err != nil {
		return Worker{}, fmt.Errorf("kubernetes: %w", err)
	}
	_, err = versions.Lookup(w.Kubernetes)
	return w, err
}

// Check says why the topology cannot run with a control plane of version v: a kubelet may not be newer, nor too old.
func (t Topology) Check(v versions.Version) error {
	for i, w := range t.Workers {
		if w.Kubernetes == "" {
			continue
		}
		older := v.Minor() - w.Kubernetes.Minor()
		if most := versions.Embedded().Skew.Kubelet; w.Kubernetes.Compare(v) > 0 || older > most {
			return fmt.Errorf("topology %s: workers[%d]: kubelet %s with kube-apiserver %s: want it not newer and at most %d minor versions older", t.Name, i, w.Kubernetes, v, most)
		}
	}
	return nil
}
