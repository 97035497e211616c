package observe

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
)

func TestBodies(t *testing.T) {
	const meta = `"metadata":{"name":"x","namespace":"ns","uid":"u","creationTimestamp":"2026-01-02T03:04:05Z"}`
	const head = `"type":"MODIFIED","uid":"u","created":"2026-01-02T03:04:05Z"`
	for _, tc := range []struct {
		name, resource, object string
		into                   metav1.Object
		node, want             string
	}{
		{"csinode", "csinodes", `"spec":{"drivers":[{"name":"d","nodeID":"i","topologyKeys":["z"],"allocatable":{"count":0}},
			{"name":"e","nodeID":"i","topologyKeys":null}]}`,
			&storagev1.CSINode{}, "x", `"drivers":[{"name":"d","nodeID":"i","count":0,"topologyKeys":["z"]},{"name":"e","nodeID":"i"}],"owners":[]`},
		{"owned csinode", "csinodes", `"spec":{"drivers":[]}`, &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "x", UID: "n"}}}}, "x", `"owners":[{"kind":"Node","name":"x","uid":"n"}]`},
		{"csidriver", "csidrivers", `"spec":{"nodeAllocatableUpdatePeriodSeconds":60}`, &storagev1.CSIDriver{}, "", `"periodSeconds":60`},
		{"node", "nodes", `"status":{"nodeInfo":{"kubeletVersion":"v1.36.3"},"conditions":[
			{"type":"Ready","status":"True"},{"type":"DiskPressure","status":"False"}]}`,
			&corev1.Node{}, "x", `"ready":true,"kubelet":"v1.36.3"`},
		{"node that is closed", "nodes", `"metadata":{"name":"x","uid":"u","creationTimestamp":"2026-01-02T03:04:05Z","labels":{"l":"1"}},
			"spec":{"taints":[{"key":"k","effect":"PreferNoSchedule"},{"key":"k","effect":"NoExecute"}]},"status":{"volumesInUse":["kubernetes.io/csi/d^h"]}`,
			&corev1.Node{}, "x", `"ready":false,"labels":{"l":"1"},"closed":true,"volumesInUse":["kubernetes.io/csi/d^h"]`},
		{"node that is cordoned", "nodes", `"spec":{"unschedulable":true}`, &corev1.Node{}, "x", `"ready":false,"closed":true`},
		{"node of unknown state", "nodes", `"status":{"conditions":[{"type":"Ready","status":"Unknown"}]}`, &corev1.Node{}, "x", `"ready":false`},
		{"pod", "pods", `"spec":{"nodeName":"n1","schedulerName":"s","volumes":[
			{"name":"a","persistentVolumeClaim":{"claimName":"c"}},{"name":"b","ephemeral":{}},
			{"name":"t","emptyDir":{}}]},"status":{"phase":"Failed","reason":"VolumeAttachmentLimitExceeded","message":"m"}`, &corev1.Pod{}, "n1",
			`"nodeName":"n1","phase":"Failed","reason":"VolumeAttachmentLimitExceeded","message":"m","claims":["c","x-b"],"scheduler":"s","ephemeral":1`},
		{"chosen pod", "pods", `"spec":{"nodeSelector":{"l":"1"},"priority":7,"topologySpreadConstraints":[{"maxSkew":1}]},"status":{"conditions":[
			{"type":"DisruptionTarget","status":"True","reason":"PreemptionByScheduler"}]}`, &corev1.Pod{}, "",
			`"selector":{"l":"1"},"constrained":true,"priority":7,"disruption":"PreemptionByScheduler"`},
		{"waiting pod", "pods", `"status":{"phase":"Pending","conditions":[{"type":"PodScheduled","status":"False","message":"no room"}]}`, &corev1.Pod{}, "",
			`"phase":"Pending","unschedulable":"no room"`},
		{"claim", "persistentvolumeclaims", `"spec":{"volumeName":"v"}`, &corev1.PersistentVolumeClaim{}, "", `"volumeName":"v"`},
		{"volume", "persistentvolumes", `"spec":{"csi":{"driver":"d","volumeHandle":"h"}}`, &corev1.PersistentVolume{}, "", `"driver":"d","handle":"h"`},
		{"volume of a zone", "persistentvolumes", `"spec":{"csi":{"driver":"d","volumeHandle":"h"},"nodeAffinity":{}}`, &corev1.PersistentVolume{}, "",
			`"driver":"d","handle":"h","pinned":true`},
		{"another volume", "persistentvolumes", `"spec":{"hostPath":{"path":"/"}}`, &corev1.PersistentVolume{}, "", ``},
		{"attachment", "volumeattachments", `"spec":{"attacher":"d","nodeName":"n1","source":{"persistentVolumeName":"v"}},"status":{"attached":false,
			"attachError":{"message":"full","errorCode":8},"detachError":{"message":"no"}}`, &storagev1.VolumeAttachment{}, "n1",
			`"attacher":"d","nodeName":"n1","pvName":"v","attached":false,"attachCode":8,"attachError":"full","detachError":"no"`},
		{"event of a kubelet", "events", `"involvedObject":{"kind":"Pod","namespace":"ns","name":"p","uid":"pu"},"type":"Warning","reason":"R","message":"m",
			"count":2,"source":{"component":"kubelet","host":"n1"}`, &corev1.Event{}, "n1",
			`"kind":"Pod","name":"ns/p","nameUID":"pu","eventType":"Warning","reason":"R","message":"m","component":"kubelet","count":2`},
		{"event of a node", "events", `"involvedObject":{"kind":"Node","name":"n2"},"reason":"R","reportingComponent":"c"`, &corev1.Event{}, "n2",
			`"kind":"Node","name":"n2","reason":"R","component":"c"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(json.Unmarshal([]byte("{"+meta+","+tc.object+"}"), tc.into)).To(Succeed())
			for _, r := range resources(fake.NewClientset()) {
				if r.name != tc.resource {
					continue
				}
				node, body, err := r.describe(tc.into, object(watch.Modified, tc.into))
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(node).To(Equal(tc.node))
				want := head
				if tc.want != "" {
					want += "," + tc.want
				}
				g.Expect(json.Marshal(body)).To(MatchJSON("{" + want + "}"))
				_, _, err = r.describe(&corev1.Secret{}, object(watch.Modified, tc.into))
				g.Expect(err).To(MatchError(ContainSubstring(tc.resource)))
				return
			}
			t.Errorf("no resource %q", tc.resource)
		})
	}
}

func TestScopes(t *testing.T) {
	namespace := func(name, scope string) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{ScopeKey: scope}}}
	}
	calls := map[string]int{}
	s := newScopes(fake.NewClientset())
	s.get = func(_ context.Context, name string) (*corev1.Namespace, error) {
		calls[name]++
		switch name {
		case "late":
			return namespace("late", "s2"), nil
		case "gone":
			return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, name)
		}
		return nil, errors.New("no connection")
	}
	s.learn(namespace("known", "s1"))
	for _, tc := range []struct {
		name string
		meta metav1.ObjectMeta
		want string
	}{
		{"its own label", metav1.ObjectMeta{Namespace: "known", Labels: map[string]string{ScopeKey: "own"}}, "own"},
		{"its own annotation", metav1.ObjectMeta{Annotations: map[string]string{ScopeKey: "own"}}, "own"},
		{"its namespace's", metav1.ObjectMeta{Namespace: "known"}, "s1"},
		{"a namespace not watched yet", metav1.ObjectMeta{Namespace: "late"}, "s2"},
		{"the same again", metav1.ObjectMeta{Namespace: "late"}, "s2"},
		{"a namespace that is gone", metav1.ObjectMeta{Namespace: "gone"}, ""},
		{"the same again", metav1.ObjectMeta{Namespace: "gone"}, ""},
		{"the server is away", metav1.ObjectMeta{Namespace: "away"}, ""},
		{"the same again", metav1.ObjectMeta{Namespace: "away"}, ""},
		{"no namespace", metav1.ObjectMeta{}, ""},
	} {
		if got := s.of(context.Background(), &corev1.Pod{ObjectMeta: tc.meta}); got != tc.want {
			t.Errorf("%s: want %q, got %q", tc.name, tc.want, got)
		}
	}
	NewWithT(t).Expect(calls).To(Equal(map[string]int{"late": 1, "gone": 1, "away": 2}))
}

func TestConstrained(t *testing.T) {
	term := []corev1.PodAffinityTerm{{TopologyKey: "k"}}
	for _, tc := range []struct {
		name string
		spec corev1.PodSpec
		want bool
	}{
		{"nothing", corev1.PodSpec{NodeSelector: map[string]string{"l": "1"}}, false},
		{"a wish", corev1.PodSpec{Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 1}}}}}, false},
		{"node affinity", corev1.PodSpec{Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{}}}}, true},
		{"pod affinity", corev1.PodSpec{Affinity: &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: term}}}, true},
		{"pod anti-affinity", corev1.PodSpec{Affinity: &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: term}}}, true},
		{"a port", corev1.PodSpec{Containers: []corev1.Container{{Ports: []corev1.ContainerPort{{ContainerPort: 1}}}}}, false},
		{"a host port", corev1.PodSpec{Containers: []corev1.Container{{Ports: []corev1.ContainerPort{{HostPort: 1}}}}}, true},
		{"a gate", corev1.PodSpec{SchedulingGates: []corev1.PodSchedulingGate{{Name: "g"}}}, true},
		{"a resource claim", corev1.PodSpec{ResourceClaims: []corev1.PodResourceClaim{{Name: "r"}}}, true},
	} {
		if got := constrained(&corev1.Pod{Spec: tc.spec}); got != tc.want {
			t.Errorf("%s: want %v, got %v", tc.name, tc.want, got)
		}
	}
}
