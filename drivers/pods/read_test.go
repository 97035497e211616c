package pods

import (
	"fmt"
	"strings"
	"testing"
)

func TestReadRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		from, to, want string // replaced in the manifests of testdata/steady
	}{
		"not YAML":               {"kind: Namespace", "kind: [", "rbac.yaml:4: not YAML: did not find expected ',' or ']' in the block that begins on line 2"},
		"no object":              {"kind: Namespace\nmetadata: {name: steady}\n", "", `rbac.yaml:1: /: want apiVersion, kind and metadata.name, got "v1", "" and ""`},
		"no name":                {"metadata: {name: steady}\n---\napiVersion: v1\nkind: ServiceAccount", "---\napiVersion: v1\nkind: ServiceAccount", `rbac.yaml:1: Namespace/: want apiVersion, kind and metadata.name`},
		"a list":                 {"apiVersion: v1\nkind: Namespace\nmetadata: {name: steady}\n", "- a\n", "rbac.yaml:1: want an object"},
		"no known kind":          {"kind: ServiceAccount", "kind: VolumeSnapshotClass", "rbac.yaml:5: kind: VolumeSnapshotClass/steady: want one of CSIDriver, ClusterRole, "},
		"another API version":    {"apiVersion: scheduling.k8s.io/v1", "apiVersion: scheduling.k8s.io/v1beta1", `apiVersion: PriorityClass/steady: want scheduling.k8s.io/v1, got "scheduling.k8s.io/v1beta1" (remedy: write scheduling.k8s.io/v1)`},
		"unknown field":          {"serviceAccountName: steady", "serviceAccount_Name: steady", `DaemonSet/steady-node: strict decoding error: unknown field "spec.template.spec.serviceAccount_Name"`},
		"another type":           {"replicas: 2", "replicas: two", `driver.yaml:50: Deployment/steady-controller: json: cannot unmarshal`},
		"key twice":              {"value: 1000", "value: 1000\nvalue: 1", `already defined at line`},
		"unknown placeholder":    {"backend: ${BACKEND}", "backend: ${BACK}", "rbac.yaml:26: placeholder ${BACK}: want one of ${BACKEND} ${CACHE_AGE}"},
		"a process's":            {"--node-id=$(NODE)", "\"--node-id=${NODE_ID}\"", "placeholder ${NODE_ID}: want one of"},
		"placeholder not closed": {"backend: ${BACKEND}", "backend: ${BACKEND", "placeholder ${BACKEND: want one of"},
		"twice":                  {"kind: PriorityClass\nmetadata: {name: steady}\nvalue: 1000", "kind: PriorityClass\nmetadata: {name: steady}\nvalue: 1000\n---\napiVersion: v1\nkind: ServiceAccount\nmetadata: {name: steady}", "ServiceAccount/steady: is there twice, first in rbac.yaml:5"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Read(manifests(t, c.from, c.to), AsWritten())
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "remedy") {
				t.Errorf("want %q and a remedy, got %v", c.want, err)
			}
		})
	}
	if all, err := Read([]File{{"comments.yaml", []byte("# nothing\n---\n# nothing yet\n---\napiVersion: v1\nkind: ServiceAccount\nmetadata: {name: a}\n---\n")}}, nil); err != nil || len(all) != 1 {
		t.Errorf("want documents of comments passed over, got %v (error: %v)", all, err)
	}
	two := manifests(t, "backend: ${BACKEND}", "${ONE}: a\n  backend: ${TWO}")
	if _, err := Read(two, AsWritten()); err == nil || !strings.Contains(err.Error(), "${TWO}") {
		t.Errorf("want all placeholders named that mean nothing, got %v", err)
	}
	if _, err := Read([]File{{"empty.yaml", []byte("# nothing\n")}}, nil); err == nil || !strings.Contains(err.Error(), "empty.yaml:1: has no object") {
		t.Errorf("want a file without an object named, got %v", err)
	}
}

