package drivers

import (
	"archive/tar"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"headroom/drivers/pods"
)

// withPods writes the definition of pods/testdata/steady, changed, with its manifests and an image, and returns the definition's path.
func withPods(t *testing.T, from, to string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("pods/testdata/steady")); err != nil {
		t.Fatal(err)
	}
	saveImage(t, filepath.Join(dir, "steady.tar"), "manifest.json", `[{"RepoTags": ["headroom.test/steady:1"]}]`)
	path := filepath.Join(dir, "driver.yaml")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if from != "" && !strings.Contains(string(text), from) {
		t.Fatalf("case changes nothing: %q is not in the file", from)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(text), from, to, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// saveImage writes an archive that has one file.
func saveImage(t *testing.T, path, name, text string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	out := tar.NewWriter(f)
	if err := out.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text))}); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestLoadPods(t *testing.T) {
	path := withPods(t, "", "")
	d, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if d.HasProcess() || !d.HasPods() || !d.PodsHaveController() || !d.ControllerApart() || d.HasController() || len(d.Files()) > 0 {
		t.Errorf("want pods and no process, got %+v", d)
	}
	if _, err := d.NodeCommand(instance); err == nil || !strings.Contains(err.Error(), "has pods only, and no node.command") {
		t.Errorf("want no command, and why, got %v", err)
	}
	if images, err := d.PulledImages(); err != nil || len(images) > 0 {
		t.Errorf("want no image to pull: the only one is in the archive; got %q (error: %v)", images, err)
	}
	if got, want := d.ImageArchives(), filepath.Join(filepath.Dir(path), "steady.tar"); len(got) != 1 || got[0] != want {
		t.Errorf("want archive %s, got %q", want, got)
	}
	run := pods.Run{ID: "a", Name: "d.test", Namespace: "ns", Node: pods.Blank("DaemonSet"), Controller: pods.Blank("Deployment"), Endpoint: pods.BlankEndpoint}
	i := instance
	i.StateDir = "/var/lib/x"
	r, err := d.Pods(i, run)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range r.Objects {
		if o.GetKind() != "DaemonSet" {
			continue
		}
		b, err := o.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{`"--driver-name=d.test"`, `"--seed=-7"`, `"path":"/var/lib/x"`, `"--min-interval=1s"`, `"imagePullPolicy":"IfNotPresent"`} {
			if !strings.Contains(string(b), want) {
				t.Errorf("want %s in the DaemonSet, got %s", want, b)
			}
		}
	}
	notes, err := Lint(path)
	if err != nil || !slices.Contains(notes, "pods: not applied: container registrar of DaemonSet/steady-node (registry.k8s.io/sig-storage/csi-node-driver-registrar:v2.16.0)") {
		t.Errorf("want a note of the registrar, got %q (error: %v)", notes, err)
	}
}

// TestBuiltInPods holds what is shipped to what users' definitions are held to.
func TestBuiltInPods(t *testing.T) {
	for _, name := range Names() {
		d, err := Load(name)
		if err != nil {
			t.Fatal(err)
		}
		if !d.HasPods() {
			continue
		}
		notes, err := d.LintPods()
		if err != nil || len(notes) == 0 {
			t.Errorf("%s: want its manifests sound, and sidecars among them, got %q (error: %v)", name, notes, err)
		}
		if images, err := d.PulledImages(); err != nil || len(images) != 1 {
			t.Errorf("%s: want the driver's image alone pulled, got %q (error: %v)", name, images, err)
		}
	}
}

