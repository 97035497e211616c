package nodeimage

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/template"

	"golang.org/x/mod/modfile"
	"k8s.io/apimachinery/pkg/util/yaml"

	"headroom/e2e/framework/binaries"
	"headroom/e2e/framework/versions"
)

func TestKindVersionIsTheModules(t *testing.T) {
	const path = "../../../../../go.mod"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	mod, err := modfile.Parse(path, text, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range mod.Require {
		if r.Mod.Path == "sigs.k8s.io/kind" && r.Mod.Version == kindVersion.String() {
			return
		}
	}
	t.Errorf("want sigs.k8s.io/kind %s in go.mod: a node's files must be those of the kind that starts it", kindVersion)
}

func TestPodNetworkIsJSON(t *testing.T) {
	var out bytes.Buffer
	values := struct{ PodCIDRRanges []string }{[]string{"10.244.1.0/24", "fd00::/64"}}
	if err := template.Must(template.New("").Parse(podNetwork)).Execute(&out, values); err != nil {
		t.Fatal(err)
	}
	var list struct {
		Plugins []struct {
			Type string
			IPAM struct{ Ranges [][]struct{ Subnet string } }
		}
	}
	if err := json.Unmarshal(out.Bytes(), &list); err != nil {
		t.Fatalf("%v in\n%s", err, out.String())
	}
	if r := list.Plugins[0].IPAM.Ranges; len(r) != 2 || r[0][0].Subnet != "10.244.1.0/24" {
		t.Errorf("want a range for each subnet, got %+v", r)
	}
}

func TestManifestsAreYAML(t *testing.T) {
	for _, text := range []string{networkManifest, storageManifest} {
		var o map[string]any
		if err := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096).Decode(&o); err != nil || o["kind"] == nil {
			t.Errorf("want an object, got %v (error: %v)", o, err)
		}
	}
}

func TestRefFollowsEveryPart(t *testing.T) {
	release := versions.Default()
	ref := func(change string) string {
		b := builder{release: release, base: root{key: "root"}, paths: binaries.Paths{}}
		for _, name := range append(b.options.Components(release), proxy) {
			b.paths[name] = binaries.Binary{Path: "/cache/" + name + "-1/" + name}
		}
		if change == "root" {
			b.base.key = "other"
		} else if change != "" {
			b.paths[change] = binaries.Binary{Path: "/cache/" + change + "-2/" + change}
		}
		return b.ref()
	}
	before := ref("")
	if before != ref("") || !strings.HasPrefix(before, Repository+":v1.36.3-") {
		t.Errorf("want the same name twice, with the version, got %s and %s", before, ref(""))
	}
	for _, part := range append(Options{}.Components(release), proxy, "root") {
		if ref(part) == before {
			t.Errorf("%s does not change the image's name", part)
		}
	}
}

func TestWorkerNeedsNoControlPlane(t *testing.T) {
	names := Options{WorkerOnly: true}.Components(versions.Default())
	for name, want := range map[string]bool{"kubelet": true, "kubeadm": true, "containerd": true, "kube-apiserver": false, "etcd": false, "kubectl": false} {
		if got := slices.Contains(names, name); got != want {
			t.Errorf("%s in a worker's image: want %v, got %v", name, want, got)
		}
	}
}

func TestStreamTellsWhoFailed(t *testing.T) {
	broken, refused := errors.New("disk broken"), errors.New("refused")
	reads := func(r io.Reader) error { _, err := io.Copy(io.Discard, r); return err }
	for name, c := range map[string]struct {
		write func(io.Writer) error
		read  func(io.Reader) error
		want  []error
	}{
		"both fine":       {func(w io.Writer) error { _, err := w.Write([]byte("x")); return err }, reads, nil},
		"writer fails":    {func(io.Writer) error { return broken }, reads, []error{broken}},
		"reader goes":     {func(w io.Writer) error { _, err := w.Write(make([]byte, 1<<20)); return err }, func(io.Reader) error { return refused }, []error{refused}},
		"reader succeeds": {func(w io.Writer) error { _, err := w.Write(make([]byte, 1<<20)); return err }, func(io.Reader) error { return nil }, nil},
	} {
		err := stream(c.write, c.read)
		if (err == nil) != (len(c.want) == 0) {
			t.Errorf("%s: want %v, got %v", name, c.want, err)
		}
		for _, want := range c.want {
			if !errors.Is(err, want) {
				t.Errorf("%s: want %v, got %v", name, want, err)
			}
		}
	}
}

// TestCoreDNSIsWhatKubeadmConfigures: the version that it asks for, with all plugins of its configuration.
func TestCoreDNSIsWhatKubeadmConfigures(t *testing.T) {
	release := versions.Default()
	dir, err := binaries.ModuleDir(t.Context(), "k8s.io/kubernetes", release.Version)
	if err != nil {
		t.Fatal(err)
	}
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join(dir, "cmd", "kubeadm", "app", name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if want := fmt.Sprintf("CoreDNSVersion = %q", binaries.CoreDNSVersion); !strings.Contains(read("constants/constants.go"), want) {
		t.Errorf("want kubeadm %s to have %s", release.Version, want)
	}
	set, err := binaries.Select(release, versions.Embedded().Provisioner(), []string{"coredns"})
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(read("phases/addons/dns/manifests.go"), "Corefile: |\n    .:53 {\n")
	text, _, _ = strings.Cut(text, "\n    }\n")
	plugins := 0
	for line := range strings.Lines(text) {
		if len(line) < 9 || line[:8] != "        " || line[8] < 'a' || line[8] > 'z' {
			continue // a parameter
		}
		plugins++
		name := strings.Fields(line)[0]
		if name == "prometheus" {
			name = "metrics" // its package
		}
		if !strings.Contains(set[0].Main, "/coredns/plugin/"+name+"\"") {
			t.Errorf("want plugin %s in CoreDNS, which kubeadm configures", name)
		}
	}
	if plugins < 8 {
		t.Errorf("want the plugins of kubeadm's configuration, found %d in\n%s", plugins, text)
	}
}
