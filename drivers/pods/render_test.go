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
		Loaded: func(image string) bool { return image == "headroom.test/steady:1" },
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

func TestRenderWantsAGateThatCallsTheDriver(t *testing.T) {
	objects, err := Read(manifests(t, "", ""), values)
	if err != nil {
		t.Fatal(err)
	}
	run := aRun(t)
	run.Endpoint = "unix:///elsewhere"
	if _, err := Render(objects, node, &controller, run); err == nil || !strings.Contains(err.Error(), "unix:///elsewhere") {
		t.Errorf("want an error that names the endpoint, got %v", err)
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
		"two words":                    {"--health-port=9898", "--health-port, '9898'", false},
		"its address":                  {"--health-port=9898", "'--http-endpoint=:9898'", false},
		"what it says is not told":     {"--health-port=9898", "--health-port=$(PORT)", false},
		"the default is another":       {", --health-port=9898", "", true},
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
		if _, has := o.container("steady")["livenessProbe"]; has != c.stays {
			t.Errorf("%s: want the probe to stay: %t", name, c.stays)
		}
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
