package kind

import (
	"strings"
	"testing"

	"headroom/e2e/framework/versions"
)

func TestBuiltInTopologies(t *testing.T) {
	workers := map[string]int{"one-worker": 1, "two-workers": 2, "older-worker": 2}
	if got := TopologyNames(); len(got) != len(workers) {
		t.Fatalf("want %d topologies, got %q", len(workers), got)
	}
	for _, name := range TopologyNames() {
		topology, err := LoadTopology(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if topology.Name != name || len(topology.Workers) != workers[name] {
			t.Errorf("%s: want %d workers, got %+v", name, workers[name], topology)
		}
		if err := topology.Check(versions.Default().Version); err != nil {
			t.Errorf("%s at the default version: %v", name, err)
		}
	}
}

func TestTopologyRefusesBadInput(t *testing.T) {
	const head = "apiVersion: headroom/v1alpha1\nkind: KindTopology\n"
	for name, c := range map[string]struct{ text, want string }{
		"empty":             {"", "t.yaml:1: the file is empty"},
		"unknown field":     {head + "nodes: 3\n", "t.yaml:3: field nodes not found"},
		"syntax":            {head + "workers:\n  - {kubernetes: v1.35.4\n  - {}\n", "t.yaml:5: not YAML: did not find expected ',' or '}' in the block that begins on line 4"},
		"duplicate key":     {head + "workers: [{}]\nworkers: [{}]\n", "t.yaml:4: mapping key \"workers\" already defined"},
		"second document":   {head + "workers: [{}]\n---\n{}\n", "want one document"},
		"other kind":        {"apiVersion: headroom/v1alpha1\nkind: Driver\nworkers: [{}]\n", `got "headroom/v1alpha1" and "Driver"`},
		"no workers":        {head, "workers: want 1 to 20, got 0"},
		"too many":          {head + "workers: [" + strings.Repeat("{},", 21) + "]\n", "workers: want 1 to 20, got 21"},
		"worker field":      {head + "workers:\n  - {}\n  - {kubelet: v1.35.4}\n", "t.yaml:5: workers[1]: "},
		"no version":        {head + "workers:\n  - {kubernetes: new}\n", "t.yaml:4: workers[0]: kubernetes: "},
		"version not known": {head + "workers:\n  - {kubernetes: v1.20.1}\n", `"v1.20.1" is not known; known: `},
	} {
		if _, err := decodeTopology("t.yaml", []byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: want %q in the error, got %v", name, c.want, err)
		}
	}
	if _, err := LoadTopology("nosuch"); err == nil || !strings.Contains(err.Error(), "one-worker") {
		t.Errorf("want an error that lists the topologies, got %v", err)
	}
	if _, err := LoadTopology("/nowhere/t.yaml"); err == nil || !strings.Contains(err.Error(), "/nowhere/t.yaml") {
		t.Errorf("want an error that names the file, got %v", err)
	}
	if _, err := LoadTopology("/dev/zero"); err == nil || !strings.Contains(err.Error(), "want a file, got one of mode") {
		t.Errorf("want a device refused, got %v", err)
	}
}

func TestTopologyCheck(t *testing.T) {
	for _, c := range []struct {
		kubelet versions.Version
		ok      bool
	}{{"", true}, {"v1.36.3", true}, {"v1.33.13", true}, {"v1.32.13", false}, {"v1.37.2", false}} {
		err := Topology{Name: "t", Workers: []Worker{{}, {Kubernetes: c.kubelet}}}.Check("v1.36.3")
		if (err == nil) != c.ok || err != nil && !strings.Contains(err.Error(), "workers[1]") {
			t.Errorf("kubelet %q with kube-apiserver v1.36.3: want ok %v, got %v", c.kubelet, c.ok, err)
		}
	}
}
