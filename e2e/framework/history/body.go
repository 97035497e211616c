package history

import "time"

// Duration is a time.Duration that reads and writes as "1m30s".
type Duration time.Duration

func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText writes the form of time.Duration.String.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText reads the form of time.ParseDuration: a number without a unit is an error.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	*d = Duration(v)
	return err
}

// Names of sources that have no per-node or per-process part.
const (
	SourceBackend = "backend"
	SourceAudit   = "audit"
	SourceFault   = "fault"
	SourceProbe   = "probe"
	// SourcePhase holds the run's phases: Key is the phase that begins (create, steady, faults, heal, quiesce, collect).
	SourcePhase = "phase"
	// SourceMerge is the source of the gap events that Merge makes up.
	SourceMerge = "merge"
)

// Prefixes of the other sources; the rest is the node, driver, resource or process.
const (
	PrefixCSI       = "csi/"       // csi/<node>, csi/controller/<driver>: CSICall
	PrefixAPI       = "api/"       // api/<resource>: CSINode, CSIDriver, Node, Pod, PVC, VolumeAttachment, KubeEvent
	PrefixComponent = "component/" // component/<writer>: Component
	PrefixBeat      = "beat/"      // beat/<process>: Beat
	PrefixSpec      = "spec/"      // spec/<process>: Spec
	PrefixWorkload  = "workload/"  // workload/<process>: Workload
)

// Side is the side of the gate that a CSI call was seen on.
type Side string

const (
	// ClientSide is what the kubelet or the attacher sent and got.
	ClientSide Side = "client"
	// DriverSide is what the driver got and answered. A call that the gate answered itself has no driver side.
	DriverSide Side = "driver"
)

