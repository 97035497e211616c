package observe

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"headroom/e2e/framework/history"
)

// resource is one kind of object: how to list and watch it, and what a history keeps of it.
type resource struct {
	name string
	// place is where the API server keeps objects of the kind: "/registry/pods/".
	place string
	list  func(context.Context, metav1.ListOptions) (runtime.Object, error)
	watch func(context.Context, metav1.ListOptions) (watch.Interface, error)
	// describe returns the node that the object belongs to, "" for none, and the event's body around o.
	describe func(obj metav1.Object, o history.Object) (node string, body any, err error)
}

// client is what the typed clients of a resource have in common.
type client[L runtime.Object] interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}

func kind[T metav1.Object, L runtime.Object](name string, c client[L], describe func(T, history.Object) (string, any)) resource {
	return resource{
		name:  name,
		place: placeOf(name),
		list:  func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return c.List(ctx, o) },
		watch: c.Watch,
		describe: func(obj metav1.Object, o history.Object) (string, any, error) {
			t, ok := obj.(T)
			if !ok {
				return "", nil, fmt.Errorf("%s: want a %T, got a %T", name, t, obj)
			}
			node, body := describe(t, o)
			return node, body, nil
		},
	}
}

// placeOf is where the API server keeps a kind of object in etcd.
func placeOf(name string) string {
	if name == "nodes" {
		name = "minions" // its name before v1
	}
	return "/registry/" + name + "/"
}

// resources lists what is recorded, one source each. Events are those of core/v1: the same objects are served by events.k8s.io.
func resources(c kubernetes.Interface) []resource {
	return []resource{
		kind("csinodes", c.StorageV1().CSINodes(), csiNode),
		kind("csidrivers", c.StorageV1().CSIDrivers(), csiDriver),
		kind("nodes", c.CoreV1().Nodes(), node),
		kind("pods", c.CoreV1().Pods(metav1.NamespaceAll), pod),
		kind("persistentvolumeclaims", c.CoreV1().PersistentVolumeClaims(metav1.NamespaceAll), claim),
		kind("persistentvolumes", c.CoreV1().PersistentVolumes(), volume),
		kind("volumeattachments", c.StorageV1().VolumeAttachments(), attachment),
		kind("events", c.CoreV1().Events(metav1.NamespaceAll), kubeEvent),
	}
}

// object fills what all bodies start with.
func object(t watch.EventType, obj metav1.Object) history.Object {
	o := history.Object{Type: string(t), UID: string(obj.GetUID())}
	if c := obj.GetCreationTimestamp(); !c.IsZero() {
		o.Created = c.UTC()
	}
	if d := obj.GetDeletionTimestamp(); d != nil {
		at := d.UTC()
		o.Deleted = &at
	}
	return o
}

func csiNode(n *storagev1.CSINode, o history.Object) (string, any) {
	owners := []history.Owner{}
	for _, r := range n.OwnerReferences {
		owners = append(owners, history.Owner{Kind: r.Kind, Name: r.Name, UID: string(r.UID)})
	}
	return n.Name, history.CSINode{Object: o, Drivers: csiNodeDrivers(n.Spec.Drivers), Owners: owners}
}

func csiNodeDrivers(drivers []storagev1.CSINodeDriver) []history.CSINodeDriver {
	var entries []history.CSINodeDriver
	for _, d := range drivers {
		e := history.CSINodeDriver{Name: d.Name, NodeID: d.NodeID, TopologyKeys: d.TopologyKeys}
		if d.Allocatable != nil {
			e.Count = d.Allocatable.Count
		}
		entries = append(entries, e)
	}
	return entries
}

func csiDriver(d *storagev1.CSIDriver, o history.Object) (string, any) {
	return "", history.CSIDriver{Object: o, PeriodSeconds: d.Spec.NodeAllocatableUpdatePeriodSeconds}
}

func node(n *corev1.Node, o history.Object) (string, any) {
	body := history.Node{Object: o, Kubelet: n.Status.NodeInfo.KubeletVersion, Labels: n.Labels, Closed: closed(n)}
	for _, v := range n.Status.VolumesInUse {
		body.VolumesInUse = append(body.VolumesInUse, string(v))
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			body.Ready = c.Status == corev1.ConditionTrue
		}
	}
	return n.Name, body
}

func pod(p *corev1.Pod, o history.Object) (string, any) {
	body := history.Pod{
		Object: o, NodeName: p.Spec.NodeName, PodPhase: string(p.Status.Phase), Reason: p.Status.Reason, Message: p.Status.Message,
		Scheduler: p.Spec.SchedulerName, Selector: p.Spec.NodeSelector, Constrained: constrained(p),
	}
	if p.Spec.Priority != nil {
		body.Priority = *p.Spec.Priority
	}
	for _, v := range p.Spec.Volumes {
		switch {
		case v.PersistentVolumeClaim != nil:
			body.Claims = append(body.Claims, v.PersistentVolumeClaim.ClaimName)
		case v.Ephemeral != nil:
			body.Claims = append(body.Claims, p.Name+"-"+v.Name) // the name that the ephemeral volume controller gives
			body.Ephemeral++
		}
	}
	for _, c := range p.Status.ContainerStatuses {
		body.Restarts += c.RestartCount
	}
	for _, c := range p.Status.Conditions {
		switch {
		case c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse:
			body.Unschedulable = c.Message
		case c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue:
			body.Disruption = c.Reason
		}
	}
	return p.Spec.NodeName, body
}

func claim(c *corev1.PersistentVolumeClaim, o history.Object) (string, any) {
	return "", history.PVC{Object: o, VolumeName: c.Spec.VolumeName}
}

func volume(v *corev1.PersistentVolume, o history.Object) (string, any) {
	body := history.PV{Object: o, Pinned: v.Spec.NodeAffinity != nil}
	if v.Spec.CSI != nil {
		body.Driver, body.Handle = v.Spec.CSI.Driver, v.Spec.CSI.VolumeHandle
	}
	return "", body
}

func attachment(a *storagev1.VolumeAttachment, o history.Object) (string, any) {
	body := history.VolumeAttachment{Object: o, Attacher: a.Spec.Attacher, NodeName: a.Spec.NodeName, Attached: a.Status.Attached}
	if a.Spec.Source.PersistentVolumeName != nil {
		body.PVName = *a.Spec.Source.PersistentVolumeName
	}
	if e := a.Status.AttachError; e != nil {
		body.AttachCode, body.AttachError = e.ErrorCode, e.Message
	}
	if e := a.Status.DetachError; e != nil {
		body.DetachCode, body.DetachError = e.ErrorCode, e.Message
	}
	return a.Spec.NodeName, body
}

func kubeEvent(e *corev1.Event, o history.Object) (string, any) {
	body := history.KubeEvent{
		Object: o, Kind: e.InvolvedObject.Kind, Name: e.InvolvedObject.Name, EventType: e.Type, Reason: e.Reason, Message: e.Message,
		Component: e.ReportingController, NameUID: string(e.InvolvedObject.UID), Count: e.Count,
	}
	if e.InvolvedObject.Namespace != "" {
		body.Name = e.InvolvedObject.Namespace + "/" + e.InvolvedObject.Name
	}
	if e.Source.Component != "" {
		body.Component = e.Source.Component
	}
	if e.InvolvedObject.Kind == "Node" {
		return e.InvolvedObject.Name, body
	}
	return e.Source.Host, body // only kubelets fill it
}
