package pods

import (
	"archive/tar"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestReadArchive(t *testing.T) {
	const docker, oci = "manifest.json", "index.json"
	for name, c := range map[string]struct {
		files map[string]string
		want  []string
		err   string
	}{
		"of docker":             {map[string]string{docker: `[{"RepoTags": ["a:1", "r.io/b"]}, {"RepoTags": ["c:1"]}]`}, []string{"docker.io/library/a:1", "r.io/b:latest", "docker.io/library/c:1"}, ""},
		"of an OCI tool":        {map[string]string{oci: `{"manifests": [{"annotations": {"io.containerd.image.name": "a:1"}}]}`}, []string{"docker.io/library/a:1"}, ""},
		"both say the same":     {map[string]string{docker: `[{"RepoTags": ["a:1"]}]`, oci: `{"manifests": [{"annotations": {"io.containerd.image.name": "docker.io/library/a:1"}}]}`}, []string{"docker.io/library/a:1"}, ""},
		"a manifest of no name": {map[string]string{oci: `{"manifests": [{}, {"annotations": {"io.containerd.image.name": "a:1"}}]}`}, []string{"docker.io/library/a:1"}, ""},
		"no name at all":        {map[string]string{oci: `{"manifests": [{}]}`}, nil, "has no image with a name and a tag"},
		"neither file":          {map[string]string{"layer.tar": "x"}, nil, "has no image with a name and a tag"},
		"no JSON":               {map[string]string{docker: `[{"RepoTags": ["a:1"]}`}, nil, "manifest.json: "},
	} {
		path := filepath.Join(t.TempDir(), "image.tar")
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		out := tar.NewWriter(f)
		for file, text := range c.files {
			if err := out.WriteHeader(&tar.Header{Name: file, Mode: 0o644, Size: int64(len(text))}); err != nil {
				t.Fatal(err)
			}
			if _, err := out.Write([]byte(text)); err != nil {
				t.Fatal(err)
			}
		}
		if err := out.Close(); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		got, err := ReadArchive(path)
		if !slices.Equal(got, c.want) || (err == nil) != (c.err == "") || err != nil && (!strings.Contains(err.Error(), c.err) || !strings.Contains(err.Error(), path)) {
			t.Errorf("%s: want %q and an error with the file and %q, got %q (error: %v)", name, c.want, c.err, got, err)
		}
	}
}
