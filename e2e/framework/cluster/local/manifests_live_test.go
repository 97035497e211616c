package local

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/restmapper"
	testingmanifests "k8s.io/kubernetes/test/e2e/testing-manifests"

	"headroom/drivers/pods"
	"headroom/fixtures/manifests"
)

// refusal is what an API server says against an object of a manifest.
type refusal struct {
	file, object string
	// field is the path in the object, "" where the server names none.
	field, message string
}

func (r refusal) String() string {
	return fmt.Sprintf("%s: %s: field %q: %s", r.file, r.object, r.field, r.message)
}

// undeclared is how server-side apply names a field that the server does not have.
var undeclared = regexp.MustCompile(`(\.\S+): field not declared in schema`)

// refusals are those that are in the error of one object.
func refusals(file, object string, err error) []refusal {
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Details != nil && len(status.Status().Details.Causes) > 0 {
		var all []refusal
		for _, c := range status.Status().Details.Causes {
			all = append(all, refusal{file, object, c.Field, c.Message})
		}
		return all
	}
	field := ""
	if m := undeclared.FindStringSubmatch(err.Error()); m != nil {
		field = strings.TrimPrefix(m[1], ".")
	}
	return []refusal{{file, object, field, err.Error()}}
}

// dryRun applies manifests to a cluster, which keeps nothing of them but their namespaces: the server looks at no object of a namespace that it does not have.
type dryRun struct {
	client  kubernetes.Interface
	dynamic dynamic.Interface
	mapper  meta.RESTMapper
}

func newDryRun(cell *testCluster) (*dryRun, error) {
	groups, err := restmapper.GetAPIGroupResources(cell.client.Discovery())
	if err != nil {
		return nil, err
	}
	d, err := dynamic.NewForConfig(cell.RESTConfig())
	return &dryRun{cell.client, d, restmapper.NewDiscoveryRESTMapper(groups)}, err
}

// apply returns what the server refuses of a manifest, and how many objects that has. An error is not about the manifest.
func (d *dryRun) apply(ctx context.Context, file string, manifest []byte) (all []refusal, objects int, err error) {
	for in := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(manifest))); ; {
		doc, err := in.Read()
		if errors.Is(err, io.EOF) {
			return all, objects, nil
		}
		if err != nil {
			return nil, 0, err
		}
		var o unstructured.Unstructured
		if err := yaml.Unmarshal(doc, &o.Object); err != nil {
			return nil, 0, fmt.Errorf("%s: %w", file, err)
		}
		if len(o.Object) == 0 {
			continue // a document of comments
		}
		objects++
		object := fmt.Sprintf("%s %q", o.GetKind(), o.GetName())
		kind := o.GroupVersionKind()
		mapping, err := d.mapper.RESTMapping(kind.GroupKind(), kind.Version)
		if meta.IsNoMatchError(err) {
			all = append(all, refusal{file, object, "kind", err.Error()})
			continue
		}
		if err != nil {
			return nil, 0, err
		}
		var client dynamic.ResourceInterface = d.dynamic.Resource(mapping.Resource)
		if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
			namespace := o.GetNamespace()
			if namespace == "" {
				namespace = metav1.NamespaceDefault
			}
			if err := d.namespace(ctx, namespace); err != nil {
				return nil, 0, err
			}
			client = d.dynamic.Resource(mapping.Resource).Namespace(namespace)
		}
		// The document goes as it is written: the server sees what decoding it here would lose, such as a key that comes twice.
		force := true
		_, err = client.Patch(ctx, o.GetName(), types.ApplyPatchType, doc, metav1.PatchOptions{
			DryRun: []string{metav1.DryRunAll}, FieldManager: "headroom", FieldValidation: metav1.FieldValidationStrict, Force: &force,
		})
		if err != nil {
			all = append(all, refusals(file, object, err)...)
		}
	}
}

func (d *dryRun) namespace(ctx context.Context, name string) error {
	_, err := d.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// plantedManifests are to be refused, so that one that is not shows something. A field that is younger than the server is one of them there only.
var plantedManifests = []struct {
	name, manifest, object, field string
	// since is the minor release that has the field; 0 is none.
	since int
}{
	{"no such field", "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: planted}\nautomount: true\n", `ServiceAccount "planted"`, "automount", 0},
	{"no such field, deep down", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: planted}\nspec:\n  selector: {matchLabels: {a: b}}\n  template:\n" +
		"    metadata: {labels: {a: b}}\n    spec:\n      hostNet: true\n      containers: [{name: c, image: i}]\n", `Deployment "planted"`, "spec.template.spec.hostNet", 0},
	{"a value out of range", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: planted}\nspec:\n  replicas: -1\n  selector: {matchLabels: {a: b}}\n" +
		"  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}\n", `Deployment "planted"`, "spec.replicas", 0},
	{"no such kind", "apiVersion: storage.k8s.io/v1\nkind: CSIDrive\nmetadata: {name: planted}\n", `CSIDrive "planted"`, "kind", 0},
	{"a field of 1.36", "apiVersion: storage.k8s.io/v1\nkind: CSIDriver\nmetadata: {name: planted}\nspec: {preventPodSchedulingIfMissing: true}\n",
		`CSIDriver "planted"`, "spec.preventPodSchedulingIfMissing", 36},
}