// TestReadLists shows that a List's objects are read however they are written, and that none is left out in silence.
func TestReadLists(t *testing.T) {
	const object = "{apiVersion: v1, kind: ServiceAccount, metadata: {name: %s}}"
	a, b := fmt.Sprintf(object, "a"), fmt.Sprintf(object, "b")
	for name, c := range map[string]struct {
		text string
		want string // the objects, or the error's beginning
	}{
		"items":             {"kind: List\nitems:\n- " + a + "\n- " + b, "ServiceAccount/a:3 ServiceAccount/b:4"},
		"alias":             {"kind: List\nmetadata: &m\n- " + a + "\nitems: *m", "ServiceAccount/a:3"},
		"an aliased object": {"kind: List\nmetadata: &m " + a + "\nitems: [*m]", "ServiceAccount/a:2"},
		"an aliased kind":   {"x: &k List\nkind: *k\nitems: [" + a + "]", "ServiceAccount/a:3"},
		"a List in a List":  {"kind: List\nitems:\n- {kind: List, items: [" + a + "]}", "ServiceAccount/a:3"},
		"empty":             {"kind: List\nitems: []\n---\n" + a, "ServiceAccount/a:4"},
		"nothing but empty": {"kind: List\nitems: []", "l.yaml:1: has no object"},
		"a text":            {"kind: List\nitems: a\n---\n" + a, `l.yaml:2: items: List: want a list of objects, got "a" (remedy: write`},
		"twice":             {"kind: List\nitems: []\nitems:\n- " + a, `l.yaml:3: items: List: key "items" already defined at line 2 (remedy: remove`},
		"nothing":           {"kind: List\nitems:\n---\n" + a, `l.yaml:2: items: List: want a list of objects, got nothing (remedy: write`},
		"no items":          {"kind: List\n---\n" + a, `l.yaml:1: items: List: want a list of objects, got nothing`},
		"a mapping":         {"kind: List\nitems: {a: b}", "l.yaml:2: items: List: want a list of objects, got a mapping"},
		"alias of a text":   {"kind: List\nmetadata: &m x\nitems: *m", `l.yaml:3: items: List: want a list of objects, got "x"`},
		"an empty item":     {"kind: List\nitems:\n- " + a + "\n-\n", "l.yaml:4: want an object"},
		"itself":            {"kind: List\nitems: &i [{kind: List, items: *i}]", "l.yaml:2: items: the list contains itself"},
		"items of no List":  {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\nitems: *a", "l.yaml:4: not YAML: unknown anchor"},
	} {
		t.Run(name, func(t *testing.T) {
			objects, err := Read([]File{{"l.yaml", []byte(c.text)}}, AsWritten())
			var all []string
			for _, o := range objects {
				all = append(all, fmt.Sprintf("%s:%d", o, o.Line))
			}
			got := strings.Join(all, " ")
			if err != nil {
				got = err.Error()
			}
			if !strings.HasPrefix(got, c.want) || strings.Contains(got, "\n") || err != nil && !strings.Contains(got, "remedy") {
				t.Errorf("want one %q, got %s", c.want, got)
			}
		})
	}
}

// TestReadTemplates shows that what was not rendered is told as that, by the line of its braces.
func TestReadTemplates(t *testing.T) {
	const object = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c\n"
	for text, want := range map[string]string{
		object + "data:\n  a: {{ .Values.a }}\n":                  "h.yaml:6: data.a: ConfigMap/c: want a name as key, got a mapping: {{ is of a template (remedy: render it first",
		object + "{{- if .Values.a }}\ndata: {a: b}\n{{ end }}\n": "h.yaml:5: not YAML: ",
		"{{- if .Values.a }}\n" + object + "{{ end }}\n":          "h.yaml:1: not YAML: did not find expected node content; line 1 has {{, as a template does (remedy: render it first",
		object + "immutable: '{{ .Values.i }}'\n":                 "h.yaml:1: ConfigMap/c: json: cannot unmarshal",
		object + "data: {a: {b: c}}\n":                            "h.yaml:1: ConfigMap/c: json: cannot unmarshal",
		object + "data: {[a]: b}\n":                               "h.yaml:5: data: ConfigMap/c: want a name as key, got a list (remedy: write a name)",
		object + "data: &a {a: *a}\n":                             "h.yaml:5: data.a: ConfigMap/c: the value contains itself (remedy",
		object + "data: {<<: 1}\n":                                "h.yaml:5: data.<<: ConfigMap/c: want a mapping to merge, got \"1\" (remedy",
		object + "data: {a: .nan}\n":                              "h.yaml:5: data.a: ConfigMap/c: no value: json: unsupported value: NaN (remedy",
		object + "data: {1: a, \"1\": b}\n":                       "h.yaml:5: data.1: ConfigMap/c: key \"1\" already defined at line 5 (remedy",
	} {
		_, err := Read([]File{{"h.yaml", []byte(text)}}, AsWritten())
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(text, "{{") != strings.Contains(err.Error(), "render it first") {
			t.Errorf("%s\nwant %s\ngot  %v", text, want, err)
		}
	}
	if o, err := Read([]File{{"h.yaml", []byte(object + "data: {a: '{{x}}', built: 2001-01-01, 1: a, \"2\": '${SEED} $${x}'}\n")}}, map[string]string{"SEED": "7"}); err != nil ||
		fmt.Sprint(o[0].Object["data"]) != "map[1:a 2:7 ${x} a:{{x}} built:2001-01-01]" {
		t.Errorf("want braces in quotes, a date and a number as they are written, got %v, %v", o, err)
	}
	var bomb strings.Builder
	bomb.WriteString(object + "data:\n  a: &a [x, x, x, x, x, x, x, x, x, x]\n")
	for _, level := range []string{"ab", "bc", "cd", "de", "ef", "fg", "gh"} {
		fmt.Fprintf(&bomb, "  %s: &%s [%s]\n", level[1:], level[1:], strings.Repeat("*"+level[:1]+", ", 10))
	}
	if _, err := Read([]File{{"h.yaml", []byte(bomb.String())}}, AsWritten()); err == nil || !strings.Contains(err.Error(), "has more than 262144 values (remedy: write less with aliases)") {
		t.Errorf("want aliases of aliases refused, got %v", err)
	}
}

// checked is what Check says, one line each.
func checked(t *testing.T, files []File, node Part, controller *Part, limited bool) string {
	t.Helper()
	objects, err := Read(files, AsWritten())
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	err = Check(objects, node, controller, limited, func(field, remedy, format string, args ...any) {
		fmt.Fprintf(&b, "%s: %s (remedy: %s)\n", field, fmt.Sprintf(format, args...), remedy)
	})
	if err != nil {
		fmt.Fprintln(&b, err)
	}
	return b.String()
}

func TestCheckManifests(t *testing.T) {
	if got := checked(t, manifests(t, "", ""), node, &controller, true); got != "" {
		t.Errorf("want nothing wrong, got %s", got)
	}
	for name, c := range map[string]struct{ from, to, want string }{
		"the CSIDriver's name":       {`metadata: {name: "${DRIVER_NAME}"}`, "metadata: {name: d.example}", "driver.yaml:1: metadata.name: CSIDriver/d.example: several drivers run at once"},
		"the driver's name":          {"--driver-name=${DRIVER_NAME}", "--driver-name=d.example", "driver.yaml:6: DaemonSet/steady-node: container steady has no ${DRIVER_NAME}"},
		"no such workload":           {"name: steady-node", "name: other", "node.workload: DaemonSet/steady-node is in no manifest; there are: DaemonSet/other, Deployment/steady-controller"},
		"another kind":               {"kind: DaemonSet\nmetadata: {name: steady-node", "kind: StatefulSet\nmetadata: {name: steady-node", "node.workload: DaemonSet/steady-node is in no manifest; there are: StatefulSet/steady-node"},
		"no such container":          {"- name: steady\n", "- name: main\n", `node.container: DaemonSet/steady-node has no container "steady"; it has: main, registrar, liveness`},
		"socket in no volume":        {"- {name: socket, mountPath: /csi}", "- {name: socket, mountPath: /cs}", "node.socket: /csi/csi.sock is in no volume of container steady"},
		"socket in another's memory": {"{name: shared, emptyDir: {}}", "{name: shared, configMap: {name: c}}", `controller.socket: volume "shared" of Deployment/steady-controller`},
		"volume is not there":        {"{name: shared, emptyDir: {}}", "{name: another, emptyDir: {}}", "want an emptyDir or a hostPath"},
		"a path of the run":          {"subPath: csi}]\n        - name: csi-att", "subPathExpr: csi}]\n        - name: csi-att", "has a subPathExpr"},
		"no service account":         {"kind: ServiceAccount\nmetadata: {name: steady,", "kind: ServiceAccount\nmetadata: {name: another,", "driver.yaml:6: DaemonSet/steady-node: needs ServiceAccount/steady, which is in no manifest"},
		"no ConfigMap":               {"configMapKeyRef: {name: steady,", "configMapKeyRef: {name: none,", "needs ConfigMap/none, which"},
		"no Secret, an optional one": {"- {name: shared, emptyDir: {}}", "- {name: shared, emptyDir: {}}\n        - {name: a, secret: {secretName: s}}\n        - {name: b, secret: {secretName: o, optional: true}}", "needs Secret/s, which"},
		"no Secret of several":       {"- {name: shared, emptyDir: {}}", "- {name: shared, emptyDir: {}}\n        - {name: a, projected: {sources: [{secret: {name: s}}, {configMap: {name: kube-root-ca.crt}}]}}", "needs Secret/s, which"},
		"no PriorityClass":           {"priorityClassName: steady", "priorityClassName: mine", "needs PriorityClass/mine, which"},
		"no such sidecar":            {"- name: lease-keeper", "- name: keeper", `controller.sidecars: Deployment/steady-controller has no container "lease-keeper"`},
		"a name of Headroom's":       {"{name: certificates, mountPath: /certificates}]\n", "{name: certificates, mountPath: /certificates}]\n        - {name: gate, image: mine}\n", `container "gate" has the name of one that Headroom adds`},
	} {
		t.Run(name, func(t *testing.T) {
			got := checked(t, manifests(t, c.from, c.to), node, &controller, true)
			if !strings.Contains(got, c.want) || !strings.Contains(got, "remedy") {
				t.Errorf("want %q and a remedy, got %s", c.want, got)
			}
		})
	}
}

// TestCheckTakesNamesOfHeadroomsForSidecars: a container that goes may be called as one that Headroom adds.
func TestCheckTakesNamesOfHeadroomsForSidecars(t *testing.T) {
	listed := controller
	listed.Sidecars = []string{"gate"}
	for name, c := range map[string]struct {
		from, to   string
		controller Part
	}{
		"by its image": {"- name: csi-attacher", "- name: attacher", controller},
		"by its name":  {"- name: lease-keeper", "- name: gate", listed},
	} {
		if got := checked(t, manifests(t, c.from, c.to), node, &c.controller, true); got != "" {
			t.Errorf("%s: want nothing wrong, got %s", name, got)
		}
	}
	driver := node
	driver.Sidecars = []string{"steady"}
	if got := checked(t, manifests(t, "", ""), driver, &controller, true); !strings.Contains(got, `node.sidecars: DaemonSet/steady-node has no container "steady" beside the driver's`) {
		t.Errorf("want the driver refused as its own sidecar, got %s", got)
	}
}

// TestCheckAsksNothingOfWhatGoes: a workload that has sidecars only may need what is in no manifest.
func TestCheckAsksNothingOfWhatGoes(t *testing.T) {
	if got := checked(t, manifests(t, "containers: [{name: csi-resizer", "serviceAccountName: none\n      containers: [{name: csi-resizer"), node, &controller, true); got != "" {
		t.Errorf("want nothing wrong, got %s", got)
	}
}

// TestCheckIndirect shows that what the driver is given may come by a ConfigMap, and that the backend must be given somehow.
func TestCheckIndirect(t *testing.T) {
	files := manifests(t, "backend: ${BACKEND}", `backend: "none, ${DRIVER_NAME}"`)
	for i := range files {
		files[i].Text = []byte(strings.ReplaceAll(strings.ReplaceAll(string(files[i].Text), "--driver-name=${DRIVER_NAME}", "--x"), "${BACKEND}", "b"))
	}
	if got := checked(t, files, node, &controller, false); got != "" {
		t.Errorf("want nothing wrong with a name in a ConfigMap, got %s", got)
	}
	for i := range files {
		files[i].Text = []byte(strings.ReplaceAll(strings.ReplaceAll(string(files[i].Text), "configMapKeyRef", "secretKeyRef"), "kind: ConfigMap", "kind: Secret"))
		files[i].Text = []byte(strings.ReplaceAll(string(files[i].Text), "\ndata:", "\nstringData:"))
	}
	if got := checked(t, files, node, &controller, false); got != "" {
		t.Errorf("want nothing wrong with a name in a Secret, got %s", got)
	}
	if got := checked(t, files, node, &controller, true); !strings.Contains(got, "manifests: with limit: backend, want ${BACKEND} in one of them") {
		t.Errorf("want ${BACKEND} missed, got %s", got)
	}
}
