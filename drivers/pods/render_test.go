package pods

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

var update = flag.Bool("update", false, "write the golden file anew")

// The parts of testdata/steady, as its driver.yaml says them.
var (
	node       = Part{Kind: "DaemonSet", Name: "steady-node", Container: "steady", Socket: "/csi/csi.sock"}
	controller = Part{Kind: "Deployment", Name: "steady-controller", Container: "steady", Socket: "/run/csi/csi.sock", Sidecars: []string{"lease-keeper"}}
)

// values of a run.
var values = map[string]string{
	"DRIVER_NAME": "d.test", "BACKEND": "http://10.0.0.2:8970", "NAMESPACE": "headroom-abc", "STATE_DIR": "/var/lib/headroom/abc", "SEED": "7", "MIN_INTERVAL": "1s",
	"CACHE_AGE": "2s", "LAST_GOOD_LIFE": "30s", "STEP": "2", "STEP_INTERVAL": "10s",
}

// ours is a workload as a run has it for drivers that are programs.
func ours(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	all, err := Read([]File{{Name: "ours.yaml", Text: []byte(text)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return all[0].Unstructured
}

// aRun adds a gate to the node, and a gate and an attacher to the controller.
func aRun(t *testing.T) Run {
	return Run{
		ID: "abc", Name: "d.test", Namespace: "headroom-abc", Endpoint: "unix:///csi/driver.sock", Token: map[string]string{"token": "t", "ca.crt": "c", "namespace": "n"},
		Annotations: map[string]string{"headroom.dev/definition": "steady-pods"},
		Loaded:      func(image string) bool { return image == "headroom.test/steady:1" },
		Node: ours(t, `{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: node-abc}, spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {
  nodeSelector: {driver.headroom.dev/abc: "true"}, tolerations: [{operator: Exists}],
  containers: [{name: driver, image: "headroom:1"},
    {name: gate, image: "headroom:1", command: [node-gate, --driver, "unix:///csi/driver.sock"], volumeMounts: [{name: csi, mountPath: /csi}, {name: kubelet, mountPath: /var/lib/kubelet}]}],
  volumes: [{name: csi, emptyDir: {}}, {name: state, emptyDir: {}}, {name: kubelet, hostPath: {path: /var/lib/kubelet}}]}}}}`),
		Controller: ours(t, `{apiVersion: apps/v1, kind: Deployment, metadata: {name: controller-abc}, spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {
  serviceAccountName: csi-attacher, nodeSelector: {node-role.kubernetes.io/control-plane: ""}, tolerations: [{operator: Exists}],
  containers: [{name: driver, image: "headroom:1"},
    {name: gate, image: "headroom:1", command: [controller-gate, --listen, /csi/csi.sock, "--driver=unix:///csi/driver.sock"], volumeMounts: [{name: csi, mountPath: /csi}]},
    {name: attacher, image: "csi-attacher:1", command: [csi-attacher], volumeMounts: [{name: csi, mountPath: /csi}]}],
  volumes: [{name: csi, emptyDir: {}}]}}}}`),
	}
}

// manifests are those of testdata/steady, changed.
func manifests(t *testing.T, from, to string) (files []File) {
	t.Helper()
	changed := from == ""
	for _, name := range []string{"rbac.yaml", "driver.yaml"} {
		text, err := os.ReadFile(filepath.Join("testdata/steady/deploy", name))
		if err != nil {
			t.Fatal(err)
		}
		if !changed && strings.Contains(string(text), from) {
			text, changed = []byte(strings.Replace(string(text), from, to, 1)), true
		}
		files = append(files, File{Name: name, Text: text})
	}
	if !changed {
		t.Fatalf("case changes nothing: %q is in no manifest", from)
	}
	return files
}

func TestRender(t *testing.T) {
	objects, err := Read(manifests(t, "", ""), values)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Render(objects, node, &controller, aRun(t))
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	for _, what := range r.Replaced {
		got.WriteString("# not applied: " + what + "\n")
	}
	out := yaml.NewEncoder(&got)
	out.SetIndent(2)
	for _, o := range r.Objects {
		if b, err := o.MarshalJSON(); err != nil {
			t.Fatal(err)
		} else if o.GetKind() != "Namespace" && o.GetName() != tokenVolume {
			if err := o.check(b); err != nil {
				t.Errorf("what is rendered is none of what the API server takes: %v", err)
			}
		}
		if err := out.Encode(o.Object); err != nil {
			t.Fatal(err)
		}
	}
	const golden = "testdata/steady/rendered.golden"
	if *update {
		if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil || got.String() != string(want) {
		t.Errorf("not what %s has (%v): run go test ./drivers/pods -run TestRender -update and look at the difference", golden, err)
	}
}

// TestRenderSeveral shows that drivers of one definition share no name outside their namespaces.
func TestRenderSeveral(t *testing.T) {
	seen := map[string]bool{}
	for _, id := range []string{"abc", "def"} {
		objects, err := Read(manifests(t, "", ""), values)
		if err != nil {
			t.Fatal(err)
		}
		run := aRun(t)
		run.ID, run.Namespace = id, "headroom-"+id
		r, err := Render(objects, node, &controller, run)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range r.Objects {
			key := o.GetNamespace() + "/" + o.String()
			if seen[key] || o.GetLabels()[DriverLabel] != id {
				t.Errorf("want %s once, and with its driver's label, got labels %v", key, o.GetLabels())
			}
			seen[key] = true
		}
	}
}

func TestRenderRefuses(t *testing.T) {
	elsewhere := node
	elsewhere.Socket = "/tmp/csi.sock"
	for want, c := range map[string]struct {
		node     Part
		endpoint string
	}{
		"calls the driver at unix:///elsewhere":                  {node, "unix:///elsewhere"},
		"driver.yaml:6: DaemonSet/steady-node: /tmp/csi.sock is": {elsewhere, "unix:///csi/driver.sock"},
	} {
		objects, err := Read(manifests(t, "", ""), values)
		if err != nil {
			t.Fatal(err)
		}
		run := aRun(t)
		run.Endpoint = c.endpoint
		if _, err := Render(objects, c.node, &controller, run); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

// TestRenderPutsWorkloadsLast: what pods need is there before them, in whatever order the author has his files.
func TestRenderPutsWorkloadsLast(t *testing.T) {
	files := manifests(t, "", "")
	slices.Reverse(files)
	objects, err := Read(files, values)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Render(objects, node, &controller, aRun(t))
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, o := range r.Objects {
		kinds = append(kinds, o.GetKind())
	}
	want := []string{"Namespace", "Secret", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "ConfigMap", "PriorityClass", "DaemonSet", "Deployment", "Deployment"}
	if !slices.Equal(kinds, want) {
		t.Errorf("want %q, got %q", want, kinds)
	}
}

// TestRenderLeavesPullingToTheAuthor shows that only of an image that the nodes have already none is pulled.
func TestRenderLeavesPullingToTheAuthor(t *testing.T) {
	for name, c := range map[string]struct {
		loaded func(string) bool
		want   string
	}{
		"it is there": {func(string) bool { return true }, "IfNotPresent"},
		"it is not":   {func(string) bool { return false }, "Always"},
		"not known":   {nil, "Always"},
	} {
		objects, err := Read(manifests(t, "", ""), values)
		if err != nil {
			t.Fatal(err)
		}
		run := aRun(t)
		run.Loaded = c.loaded
		r, err := Render(objects, node, &controller, run)
		if err != nil {
			t.Fatal(err)
		}
		if got := find(r.Objects, node).container("steady").text("imagePullPolicy"); got != c.want {
			t.Errorf("%s: want %s, got %s", name, c.want, got)
		}
	}
}

// TestDriverWhoseImageIsCalledAsASidecar is kept: its definition says which container it is.
func TestDriverWhoseImageIsCalledAsASidecar(t *testing.T) {
	const image = "registry.example/external-attacher-driver:1"
	objects, err := Read(manifests(t, "image: headroom.test/steady:1", "image: "+image), values)
	if err != nil {
		t.Fatal(err)
	}
	if got := Images(objects, node, controller); !slices.Contains(got, image) {
		t.Errorf("want %s among the images, got %q", image, got)
	}
	r, err := Render(objects, node, &controller, aRun(t))
	if err != nil {
		t.Fatal(err)
	}
	if c := find(r.Objects, node).container("steady"); c.text("image") != image {
		t.Errorf("want the driver's container kept, got %v", c)
	}
}

// TestRenderSharesTheSocketOfNodes: where the nodes' pods serve controller calls, each driver listens in a folder of its node's that all nodes have.
func TestRenderSharesTheSocketOfNodes(t *testing.T) {
	const mounted = "{name: socket, mountPath: /csi}"
	for name, c := range map[string]struct{ to, below, socket string }{
		"as they are":           {mounted, "$(HEADROOM_NODE)", "csi.sock"},
		"in a part of it":       {"{name: socket, mountPath: /csi, subPath: a/b}", "$(HEADROOM_NODE)/a/b", "a/b/csi.sock"},
		"another mount, by env": {mounted + "\n            - {name: socket, mountPath: /more, subPathExpr: $(POD)}", "$(HEADROOM_NODE)", "csi.sock"},
	} {
		objects, err := Read(manifests(t, mounted, c.to), values)
		if err != nil {
			t.Fatal(err)
		}
		run := aRun(t)
		run.Controller, run.Sockets = nil, "/run/sockets"
		r, err := Render(objects, node, nil, run)
		if err != nil || r.Socket != c.socket {
			t.Errorf("%s: want the socket at %q, got %q (error: %v)", name, c.socket, r.Socket, err)
		}
		if find(r.Objects, Part{Kind: "Secret", Name: tokenVolume}) != nil {
			t.Errorf("%s: want no credentials where no attacher is beside the driver", name)
		}
		o := find(r.Objects, node)
		for _, v := range objectsIn(o.podSpec()["volumes"]) {
			if host := object(v["hostPath"]); v["name"] == "socket" && (host["path"] != "/run/sockets" || v["emptyDir"] != nil) {
				t.Errorf("%s: want the volume in the run's folder, got %v", name, v)
			}
		}
		for _, container := range []string{"steady", "gate"} {
			in := o.container(container)
			var paths []string
			for _, m := range in.list("volumeMounts") {
				if m["name"] == "socket" {
					paths = append(paths, m["subPathExpr"].(string))
				}
				if m["subPath"] != nil {
					t.Errorf("%s: want no subPath beside a subPathExpr, got %v", name, m)
				}
			}
			variables := 0
			for _, e := range in.list("env") {
				if e["name"] == nodeVariable {
					variables++
				}
			}
			if paths[0] != c.below || variables != 1 {
				t.Errorf("%s: container %s: want its mount below %q and the node's name once, got %q and %d", name, container, c.below, paths, variables)
			}
			if strings.Contains(c.to, "POD") && container == "steady" && (len(paths) != 2 || paths[1] != "$(HEADROOM_NODE)/$(POD)") {
				t.Errorf("%s: want the other mount below the node's, too, got %q", name, paths)
			}
		}
		if b, err := o.MarshalJSON(); err != nil {
			t.Fatal(err)
		} else if err := o.check(b); err != nil {
			t.Errorf("%s: none of what the API server takes: %v", name, err)
		}
	}
}

func TestProbesOfALivenessprobeGoAndOthersStay(t *testing.T) {
	for name, c := range map[string]struct {
		from, to string
		stays    bool
	}{
		"its port, by name":            {"port: healthz", "port: healthz", false},
		"its port, by number":          {"port: healthz", "port: 9898", false},
		"readiness":                    {"livenessProbe: {", "readinessProbe: {", false},
		"startup":                      {"livenessProbe: {", "startupProbe: {", false},
		"half of two words":            {"--health-port=9898", "--health-port", false},
		"two words":                    {"--health-port=9898", "--health-port, '9898'", false},
		"its address":                  {"--health-port=9898", "'--http-endpoint=:9898'", false},
		"what it says is not told":     {"--health-port=9898", "--health-port=$(PORT)", false},
		"the default is another":       {", --health-port=9898", "", true},
		"the default, of no sidecar":   {"port: healthz", "port: 9808", true},
		"another port":                 {"port: healthz", "port: 80", true},
		"no HTTP":                      {"httpGet: {path: /healthz, port: healthz}", "exec: {command: [x]}", true},
		"the livenessprobe is another": {"sig-storage/livenessprobe:v2.18.0", "mine/health:1", true},
	} {
		objects, err := Read(manifests(t, c.from, c.to), values)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		o := find(objects, node)
		o.dropSidecars("steady", nil)
		has := false
		for _, kind := range []string{"livenessProbe", "readinessProbe", "startupProbe"} {
			has = has || o.container("steady")[kind] != nil
		}
		if has != c.stays {
			t.Errorf("%s: want the probe to stay: %t", name, c.stays)
		}
	}
}

// TestProbeThatNoLivenessprobeAnswersStays: where a livenessprobe does not say its port, only the path that it serves is taken for its.
func TestProbeThatNoLivenessprobeAnswersStays(t *testing.T) {
	files := manifests(t, "path: /healthz", "path: /live")
	for i := range files {
		files[i].Text = bytes.ReplaceAll(files[i].Text, []byte("--health-port=9898"), []byte("--health-port=$(PORT)"))
	}
	objects, err := Read(files, values)
	if err != nil {
		t.Fatal(err)
	}
	o := find(objects, node)
	o.dropSidecars("steady", nil)
	if o.container("steady")["livenessProbe"] == nil {
		t.Error("want the probe of another path to stay")
	}
}

func TestSidecarOf(t *testing.T) {
	for image, want := range map[string]string{
		"registry.k8s.io/sig-storage/csi-node-driver-registrar:v2.16.0":         "node-driver-registrar",
		"public.ecr.aws/eks-distro/kubernetes-csi/external-attacher:v4.8":       "external-attacher",
		"localhost:5000/rancher/mirrored-sig-storage-csi-attacher@sha256:00":    "csi-attacher",
		"quay.io/openshift/ose-csi-external-provisioner-rhel9:v4":               "external-provisioner",
		"mcr.microsoft.com/oss/kubernetes-csi/livenessprobe":                    "livenessprobe",
		"registry.k8s.io/sig-storage/hostpathplugin:v1.17.1":                    "",
		"registry.example/csi-attacher/driver:1":                                "",
		"registry.k8s.io/sig-storage/snapshot-controller:v8":                    "",
		"registry.example/driver:csi-attacher":                                  "",
		"registry.k8s.io/sig-storage/csi-external-health-monitor-controller:v0": "external-health-monitor",
	} {
		if got := sidecarOf(image); got != want {
			t.Errorf("%s: want %q, got %q", image, want, got)
		}
	}
}

func TestImages(t *testing.T) {
	objects, err := Read(manifests(t, "", ""), AsWritten())
	if err != nil {
		t.Fatal(err)
	}
	if got := Images(objects, node, controller); !slices.Equal(got, []string{"headroom.test/steady:1"}) {
		t.Errorf("want the driver's image alone, got %q", got)
	}
	for image, want := range map[string]string{
		"a": "docker.io/library/a:latest", "a:1": "docker.io/library/a:1", "o/a:1": "docker.io/o/a:1", "r.io/a": "r.io/a:latest", "localhost/a:1": "localhost/a:1",
		"r:5000/a@sha256:0": "r:5000/a@sha256:0",
	} {
		if got := Normal(image); got != want {
			t.Errorf("%s: want %s, got %s", image, want, got)
		}
	}
}

// TestReadAList takes what kubectl get -o yaml and some generators write.
func TestReadAList(t *testing.T) {
	b, err := utiljson.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": []any{
		map[string]any{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": map[string]any{"name": "a"}},
		map[string]any{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": map[string]any{"name": "b"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if all, err := Read([]File{{"l.json", b}}, values); err != nil || len(all) != 2 || all[1].String() != "ServiceAccount/b" {
		t.Errorf("want two objects, got %v (error: %v)", all, err)
	}
}

// TestRenderKeepsBindingsTrue: a binding says of the objects that were renamed and moved what it said before, and of all others too.
func TestRenderKeepsBindingsTrue(t *testing.T) {
	const role, cluster = "apiGroup: rbac.authorization.k8s.io, kind: Role, name: ", "apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "
	binding := func(kind, name, ref string) string {
		return "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: " + kind + "\nmetadata: {name: " + name + "}\nroleRef: {" + ref + "}\n" +
			"subjects: [{kind: ServiceAccount, name: s, namespace: theirs}, {apiGroup: rbac.authorization.k8s.io, kind: User, name: u}]\n"
	}
	files := manifests(t, "", "")
	files = append(files, File{Name: "bindings.yaml", Text: []byte("apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: steady}\n" +
		binding("RoleBinding", "own", role+"steady") + binding("RoleBinding", "shared", cluster+"steady") + binding("ClusterRoleBinding", "given", cluster+"view"))})
	objects, err := Read(files, values)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Render(objects, node, &controller, aRun(t))
	if err != nil {
		t.Fatal(err)
	}
	refs := map[string]string{"RoleBinding/own": "steady", "RoleBinding/shared": "steady-abc", "ClusterRoleBinding/given-abc": "view"}
	for _, o := range r.Objects {
		want, ours := refs[o.String()]
		if !ours {
			continue
		}
		delete(refs, o.String())
		subjects := objectsIn(o.Object["subjects"])
		if got := object(o.Object["roleRef"])["name"]; got != want || subjects[0]["namespace"] != "headroom-abc" || subjects[1]["namespace"] != nil {
			t.Errorf("%s: want role %s for a service account of the driver's namespace and a user of none, got %v for %v", o, want, got, subjects)
		}
	}
	if len(refs) > 0 {
		t.Errorf("want these bindings, too: %v", refs)
	}
}

// TestSocketIsInTheInnermostVolume finds the volume that the driver really listens in.
func TestSocketIsInTheInnermostVolume(t *testing.T) {
	const mounted, more = "{name: socket, mountPath: /csi}", "\n            - "
	for name, c := range map[string]struct{ to, rest string }{
		"as it is":                {mounted, "csi.sock"},
		"the root":                {"{name: socket, mountPath: /}", "csi/csi.sock"},
		"not a clean path":        {"{name: socket, mountPath: csi/}", "csi.sock"},
		"the inner one first":     {mounted + more + "{name: state, mountPath: /}", "csi.sock"},
		"the inner one last":      {"{name: state, mountPath: /}" + more + mounted, "csi.sock"},
		"names that begin alike":  {mounted + more + "{name: state, mountPath: /cs}", "csi.sock"},
		"the socket's own folder": {"{name: state, mountPath: /csi/csi.sock/more}" + more + mounted, "csi.sock"},
	} {
		objects, err := Read(manifests(t, mounted, c.to), AsWritten())
		if err != nil {
			t.Fatal(err)
		}
		at, err := find(objects, node).socket(node)
		if err != nil || at.volume["name"] != "socket" || at.rest != c.rest {
			t.Errorf("%s: want %s in volume socket, got %s in %v (error: %v)", name, c.rest, at.rest, at.volume, err)
		}
	}
}