// seeManifests applies every manifest that the repository ships or that its documents tell users to apply, server-side and as a dry run.
func seeManifests(t *testing.T, cell *testCluster) {
	d, err := newDryRun(cell)
	if err != nil {
		t.Fatal(err)
	}
	server := cell.options.Versions["kube-apiserver"]
	for _, p := range plantedManifests {
		all, _, err := d.apply(t.Context(), "planted.yaml", []byte(p.manifest))
		if err != nil {
			t.Fatalf("%s: %v", p.name, err)
		}
		refused := slices.ContainsFunc(all, func(r refusal) bool { return r.file == "planted.yaml" && r.object == p.object && r.field == p.field })
		if want := p.since == 0 || server.Minor() < p.since; refused != want || !want && len(all) > 0 {
			t.Errorf("%s: want %s refused for field %q: %t, got %q", p.name, p.object, p.field, want, all)
		}
	}
	shipped, err := shippedManifests()
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, m := range shipped {
		all, objects, err := d.apply(t.Context(), m.file, m.text)
		if err != nil {
			t.Fatal(err)
		}
		if objects == 0 {
			t.Errorf("%s: want objects in it, got none", m.file)
		}
		for _, r := range all {
			t.Errorf("kube-apiserver %s refuses %s", server, r)
		}
		total += objects
	}
	t.Logf("kube-apiserver %s: %d objects of %d manifests applied as a dry run", server, total, len(shipped))
}

type manifest struct {
	file string
	text []byte
}

// hostpathManifests are those of csi-driver-host-path with its sidecars, in k8s.io/kubernetes. Its VolumeSnapshotClass is left out: the kind is
// external-snapshotter's, which no cluster has by itself, and of no use here.
var hostpathManifests = []string{
	"hostpath/hostpath/csi-hostpath-driverinfo.yaml", "hostpath/hostpath/csi-hostpath-plugin.yaml", "hostpath/hostpath/csi-hostpath-testing.yaml",
	"hostpath/hostpath/e2e-test-rbac.yaml", "external-attacher/rbac.yaml", "external-provisioner/rbac.yaml", "external-resizer/rbac.yaml",
	"external-snapshotter/csi-snapshotter/rbac-csi-snapshotter.yaml", "external-health-monitor/external-health-monitor-controller/rbac.yaml",
}

// shippedManifests are all of fixtures/manifests, filled in, and csi-driver-host-path's.
func shippedManifests() (all []manifest, err error) {
	base := manifests.Base{Image: "registry.example/headroom:v1", Run: "r", RunDir: "/headroom/run", Address: "10.0.0.2", Port: 8970, UID: 1000}
	driver := manifests.Driver{
		Base: base, ID: "abc", Name: "planted.headroom.test", Definition: "steady", Reference: "steady", Backend: "http://10.0.0.2:8970", Attacher: image + "v4.12.0",
		APIServer: "10.0.0.2", Controller: []string{"headroom:steady", `--x="quoted"`}, Node: []string{"headroom:steady", "$(NODE_NAME)"},
		Set: "true", Endpoint: "unix:///csi/driver.sock",
	}
	values := map[string]any{"base.yaml": base, "driver.yaml": driver, "driver-node.yaml": driver}
	for _, file := range manifests.Files() {
		if file == "alerts.yaml" {
			continue // a file of Prometheus, not of Kubernetes: `make alerts-test`
		}
		text, err := manifests.Raw(file)
		if v, ok := values[file]; ok {
			text, err = manifests.Render(file, v)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, manifest{"fixtures/manifests/" + file, text})
	}
	byAuthors, err := renderedPods()
	if err != nil {
		return nil, err
	}
	all = append(all, byAuthors...)
	serving, dynamic := driver, driver
	serving.Controller, serving.Sockets, serving.NodeSuffix, serving.Set = nil, "kind/drivers/abc", "/csi.sock", "5"
	dynamic.Provisioner = "registry.example/csi-provisioner:v5.3.0"
	for name, d := range map[string]manifests.Driver{"nodes serve controller calls": serving, "dynamic volumes": dynamic} {
		for _, file := range []string{"driver.yaml", "driver-node.yaml"} {
			text, err := manifests.Render(file, d)
			if err != nil {
				return nil, err
			}
			all = append(all, manifest{"fixtures/manifests/" + file + ", " + name, text})
		}
	}
	upstream := testingmanifests.GetE2ETestingManifestsFS().EmbeddedFS
	for _, file := range hostpathManifests {
		text, err := upstream.ReadFile(path.Join("storage-csi", file))
		if err != nil {
			return nil, fmt.Errorf("k8s.io/kubernetes test/e2e/testing-manifests: %w", err)
		}
		all = append(all, manifest{"testing-manifests/storage-csi/" + file, text})
	}
	return all, nil
}

