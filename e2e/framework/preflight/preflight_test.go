package preflight

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/version"
	fakediscovery "k8s.io/client-go/discovery/fake"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"headroom/e2e/framework/versions"
)

// world is a cluster as the API shows it: three nodes, one driver with two of them full of nothing, an attacher with a lease. Healthy until it is changed.
type world struct {
	server   string
	kubelets [3]string
	// gates by path; a path that is not there answers an error.
	gates    map[string]string
	driver   *storagev1.CSIDriver
	csiNodes []*storagev1.CSINode
	attaches []*storagev1.VolumeAttachment
	pods     []*corev1.Pod
	lease    *coordinationv1.Lease
	more     []runtime.Object
	refuse   map[string]error // by resource
}

const driverName = "ebs.csi.example.com"

func gateText(on int) string {
	return fmt.Sprintf("# TYPE kubernetes_feature_enabled gauge\nkubernetes_feature_enabled{name=%q,stage=\"BETA\"} %d\nkubernetes_feature_enabled{name=\"Other\",stage=\"\"} 1\n",
		versions.MutableCSINodeAllocatableCount, on)
}

func ptr[T any](v T) *T { return &v }

func healthy(server string) *world {
	w := &world{server: server, kubelets: [3]string{server, server, server}, gates: map[string]string{"/metrics": gateText(1)}, refuse: map[string]error{}}
	w.driver = &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driverName}, Spec: storagev1.CSIDriverSpec{NodeAllocatableUpdatePeriodSeconds: ptr(int64(60))}}
	for i := range 3 {
		name := fmt.Sprintf("n%d", i+1)
		w.gates["/api/v1/nodes/"+name+"/proxy/metrics"] = gateText(1)
		w.csiNodes = append(w.csiNodes, &storagev1.CSINode{
			ObjectMeta: metav1.ObjectMeta{Name: name, ManagedFields: []metav1.ManagedFieldsEntry{
				fields("kubelet", `{"f:spec":{"f:drivers":{"k:{\"name\":\"`+driverName+`\"}":{".":{},"f:allocatable":{"f:count":{}}}}}}`),
				fields("kubectl-annotate", `{"f:metadata":{"f:annotations":{"f:x":{}}}}`),
			}},
			Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: driverName, NodeID: name, Allocatable: &storagev1.VolumeNodeResources{Count: ptr(int32(4))}}}},
		})
	}
	w.pods = []*corev1.Pod{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "ebs-controller-0"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{
			{Name: "ebs-plugin", Image: "example.com/ebs:v1"}, {Name: "attacher", Image: "example.com/sig-storage/csi-attacher:v4.12.0@sha256:abc", Args: []string{"--v=2"}},
		}},
	}}
	w.lease = &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: leasePrefix + "ebs-csi-example-com"}, Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr("ebs-controller-0")},
	}
	return w
}

func fields(manager, text string) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, FieldsV1: &metav1.FieldsV1{Raw: []byte(text)}}
}

// attach adds a VolumeAttachment; code -1 is an error without a code, -2 no error, which is attached.
func (w *world) attach(node string, code int32) {
	va := &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("va-%d", len(w.attaches))}, Spec: storagev1.VolumeAttachmentSpec{Attacher: driverName, NodeName: node},
	}
	switch code {
	case -2:
		va.Status.Attached = true
	case -1:
		va.Status.AttachError = &storagev1.VolumeError{Message: "full"}
	default:
		va.Status.AttachError = &storagev1.VolumeError{Message: "full", ErrorCode: &code}
	}
	w.attaches = append(w.attaches, va)
}

