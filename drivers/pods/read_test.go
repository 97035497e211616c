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