func TestLoadPodsRefuses(t *testing.T) {
	for name, c := range map[string]struct{ from, to, want string }{
		"unknown field":       {"  images:", "  image:", `:14: pods.image: unknown field "image"; known: manifests, images, node, controller`},
		"unknown nested":      {"container: steady, socket: /csi", "containr: steady, socket: /csi", `:15: pods.node.containr: unknown field`},
		"neither way":         {"pods:", "xpods:", "unknown field"},
		"no manifests":        {"[deploy/rbac.yaml, deploy/driver.yaml]", "[]", ":13: pods.manifests: has no files"},
		"no kind":             {"DaemonSet/steady-node", "steady-node", `:15: pods.node.workload: want DaemonSet and a name, got "steady-node"`},
		"a node that is one":  {"DaemonSet/steady-node", "Deployment/steady-node", `:15: pods.node.workload: want DaemonSet and a name`},
		"a daemon controller": {"Deployment/steady-controller", "DaemonSet/steady-controller", `:16: pods.controller.workload: want Deployment or StatefulSet and a name`},
		"socket with scheme":  {"socket: /csi/csi.sock", "socket: 'unix:///csi/csi.sock'", `:15: pods.node.socket: want an absolute path`},
		"no name":             {"DaemonSet/steady-node", "DaemonSet/", `:15: pods.node.workload: want DaemonSet and a name, got "DaemonSet/"`},
		"one workload":        {"Deployment/steady-controller", "DaemonSet/steady-node", `:16: pods.controller.workload: DaemonSet/steady-node is the node's workload`},
		"socket not clean":    {"socket: /csi/csi.sock", "socket: /csi/../csi/csi.sock", `:15: pods.node.socket: want an absolute path`},
		"controller, no node": {"pods:", "controller: {command: [x, '${ENDPOINT}']}\npods:", `:12: controller: a controller's process without a node's`},
		"own node ids":        {"figures:", "nodeIDs: own\nfigures:", "nodeIDs: own goes with node processes that serve controller calls"},
	} {
		t.Run(name, func(t *testing.T) {
			path := withPods(t, c.from, c.to)
			if _, err := Load(path); err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), path) || !strings.Contains(err.Error(), "remedy") {
				t.Errorf("want the file, %q and a remedy, got %v", c.want, err)
			}
		})
	}
	head, _, _ := strings.Cut(minimal, "node:")
	if _, err := Load(write(t, head)); err == nil || !strings.Contains(err.Error(), `field "node" is missing, and so is "pods"`) {
		t.Errorf("want a definition refused that says of no way to run, got %v", err)
	}
	dynamic := strings.Replace(minimal, "kind: Driver", "kind: Driver\nvolumes: {provisioning: dynamic}\npods: {manifests: [a], node: {workload: DaemonSet/a, container: a, socket: /a/a}}", 1)
	if _, err := Load(write(t, dynamic+"controller: {command: [d, '${ENDPOINT}']}\n")); err == nil || !strings.Contains(err.Error(), "dynamic goes with a controller") {
		t.Errorf("want dynamic refused where the pods have no controller, got %v", err)
	}
}