// judge gathers and judges, and fails when anything but get and list was asked.
func (w *world) judge(t *testing.T, o Options) Result {
	t.Helper()
	objects := slices.Clone(w.more)
	for i, v := range w.kubelets {
		if v != "" {
			objects = append(objects, &corev1.Node{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n%d", i+1)}, Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{KubeletVersion: v}},
			})
		}
	}
	if w.driver != nil {
		objects = append(objects, w.driver)
	}
	for _, n := range w.csiNodes {
		objects = append(objects, n)
	}
	for _, va := range w.attaches {
		objects = append(objects, va)
	}
	for _, p := range w.pods {
		objects = append(objects, p)
	}
	if w.lease != nil {
		objects = append(objects, w.lease)
	}
	client := fake.NewClientset(objects...)
	client.Discovery().(*fakediscovery.FakeDiscovery).FakedServerVersion = &version.Info{GitVersion: w.server}
	for resource, err := range w.refuse {
		client.PrependReactor("list", resource, func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, err })
	}
	facts, err := Gather(t.Context(), Source{Client: client, Get: func(_ context.Context, path string) ([]byte, error) {
		if text, ok := w.gates[path]; ok {
			return []byte(text), nil
		}
		return nil, errors.New("forbidden")
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range client.Actions() {
		if a.GetVerb() != "get" && a.GetVerb() != "list" {
			t.Errorf("want reads only, got %s %s", a.GetVerb(), a.GetResource().Resource)
		}
	}
	r, err := Judge(facts, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// rules lists the findings as "level rule".
func rules(r Result) []string {
	var all []string
	for _, f := range r.Cluster {
		all = append(all, string(f.Level)+" "+f.Rule)
	}
	for _, d := range r.Drivers {
		for _, f := range d.Findings {
			all = append(all, string(f.Level)+" "+f.Rule)
		}
	}
	return all
}

// TestHealthyClusters: at every version that has the feature on, nothing is found, and the upgrade is a go.
func TestHealthyClusters(t *testing.T) {
	for _, c := range []struct{ server, to string }{
		{"v1.35.4", ""}, {"v1.36.3", ""}, {"v1.37.2", ""}, {"v1.35.4", "v1.36.3"}, {"v1.36.3", "v1.37.2"}, {"v1.36.1+k3s1", "v1.37.2"}, {"v1.35.2-eks-3cfe0ce", "v1.36.3"},
	} {
		r := healthy(c.server).judge(t, Options{To: versions.Version(c.to)})
		if r.Safe != Go || len(r.Drivers) != 1 || r.Drivers[0].Answer != Go || len(rules(r)) != 0 {
			t.Errorf("%s to %q: want a go without findings, got %s, %q", c.server, c.to, r.Safe, rules(r))
		}
	}
}

// TestDefects plants one defect at a time.
func TestDefects(t *testing.T) {
	for _, c := range []struct {
		name   string
		server string
		to     versions.Version
		plant  func(w *world)
		want   []string // findings
		safe   Answer
		text   string // in one of the findings
	}{
		{"kubelet too old for the target", "v1.35.4", "v1.36.3", func(w *world) { w.kubelets[1] = "v1.32.13" },
			[]string{"no-go skew-after", "warning silent"}, AnswerNo, "after the upgrade of the API server: kubelet v1.32.13 with kube-apiserver v1.36.3 is not supported"},
		{"kubelet too new now", "v1.35.4", "", func(w *world) { w.kubelets[0] = "v1.36.3" }, []string{"no-go skew"}, AnswerNo, "must not be newer"},
		{"minor versions skipped", "v1.35.4", "v1.37.2", func(*world) {}, []string{"warning several-steps"}, Go, "one minor version at a time, not 2"},
		{"gate of the server set to false", "v1.35.4", "v1.36.3", func(w *world) { w.gates["/metrics"] = gateText(0) },
			[]string{"no-go gate-set"}, AnswerNo, "kube-apiserver v1.35.4 has MutableCSINodeAllocatableCount=false set; v1.36.3 has it locked"},
		{"gate of the server set to false, no upgrade", "v1.35.4", "", func(w *world) { w.gates["/metrics"] = gateText(0) },
			[]string{"warning period-inert", "warning code-not-stored"}, Go, "a period is set that was stored earlier: no period can be set: kube-apiserver v1.35.4"},
		{"gate of a kubelet set to false", "v1.35.4", "v1.36.3", func(w *world) { w.gates["/api/v1/nodes/n2/proxy/metrics"] = gateText(0) },
			[]string{"no-go kubelet-gate-set", "warning silent"}, AnswerNo, "kubelets have MutableCSINodeAllocatableCount=false set (n2)"},
		{"gate of the server not to be seen", "v1.35.4", "v1.36.3", func(w *world) { delete(w.gates, "/metrics") }, []string{"unknown gate-unseen"}, AnswerOpen, "/metrics: forbidden"},
		{"gate of a kubelet not to be seen", "v1.35.4", "", func(w *world) { delete(w.gates, "/api/v1/nodes/n3/proxy/metrics") },
			[]string{"unknown kubelet-gate-unseen"}, AnswerOpen, "(n3)"},
		{"metrics without the gate", "v1.35.4", "", func(w *world) { w.gates["/metrics"] = "up 1\n" }, []string{"unknown gate-unseen"}, AnswerOpen, "does not show kubernetes_feature_enabled"},
		{"metrics that are none", "v1.35.4", "", func(w *world) { w.gates["/metrics"] = "<html>" }, []string{"unknown gate-unseen"}, AnswerOpen, "metrics"},
		{"silent kubelets after the upgrade", "v1.35.4", "v1.36.3", func(w *world) {
			w.kubelets[0], w.gates["/api/v1/nodes/n1/proxy/metrics"] = "v1.34.4", gateText(0)
		}, []string{"warning silent"}, Go, "silent: kube-apiserver v1.36.3 stores the period of 60 s, and kubelet v1.34.4 does not act on it (gate off) (n1)"},
		{"no period", "v1.36.3", "v1.37.2", func(w *world) { w.driver.Spec.NodeAllocatableUpdatePeriodSeconds = nil }, []string{"warning period-unset"}, Go, "no period is set"},
		{"a period that overflows", "v1.36.3", "", func(w *world) { w.driver.Spec.NodeAllocatableUpdatePeriodSeconds = ptr(int64(maxPeriod + 1)) },
			[]string{"no-go period-overflows"}, AnswerNo, "9223372037 s overflows"},
		{"the longest period", "v1.36.3", "", func(w *world) { w.driver.Spec.NodeAllocatableUpdatePeriodSeconds = ptr(int64(maxPeriod)) }, nil, Go, ""},
		{"a period too short", "v1.36.3", "", func(w *world) { w.driver.Spec.NodeAllocatableUpdatePeriodSeconds = ptr(int64(9)) }, []string{"no-go period-too-short"}, AnswerNo, "of 9 s"},
		{"a field that 1.32 does not know", "v1.32.13", "v1.33.13", func(w *world) { dropped(w) },
			[]string{"no-go field-dropped"}, AnswerNo, "kube-apiserver v1.32.13 drops nodeAllocatableUpdatePeriodSeconds (from v1.33 on)"},
		{"a field that 1.34 drops", "v1.34.4", "", func(w *world) { dropped(w); gatesOff(w) }, []string{"warning field-dropped"}, Go, "drops nodeAllocatableUpdatePeriodSeconds (gate off)"},
		{"attacher without its gate", "v1.36.3", "", func(w *world) { w.pods[0].Spec.Containers[1].Image = "example.com/csi-attacher:v4.11.0" },
			[]string{"no-go no-error-code"}, AnswerNo, "reactive path dead: csi-attacher v4.11.0 does not set errorCode (gate off), pod kube-system/ebs-controller-0"},
		{"attacher with its gate", "v1.36.3", "", func(w *world) {
			w.pods[0].Spec.Containers[1].Image = "example.com/csi-attacher:v4.11.0"
			w.pods[0].Spec.Containers[1].Args = []string{"--feature-gates=Topology=true,MutableCSINodeAllocatableCount=true"}
		}, nil, Go, ""},
		{"attacher with its gate in two words", "v1.36.3", "", func(w *world) {
			w.pods[0].Spec.Containers[1].Image = "example.com/csi-attacher:v4.11.0"
			w.pods[0].Spec.Containers[1].Args = []string{"--feature-gates", "MutableCSINodeAllocatableCount=true"}
		}, nil, Go, ""},
		{"new attacher whose gate is off", "v1.36.3", "", func(w *world) {
			w.pods[0].Spec.Containers[1].Args = []string{"--feature-gates=MutableCSINodeAllocatableCount=false"}
		}, []string{"no-go no-error-code"}, AnswerNo, "csi-attacher v4.12.0 does not set errorCode (gate off)"},
		{"no attacher to be seen", "v1.36.3", "", func(w *world) { w.pods = nil }, []string{"unknown attacher-unseen"}, AnswerOpen, "no pod shows"},
		{"no attacher, but codes", "v1.36.3", "", func(w *world) { w.pods = nil; w.attach("n1", 8) }, nil, Go, ""},
		{"no attacher, and errors without codes", "v1.36.3", "", func(w *world) { w.pods = nil; w.attach("n1", -1) },
			[]string{"no-go no-error-code"}, AnswerNo, "1 attach errors carry no errorCode although the API server keeps it"},
		{"attacher of an unknown version", "v1.36.3", "", func(w *world) { w.pods[0].Spec.Containers[1].Image = "example.com/csi-attacher:latest" },
			[]string{"unknown attacher-unseen"}, AnswerOpen, ""},
		{"another driver's attacher", "v1.36.3", "", func(w *world) {
			w.lease.Spec.HolderIdentity = ptr("other-0")
		}, []string{"unknown attacher-unseen"}, AnswerOpen, ""},
		{"attacher in its node's network", "v1.36.3", "", func(w *world) {
			w.pods[0].Spec.HostNetwork, w.pods[0].Spec.NodeName = true, "n2"
			w.pods[0].Spec.Containers[1].Image = "example.com/csi-attacher:v4.11.0"
			w.lease.Spec.HolderIdentity = ptr("n2")
		}, []string{"no-go no-error-code"}, AnswerNo, "v4.11.0 does not set errorCode"},
		{"replicas that differ", "v1.36.3", "", func(w *world) {
			w.lease = nil
			other := w.pods[0].DeepCopy()
			other.Name, other.Spec.Containers[1].Image = "ebs-controller-1", "example.com/csi-attacher:v4.13.0"
			w.pods = append(w.pods, other)
		}, []string{"warning several-attachers"}, Go, "differ"},
		{"a node without a count", "v1.36.3", "", func(w *world) { w.csiNodes[1].Spec.Drivers[0].Allocatable = nil }, []string{"no-go no-count"}, AnswerNo, "no count on n2"},
		{"no node with a count", "v1.36.3", "", func(w *world) {
			for _, n := range w.csiNodes {
				n.Spec.Drivers[0].Allocatable.Count = nil
			}
		}, []string{"warning no-counts"}, Go, "no count on any node"},
		{"a count below what is attached", "v1.36.3", "", func(w *world) {
			w.csiNodes[2].Spec.Drivers[0].Allocatable.Count = ptr(int32(1))
			w.attach("n3", -2)
			w.attach("n3", -2)
			w.attach("n3", 8) // not attached
		}, []string{"no-go count-below-use"}, AnswerNo, "(n3: 1 below 2)"},
		{"a direct writer", "v1.36.3", "", func(w *world) {
			w.csiNodes[0].ManagedFields = append(w.csiNodes[0].ManagedFields,
				fields("limit-fixer", `{"f:spec":{"f:drivers":{"k:{\"name\":\"`+driverName+`\"}":{"f:allocatable":{"f:count":{}}}}}}`))
		}, []string{"no-go direct-writer"}, AnswerNo, `"limit-fixer" wrote this driver's entry in CSINodes (n1)`},
		{"a writer of another driver's entry", "v1.36.3", "", func(w *world) {
			w.csiNodes[0].ManagedFields = append(w.csiNodes[0].ManagedFields, fields("limit-fixer", `{"f:spec":{"f:drivers":{"k:{\"name\":\"other\"}":{}}}}`))
		}, nil, Go, ""},
		{"a writer of the whole list", "v1.36.3", "", func(w *world) {
			w.csiNodes[0].ManagedFields = append(w.csiNodes[0].ManagedFields, fields("restorer", `{"f:spec":{"f:drivers":{}}}`))
		}, []string{"no-go direct-writer"}, AnswerNo, `"restorer"`},
		{"no CSIDriver", "v1.36.3", "", func(w *world) { w.driver = nil }, []string{"warning no-object"}, Go, "there is no CSIDriver"},
		{"CSINodes forbidden", "v1.36.3", "", func(w *world) { w.refuse["csinodes"] = errors.New("csinodes is forbidden") }, []string{"unknown unread"}, AnswerOpen, "CSINodes could not be read: csinodes is forbidden"},
		{"a node of no version", "v1.36.3", "", func(w *world) { w.kubelets[0] = "main" }, []string{"unknown unread"}, AnswerOpen, "the kubelet version of node n1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := healthy(c.server)
			c.plant(w)
			r := w.judge(t, Options{To: c.to})
			if got := rules(r); !slices.Equal(got, c.want) || r.Safe != c.safe {
				t.Errorf("want %s, %q, got %s, %q", c.safe, c.want, r.Safe, got)
			}
			var page bytes.Buffer
			if err := Table(&page, r); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(page.String(), c.text) {
				t.Errorf("want %q in:\n%s", c.text, page.String())
			}
			for _, d := range r.Drivers {
				for _, f := range slices.Concat(r.Cluster, d.Findings) {
					if f.Remedy == "" || f.What == "" {
						t.Errorf("%s: want text and remedy, got %+v", f.Rule, f)
					}
				}
			}
		})
	}
}

// dropped lets kubectl have applied a period that the object does not have.
func dropped(w *world) {
	w.driver.Spec.NodeAllocatableUpdatePeriodSeconds = nil
	w.driver.Annotations = map[string]string{lastApplied: `{"apiVersion":"storage.k8s.io/v1","kind":"CSIDriver","spec":{"nodeAllocatableUpdatePeriodSeconds":60}}`}
	delete(w.gates, "/metrics")
	if strings.HasPrefix(w.server, "v1.32") {
		w.gates["/metrics"] = "up 1\n"
	}
}

func gatesOff(w *world) {
	for _, path := range []string{"/metrics", "/api/v1/nodes/n1/proxy/metrics", "/api/v1/nodes/n2/proxy/metrics", "/api/v1/nodes/n3/proxy/metrics"} {
		w.gates[path] = gateText(0)
	}
}

func TestAttacherOption(t *testing.T) {
	w := healthy("v1.36.3")
	w.pods = nil
	if r := w.judge(t, Options{Attacher: "v4.12.0"}); r.Safe != Go {
		t.Errorf("v4.12.0: got %s, %q", r.Safe, rules(r))
	}
	if r := w.judge(t, Options{Attacher: "v4.11.0"}); r.Safe != AnswerNo || !slices.Equal(rules(r), []string{"no-go no-error-code"}) {
		t.Errorf("v4.11.0: got %s, %q", r.Safe, rules(r))
	}
}

// TestTwoDrivers: a defect of one driver says nothing of the other, and the cluster is as safe as its worst driver.
func TestTwoDrivers(t *testing.T) {
	w := healthy("v1.36.3")
	w.more = append(w.more, &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "bad.example.com"}, Spec: storagev1.CSIDriverSpec{NodeAllocatableUpdatePeriodSeconds: ptr(int64(maxPeriod + 1))}},
		&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "files.example.com"}, Spec: storagev1.CSIDriverSpec{AttachRequired: ptr(false)}})
	r := w.judge(t, Options{})
	var got []string
	for _, d := range r.Drivers {
		got = append(got, d.Driver+" "+string(d.Answer))
	}
	if want := []string{"bad.example.com no-go", driverName + " go"}; !slices.Equal(got, want) || r.Safe != AnswerNo {
		t.Errorf("want %q and no-go, got %q and %s", want, got, r.Safe)
	}
}

