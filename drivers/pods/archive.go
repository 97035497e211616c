package pods

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"headroom/e2e/framework/input"
)

// ReadArchive lists the names, in full, of the images in an archive as docker save and OCI tools write it.
func ReadArchive(file string) ([]string, error) {
	f, err := input.OpenRegular(file, "correct the path, or write it with docker save")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var docker []struct{ RepoTags []string }
	var oci struct {
		Manifests []struct{ Annotations map[string]string }
	}
	known := map[string]any{"manifest.json": &docker, "index.json": &oci}
	for in := tar.NewReader(f); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%s: want an archive of images, uncompressed: %w", file, err)
		}
		if into := known[h.Name]; into != nil {
			if err := json.NewDecoder(in).Decode(into); err != nil {
				return nil, fmt.Errorf("%s: %s: %w", file, h.Name, err)
			}
		}
	}
	seen := map[string]bool{}
	var all []string
	add := func(ref string) {
		if ref = Normal(ref); !seen[ref] {
			seen[ref] = true
			all = append(all, ref)
		}
	}
	for _, image := range docker {
		for _, tag := range image.RepoTags {
			add(tag)
		}
	}
	for _, m := range oci.Manifests {
		if name := m.Annotations["io.containerd.image.name"]; name != "" {
			add(name)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: has no image with a name and a tag", file)
	}
	return all, nil
}

// BlankEndpoint is where the gate of Blank calls the driver.
const BlankEndpoint = "unix:///driver.sock"

// Blank is a workload that adds no more than a gate, for those who want to see what Render makes of manifests without a run.
func Blank(kind string) *unstructured.Unstructured {
	container := func(name string) map[string]any {
		return map[string]any{"name": name, "image": "headroom", "command": []any{"gate", BlankEndpoint}}
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": kind, "metadata": map[string]any{"name": "blank"}, "spec": map[string]any{"template": map[string]any{"spec": map[string]any{
			"containers": []any{container("driver"), container("gate")},
		}}},
	}}
}