// rewrite changes all manifests of a definition.
func rewrite(t *testing.T, path, from, to string) {
	t.Helper()
	for _, name := range []string{"deploy/rbac.yaml", "deploy/driver.yaml"} {
		file := filepath.Join(filepath.Dir(path), name)
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(strings.ReplaceAll(string(text), from, to)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPodsTakeShortNames: the manifests may name an image in short and the archive in full, and the archive may be anywhere.
func TestPodsTakeShortNames(t *testing.T) {
	archive := filepath.Join(t.TempDir(), "elsewhere.tar")
	saveImage(t, archive, "manifest.json", `[{"RepoTags": ["docker.io/library/steady:latest"]}]`)
	path := withPods(t, "steady.tar", archive)
	rewrite(t, path, "headroom.test/steady:1", "steady")
	if _, err := Lint(path); err != nil {
		t.Errorf("want the image found, got %v", err)
	}
	d, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if images, err := d.PulledImages(); err != nil || len(images) > 0 {
		t.Errorf("want no image pulled, got %q (error: %v)", images, err)
	}
}

// TestNotesOfPodsOnly says nothing of processes that there are none of.
func TestNotesOfPodsOnly(t *testing.T) {
	notes, err := Lint(withPods(t, "figures:", "limit: fixed\nfigures:"))
	if err != nil || !strings.Contains(notes[0], "limit: fixed") || strings.Contains(strings.Join(notes, "\n"), "no process") {
		t.Errorf("want a note of the fixed limit and none of processes, got %q (error: %v)", notes, err)
	}
}

func TestLintPodsRefuses(t *testing.T) {
	for name, c := range map[string]struct{ from, to, want string }{
		"no such manifest":    {"deploy/rbac.yaml", "deploy/none.yaml", `:13: pods.manifests[0]: open `},
		"no such archive":     {"steady.tar", "none.tar", `:14: pods.images[0]: open `},
		"manifest, a folder":  {"deploy/rbac.yaml", "deploy", `:13: pods.manifests[0]: read `},
		"manifest, a device":  {"deploy/rbac.yaml", "/dev/zero", `:13: pods.manifests[0]: read /dev/zero: want a file, got one of mode`},
		"archive, a device":   {"[steady.tar]", "[/dev/zero]", `:14: pods.images[0]: read /dev/zero: want a file, got one of mode`},
		"no archive":          {"steady.tar", "driver.yaml", `want an archive of images, uncompressed`},
		"no such workload":    {"DaemonSet/steady-node", "DaemonSet/other", `:15: pods.node.workload: DaemonSet/other is in no manifest`},
		"no such container":   {"container: steady, socket: /run", "container: none, socket: /run", `:16: pods.controller.container: Deployment/steady-controller has no container "none"`},
		"socket in no volume": {"/csi/csi.sock", "/tmp/csi.sock", `:15: pods.node.socket: /tmp/csi.sock is in no volume`},
	} {
		t.Run(name, func(t *testing.T) {
			path := withPods(t, c.from, c.to)
			_, err := Lint(path)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "remedy") {
				t.Fatalf("want %q and a remedy, got %v", c.want, err)
			}
			if strings.Contains(err.Error(), "no container runs that") {
				t.Errorf("want nothing said of images that are not known, got %v", err)
			}
			d, err := Load(path)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := d.LintPods(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("of the definition alone: want %q, got %v", c.want, err)
			}
			if err := d.LintProcesses(); err != nil {
				t.Errorf("for those who start no pods: want nothing said of them, got %v", err)
			}
		})
	}
	path := withPods(t, "", "")
	saveImage(t, filepath.Join(filepath.Dir(path), "steady.tar"), "index.json", `{"manifests": [{"annotations": {"io.containerd.image.name": "headroom.test/steady:2"}}]}`)
	if _, err := Lint(path); err == nil || !strings.Contains(err.Error(), ":14: pods.images[0]: has headroom.test/steady:2, and no container runs that: the manifests name headroom.test/steady:1") {
		t.Errorf("want an image of another tag refused, got %v", err)
	}
	saveImage(t, filepath.Join(filepath.Dir(path), "steady.tar"), "manifest.json", `[{}]`)
	if _, err := Lint(path); err == nil || !strings.Contains(err.Error(), "has no image with a name and a tag") {
		t.Errorf("want an image without a name refused, got %v", err)
	}
	path = withPods(t, "", "")
	rewrite(t, path, "${BACKEND}", "none")
	if _, err := Lint(path); err == nil || !strings.Contains(err.Error(), "pods.manifests: with limit: backend, want ${BACKEND} in one of them") {
		t.Errorf("want ${BACKEND} missed, got %v", err)
	}
	path = withPods(t, "", "")
	rbac := filepath.Join(filepath.Dir(path), "deploy/rbac.yaml")
	if err := os.WriteFile(rbac, []byte("kind: [\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Lint(path); err == nil || !strings.Contains(err.Error(), rbac+":1: not YAML") {
		t.Errorf("want the manifest's line, got %v", err)
	}
}