// CSICall is the body of events of csi/*. Key is the method without its service ("NodeGetInfo", "ControllerPublishVolume"); the calls on
// the registration socket are "GetInfo" and "NotifyRegistrationStatus". Op is the same on both sides.
type CSICall struct {
	Side   Side   `json:"side"`
	Driver string `json:"driver"`
	// Volume is the volume handle, where the request has one, or the answer of CreateVolume.
	Volume string `json:"volume,omitempty"`
	// Name is what CreateVolume asks to call the volume.
	Name string `json:"name,omitempty"`
	// NodeID is the CSI node id: of the request for controller calls, of the answer for NodeGetInfo.
	NodeID string `json:"nodeID,omitempty"`
	// Code is the gRPC code of a completion; 0 is OK.
	Code    uint32 `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
	// MaxVolumes is max_volumes_per_node of a NodeGetInfo answer. 0 or less means unlimited to Kubernetes.
	MaxVolumes *int64 `json:"maxVolumes,omitempty"`
	// Version is vendor_version of a GetPluginInfo answer.
	Version string `json:"version,omitempty"`
	// Registered and Message are what the kubelet told the registrar (NotifyRegistrationStatus).
	Registered *bool `json:"registered,omitempty"`
	// Injected marks an answer that the gate made or changed.
	Injected bool `json:"injected,omitempty"`
}

// Quota is what the backend knows of one node.
type Quota struct {
	// Limit is how many volumes the backend lets be attached to the node in all, foreign ones included.
	Limit int64 `json:"limit"`
	// Generation rises by one with every change of the node's limit or foreign attachments.
	Generation int64 `json:"generation"`
	// Foreign counts attachments that Kubernetes did not make.
	Foreign int64 `json:"foreign"`
	// Attached counts attachments made through the API.
	Attached int64 `json:"attached"`
}

// Usable is how many volumes Kubernetes may use: the limit minus foreign attachments, at least 0.
func (q Quota) Usable() int64 { return max(0, q.Limit-q.Foreign) }

// Backend is the body of events of the quota backend.
//
//	Key "quota"  observed   the truth changed: Quota is the new one; it holds from this event on
//	Key "fault"  observed   Fault is the mode for the node from now on, "" when healed
//	Key "get"    invoke, then ok or fail   a quota query; Quota is what was answered
//	Key "attach" / "detach" / "list"   the same; Reason says why not; Quota is the state after the decision
//	Key "create" / "delete"            the same of a volume, without a node and a Quota
type Backend struct {
	Quota  *Quota `json:"quota,omitempty"`
	Volume string `json:"volume,omitempty"`
	// Decision is "accepted" or "refused" for attach, detach, create and delete; "" where the backend never came to decide (a fault answered).
	Decision string `json:"decision,omitempty"`
	// Reason is one of the Reason constants when not accepted.
	Reason string `json:"reason,omitempty"`
	// Fault is the mode that answered, or for Key "fault" the mode set. Along with a Decision it is NoAnswer.
	Fault string `json:"fault,omitempty"`
	// Operations are the keys that the fault set acts on ("get", "attach", ...); empty means all.
	Operations []string `json:"operations,omitempty"`
	// Status is the HTTP status answered; 0 when the connection was dropped.
	Status int `json:"status,omitempty"`
	// Holder is the instance that asked, as it names itself.
	Holder string `json:"holder,omitempty"`
}

// NoAnswer is the fault mode in which the backend decides and nobody is told: the decision stands, with this as its Fault.
const NoAnswer = "no-answer"

// Decisions of the backend.
const (
	Accepted = "accepted"
	Refused  = "refused"
)

// Reasons of the backend for refusing.
const (
	ReasonFull              = "full"               // attached + foreign + 1 > limit
	ReasonNoSuchVolume      = "no-such-volume"     //
	ReasonNoSuchNode        = "no-such-node"       //
	ReasonAttachedElsewhere = "attached-elsewhere" // the volume is attached to another node
	ReasonIncompatible      = "incompatible"       // attached already, with another capability (read-only differs)
	ReasonBadRequest        = "bad-request"        //
	ReasonForbidden         = "forbidden"          //
	ReasonUnauthenticated   = "unauthenticated"    //
	ReasonWrongZone         = "wrong-zone"         // volume and node are in different zones
	ReasonThrottled         = "throttled"          //
	ReasonUnavailable       = "unavailable"        // an outage answered
)

// Component is the body of component/* events; Key is the component's id, such as "kubelet@n1".
type Component struct {
	// State is started, ready, stopping, stopped, paused, resumed or exited (on its own).
	State   string `json:"state"`
	Version string `json:"version,omitempty"`
	PID     int    `json:"pid,omitempty"`
	// Exit says how it ended: "exit status 1", "signal: killed".
	Exit string `json:"exit,omitempty"`
}

// Fault is the body of fault events; Key is the fault's name, Op joins the four states of one injection.
type Fault struct {
	// State is inject (asked for), effective, heal (asked for), healed or failed.
	State  string `json:"state"`
	Target string `json:"target,omitempty"`
	// Nodes that the fault acts on; empty means all.
	Nodes  []string `json:"nodes,omitempty"`
	Detail string   `json:"detail,omitempty"`
}

// Beat is the body of beat/* events: one per second and process.
type Beat struct {
	// Wall is the wall clock at the same instant as the event's At, in RFC 3339 with nanoseconds.
	Wall time.Time `json:"wall"`
	// MaxGap is the longest time between two 100 ms beats since the last event.
	MaxGap Duration `json:"maxGap"`
	// CPUSome is the share of time, 0 to 100, in which some task waited for a CPU over the last 10 s (PSI); -1 where the kernel does not say.
	CPUSome float64 `json:"cpuSome"`
}

// Probe is the body of probe events: one request to the API server a second, invoke then completion.
type Probe struct {
	Latency Duration `json:"latency"`
	Error   string   `json:"error,omitempty"`
}

// Spec is the body of spec/* events: invoke when a spec starts, ok or fail when it ends (unknown when the environment failed). Key is the spec's id.
type Spec struct {
	Title    string   `json:"title,omitempty"`
	Boundary Boundary `json:"boundary,omitempty"`
	// Outcome is Held, Violated or Inconclusive at the end.
	Outcome string `json:"outcome,omitempty"`
	// Message is want, got, when for a failure; the reason for a skip.
	Message string `json:"message,omitempty"`
	Skipped bool   `json:"skipped,omitempty"`
}

// Workload is the body of workload/* events: what the suite itself asks of the API or of a backend. Key is "<verb> <resource> <namespace/name>".
type Workload struct {
	Verb     string `json:"verb"`
	Resource string `json:"resource"`
	Name     string `json:"name"`
	// Writer is the user name in whose name the suite writes an object of the product on purpose (a CSINode, say); empty otherwise.
	Writer string `json:"writer,omitempty"`
	Error  string `json:"error,omitempty"`
}

// Boundary names the part that broke.
type Boundary string

const (
	Driver            Boundary = "driver"
	Attacher          Boundary = "external-attacher"
	Provisioner       Boundary = "external-provisioner"
	Kubelet           Boundary = "kubelet"
	Scheduler         Boundary = "scheduler"
	APIServer         Boundary = "kube-apiserver"
	ControllerManager Boundary = "kube-controller-manager"
	Harness           Boundary = "harness"
)