func TestTargetOlderThanTheServer(t *testing.T) {
	_, err := Judge(Facts{Server: "v1.36.3"}, Options{To: "v1.35.4"})
	if err == nil || !strings.Contains(err.Error(), "the API server runs v1.36.3, which is newer than v1.35.4") {
		t.Errorf("got %v", err)
	}
}

func TestServerWithoutAVersion(t *testing.T) {
	client := fake.NewClientset()
	client.Discovery().(*fakediscovery.FakeDiscovery).FakedServerVersion = &version.Info{GitVersion: "main"}
	if _, err := Gather(t.Context(), Source{Client: client}); err == nil || !strings.Contains(err.Error(), `version "main"`) {
		t.Errorf("got %v", err)
	}
}

func TestPage(t *testing.T) {
	w := healthy("v1.35.4")
	w.pods[0].Spec.Containers[1].Image = "example.com/csi-attacher:v4.11.0"
	w.csiNodes[1].Spec.Drivers[0].Allocatable = nil
	r := w.judge(t, Options{To: "v1.36.3"})
	var page bytes.Buffer
	if err := Table(&page, r); err != nil {
		t.Fatal(err)
	}
	want := `safe (upgrade from v1.35.4 to v1.36.3): no, because ebs.csi.example.com: reactive path dead: csi-attacher v4.11.0 does not set errorCode (gate off), pod kube-system/ebs-controller-0; and 1 more

ebs.csi.example.com  no-go
  no-go    no-error-code (external-attacher): reactive path dead: csi-attacher v4.11.0 does not set errorCode (gate off), pod kube-system/ebs-controller-0
           remedy: take external-attacher v4.12 or later, or give v4.11 --feature-gates=MutableCSINodeAllocatableCount=true
  no-go    no-count (driver): no count on n2, which is unlimited to the scheduler, though other nodes have one
           remedy: look at the driver's registration there; an answer of 0 or less, or an error, leaves a node without a limit
`
	if page.String() != want {
		t.Errorf("want:\n%s\ngot:\n%s", want, page.String())
	}
	page.Reset()
	if err := Table(&page, Result{Server: "v1.36.3", To: "v1.36.3", Safe: Go}); err != nil || page.String() != "safe (as it is, at v1.36.3): yes\n\nno CSI driver that attaches volumes was found\n" {
		t.Errorf("got %q, %v", page.String(), err)
	}
	text, err := json.Marshal(r)
	if err != nil || !bytes.Contains(text, []byte(`"safe":"no-go"`)) || !bytes.Contains(text, []byte(`"rule":"no-count"`)) {
		t.Errorf("got %s, %v", text, err)
	}
}
