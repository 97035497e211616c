package history

import "time"

// Object is what every body of api/* events starts with. Key is namespace/name, or name; Rev is the resourceVersion; At is when the watch
// delivered it, so it is later than the change by the watch's latency.
type Object struct {
	// Type is ADDED, MODIFIED or DELETED. Objects that existed when the watch began come as ADDED.
	Type    string     `json:"type"`
	UID     string     `json:"uid,omitempty"`
	Created time.Time  `json:"created,omitzero"`
	Deleted *time.Time `json:"deleted,omitempty"`
}

// CSINode is the body of api/csinodes.
type CSINode struct {
	Object
	Drivers []CSINodeDriver `json:"drivers,omitempty"`
	// Owners are its ownerReferences; nil where the history does not keep them, which an empty list does.
	Owners []Owner `json:"owners,omitzero"`
}

// Owner is one ownerReference.
type Owner struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
	UID  string `json:"uid"`
}

// CSINodeDriver is one entry of CSINode.spec.drivers.
type CSINodeDriver struct {
	Name   string `json:"name"`
	NodeID string `json:"nodeID"`
	// Count is allocatable.count; nil means absent: unlimited to the scheduler.
	Count        *int32   `json:"count,omitempty"`
	TopologyKeys []string `json:"topologyKeys,omitempty"`
}

// CSIDriver is the body of api/csidrivers.
type CSIDriver struct {
	Object
	// PeriodSeconds is spec.nodeAllocatableUpdatePeriodSeconds; nil means no refresh at all.
	PeriodSeconds *int64 `json:"periodSeconds,omitempty"`
}

// Node is the body of api/nodes.
type Node struct {
	Object
	Ready   bool   `json:"ready"`
	Kubelet string `json:"kubelet,omitempty"` // status.nodeInfo.kubeletVersion
	// Labels are what pods select nodes by.
	Labels map[string]string `json:"labels,omitempty"`
	// Closed says that the node takes no new pods: it is unschedulable, or has a taint with effect NoSchedule or NoExecute.
	Closed bool `json:"closed,omitempty"`
	// VolumesInUse is status.volumesInUse: what the kubelet has mounted, or is about to, as "kubernetes.io/csi/<driver>^<handle>".
	VolumesInUse []string `json:"volumesInUse,omitempty"`
}

// Pod is the body of api/pods. Claims are the names of its PersistentVolumeClaims, generated ones included.
type Pod struct {
	Object
	NodeName  string   `json:"nodeName,omitempty"`
	PodPhase  string   `json:"phase,omitempty"`
	Reason    string   `json:"reason,omitempty"`
	Message   string   `json:"message,omitempty"`
	Claims    []string `json:"claims,omitempty"`
	Scheduler string   `json:"scheduler,omitempty"`
	// Unschedulable is the message of PodScheduled=False, "" otherwise.
	Unschedulable string `json:"unschedulable,omitempty"`
	// Ephemeral is how many of Claims belong to generic ephemeral volumes.
	Ephemeral int `json:"ephemeral,omitempty"`
	// Selector is spec.nodeSelector.
	Selector map[string]string `json:"selector,omitempty"`
	// Constrained says that its placement depends on more than Selector and Claims: affinity, spread constraints, gates, resource claims, host ports.
	Constrained bool `json:"constrained,omitempty"`
	// Priority is spec.priority.
	Priority int32 `json:"priority,omitempty"`
	// Restarts is how often its containers were started again, in all.
	Restarts int32 `json:"restarts,omitempty"`
	// Disruption is the reason of DisruptionTarget=True ("PreemptionByScheduler"), "" otherwise.
	Disruption string `json:"disruption,omitempty"`
}

// PVC is the body of api/persistentvolumeclaims.
type PVC struct {
	Object
	VolumeName string `json:"volumeName,omitempty"`
}

// PV is the body of api/persistentvolumes.
type PV struct {
	Object
	Driver string `json:"driver,omitempty"`
	Handle string `json:"handle,omitempty"`
	// Pinned says that it has a node affinity.
	Pinned bool `json:"pinned,omitempty"`
}

// VolumeAttachment is the body of api/volumeattachments.
type VolumeAttachment struct {
	Object
	Attacher string `json:"attacher"`
	NodeName string `json:"nodeName"`
	PVName   string `json:"pvName,omitempty"`
	Attached bool   `json:"attached"`
	// AttachCode is status.attachError.errorCode; nil when absent.
	AttachCode  *int32 `json:"attachCode,omitempty"`
	AttachError string `json:"attachError,omitempty"`
	DetachCode  *int32 `json:"detachCode,omitempty"`
	DetachError string `json:"detachError,omitempty"`
}

// KubeEvent is the body of api/events.
type KubeEvent struct {
	Object
	Kind      string `json:"kind"` // of the involved object
	Name      string `json:"name"` // namespace/name of the involved object, whose UID is NameUID
	NameUID   string `json:"nameUID,omitempty"`
	EventType string `json:"eventType,omitempty"`
	Reason    string `json:"reason,omitempty"`
	Message   string `json:"message,omitempty"`
	Component string `json:"component,omitempty"`
	// Count is how often it happened, as its writer counts; 0 where it does not say.
	Count int32 `json:"count,omitempty"`
}

// Audit is the body of audit events: one invoke (RequestReceived) and one completion (ResponseComplete) per write to storage.k8s.io. Key is
// "<resource>/<name>", Op the audit id, Rev the resourceVersion of the object answered. Completions without a verdict (5xx, panic) are unknown.
type Audit struct {
	User        string `json:"user"`
	Verb        string `json:"verb"`
	Resource    string `json:"resource"`
	Subresource string `json:"subresource,omitempty"`
	Name        string `json:"name"`
	// RequestVersion is metadata.resourceVersion of the request object, "" when it had none.
	RequestVersion string `json:"requestVersion,omitempty"`
	// Status is the HTTP status; 0 on an invoke.
	Status int `json:"status,omitempty"`
	// Drivers is spec.drivers of the CSINode answered (of the request, on an invoke).
	Drivers []CSINodeDriver `json:"drivers,omitempty"`
}