// renderedPods are the objects that run a driver by manifests: those that ship, and those of the tests, which have a controller.
func renderedPods() (all []manifest, err error) {
	driver := manifests.Driver{
		Base: manifests.Base{Image: "registry.example/headroom:v1", RunDir: "/headroom/run"}, ID: "abc", Attacher: image + "v4.12.0", APIServer: "10.0.0.2",
		Set: "true", Endpoint: "unix:///csi/driver.sock",
	}
	run := pods.Run{ID: "abc", Name: "planted.headroom.test", Namespace: "headroom-abc", Endpoint: driver.Endpoint, Token: map[string]string{"token": "t"}}
	for file, into := range map[string]**unstructured.Unstructured{"driver-node.yaml": &run.Node, "driver.yaml": &run.Controller} {
		text, err := manifests.Render(file, driver)
		if err != nil {
			return nil, err
		}
		var o unstructured.Unstructured
		if err := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096).Decode(&o.Object); err != nil {
			return nil, err
		}
		*into = &o
	}
	fixture := "../../../../drivers/pods/testdata/steady/deploy/"
	for _, d := range []struct {
		files      []string
		node       pods.Part
		controller *pods.Part
	}{
		{[]string{"../../../../drivers/manifests/hostpath.yaml"}, pods.Part{Kind: "DaemonSet", Name: "csi-hostpathplugin", Container: "hostpath", Socket: "/csi/csi.sock"}, nil},
		{[]string{fixture + "rbac.yaml", fixture + "driver.yaml"}, pods.Part{Kind: "DaemonSet", Name: "steady-node", Container: "steady", Socket: "/csi/csi.sock"},
			&pods.Part{Kind: "Deployment", Name: "steady-controller", Container: "steady", Socket: "/run/csi/csi.sock"}},
	} {
		var files []pods.File
		for _, name := range d.files {
			text, err := os.ReadFile(name)
			if err != nil {
				return nil, err
			}
			files = append(files, pods.File{Name: name, Text: text})
		}
		values := pods.AsWritten()
		for name := range values {
			values[name] = "1"
		}
		values["STATE_DIR"], values["DRIVER_NAME"] = "/var/lib/headroom/abc", run.Name
		objects, err := pods.Read(files, values)
		if err != nil {
			return nil, err
		}
		with := run
		with.Node = run.Node.DeepCopy()
		if d.controller != nil {
			with.Controller = run.Controller.DeepCopy()
		} else {
			with.Controller, with.Sockets = nil, "/headroom/run/kind/drivers/abc"
		}
		r, err := pods.Render(objects, d.node, d.controller, with)
		if err != nil {
			return nil, err
		}
		for _, o := range r.Objects {
			text, err := o.MarshalJSON()
			if err != nil {
				return nil, err
			}
			all = append(all, manifest{d.files[len(d.files)-1], text})
		}
	}
	return all, nil
}

// TestRenderedPods holds what seeManifests sees of authors' manifests to be something, without a cell.
func TestRenderedPods(t *testing.T) {
	all, err := renderedPods()
	if err != nil || len(all) < 10 {
		t.Errorf("want the objects of two drivers, got %d (error: %v)", len(all), err)
	}
}

// TestRefusals wants the field out of what API servers answer.
func TestRefusals(t *testing.T) {
	invalid := &apierrors.StatusError{ErrStatus: metav1.Status{Message: "two", Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{
		{Field: "spec.a", Message: "Invalid value"}, {Field: "spec.b[0]", Message: "Required value"},
	}}}}
	schema := errors.New(`failed to create typed patch object (/x; v1, Kind=Y): .spec.template.spec.hostNet: field not declared in schema`)
	for _, c := range []struct {
		err    error
		fields []string
	}{{invalid, []string{"spec.a", "spec.b[0]"}}, {schema, []string{"spec.template.spec.hostNet"}}, {errors.New("forbidden"), []string{""}}} {
		var fields []string
		for _, r := range refusals("f.yaml", `Y "x"`, c.err) {
			fields = append(fields, r.field)
			if !strings.HasPrefix(r.String(), `f.yaml: Y "x": field "`+r.field+`": `) || r.message == "" {
				t.Errorf("want file, object, field and message, got %q", r)
			}
		}
		if !slices.Equal(fields, c.fields) {
			t.Errorf("%v: want fields %q, got %q", c.err, c.fields, fields)
		}
	}
}
