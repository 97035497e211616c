package drivers

import "headroom/e2e/framework/history"

const (
	apiVersion = "headroom/v1alpha1"
	kind       = "Driver"
)

// File is a driver's definition as it is written.
type File struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string `yaml:"kind"`
	// Name is what reports call the driver: lower-case letters, digits and dashes, at most 32.
	Name        string `yaml:"name"`
	Description string `yaml:"description,omitempty"`
	// Limit is where the driver's limit comes from: backend (Headroom's quota backend, at ${BACKEND}; the default), gate (the gate before the driver, which
	// has the limit of Headroom's quota backend in its place), own (a service of its own, which causes change) or fixed (given at its start, by ${LIMIT}
	// where specs shall choose it).
	Limit LimitSource `yaml:"limit,omitempty"`
	// NodeIDs is own for a driver that cannot be told its node id; the gate then shows Kubernetes the node's name in its place.
	NodeIDs NodeIDs `yaml:"nodeIDs,omitempty"`
	// Figures are what the driver promises of its policy.
	Figures FiguresFile `yaml:"figures"`
	// Node is the process that runs once a node. It may be left out where there are pods; only provider kind runs the driver then.
	Node *ProcessFile `yaml:"node,omitempty"`
	// Controller is the process that runs once a cluster. Left out, the node processes serve controller calls, each for its own node.
	Controller *ProcessFile `yaml:"controller,omitempty"`
	// Pods are how the driver runs on provider kind, by manifests of its author's. Left out, its processes run there in pods of Headroom's.
	Pods *PodsFile `yaml:"pods,omitempty"`
	// Volumes are what is attached. Left out, they are volumes of the quota backend with limit: backend; else they are made with CreateVolume where they are
	// attached first. Handles and missing are for driver check.
	Volumes *Volumes `yaml:"volumes,omitempty"`
	// Causes are how driver check brings about on the driver what it cannot cause from outside.
	Causes *Causes `yaml:"causes,omitempty"`
}

// FiguresFile are Figures as they are written.
type FiguresFile struct {
	// MinInterval is the least time between two quota queries of a node.
	MinInterval history.Duration `yaml:"minInterval"`
	// CacheAge is how old an answer may be while the quota service answers; at least minInterval.
	CacheAge history.Duration `yaml:"cacheAge"`
	// LastGoodLife is how long the last good value may be reported while it does not; at least cacheAge.
	LastGoodLife history.Duration `yaml:"lastGoodLife"`
	// Step is how many volumes an answer may rise by per stepInterval; not limited when left out.
	Step         int64            `yaml:"step,omitempty"`
	StepInterval history.Duration `yaml:"stepInterval,omitempty"`
}

// ProcessFile is a process of the driver.
type ProcessFile struct {
	// Command is the program and its arguments. A program with a slash that does not begin with one counts from the definition's folder.
	Command []string `yaml:"command" strict:"empty"`
	// Env are variables beside those that Headroom itself runs with.
	Env map[string]string `yaml:"env,omitempty" strict:"empty"`
	// Ready is how the process shows that it has started: socket (it takes connections; the default) or probe (Probe answers that it is ready).
	Ready Readiness `yaml:"ready,omitempty"`
	// StartLimit bounds the time from start to ready; 1m when left out.
	StartLimit history.Duration `yaml:"startLimit,omitempty"`
}

// Volumes are volumes of the driver.
type Volumes struct {
	// Handles are ids of volumes that exist and are attached nowhere: one more than the driver lets be attached.
	Handles []string `yaml:"handles,omitempty"`
	// Missing is the id of a volume that does not exist, for drivers that refuse ids of another form.
	Missing string `yaml:"missing,omitempty"`
	// MissingNode is the id of a node that does not exist, for drivers that refuse ids of another form.
	MissingNode string `yaml:"missingNode,omitempty"`
	// Provisioning is static (Headroom makes PersistentVolumes; the default) or dynamic (external-provisioner makes the volumes of claims with CreateVolume and
	// takes them away with DeleteVolume; it needs a controller).
	Provisioning Provisioning `yaml:"provisioning,omitempty"`
	// Parameters are a StorageClass's, for CreateVolume.
	Parameters map[string]string `yaml:"parameters,omitempty" strict:"empty"`
	// Context is the volume_context of attaches.
	Context map[string]string `yaml:"context,omitempty" strict:"empty"`
}

// Causes bring conditions about on the driver. Placeholders: ${NODE_ID}, ${LIMIT}, ${FOREIGN}.
type Causes struct {
	// Limit lets ${LIMIT} volumes be attached to node ${NODE_ID}.
	Limit *Action `yaml:"limit,omitempty"`
	// Foreign attaches ${FOREIGN} volumes to node ${NODE_ID} that Kubernetes knows nothing of.
	Foreign *Action `yaml:"foreign,omitempty"`
	// Outage takes the service that the limit comes from away.
	Outage *Spell `yaml:"outage,omitempty"`
	// Throttled makes that service refuse attaches because there are too many.
	Throttled *Spell `yaml:"throttled,omitempty"`
	// Restart ends the driver and starts it again.
	Restart *Action `yaml:"restart,omitempty"`
}

// Spell is a condition that ends again.
type Spell struct {
	// Begin returns once the condition is there.
	Begin Action `yaml:"begin"`
	// End returns once it is gone.
	End Action `yaml:"end"`
}

// Action is a command or an HTTP call.
type Action struct {
	// Command is a program and its arguments; one with a slash that does not begin with one counts from the definition's folder.
	Command []string `yaml:"command,omitempty" strict:"empty"`
	// HTTP is a call; a status of 400 or more is a failure.
	HTTP *HTTPCall `yaml:"http,omitempty"`
}

// HTTPCall is an HTTP request.
type HTTPCall struct {
	// Method is PUT when left out.
	Method string `yaml:"method,omitempty"`
	URL    string `yaml:"url"`
	// Body is sent as JSON.
	Body string `yaml:"body,omitempty"`
}

// LimitSource is where a driver's limit comes from.
type LimitSource string

// Sources of limits.
const (
	// LimitBackend is Headroom's quota backend.
	LimitBackend LimitSource = "backend"
	// LimitOwn is a service of the driver's own.
	LimitOwn LimitSource = "own"
	// LimitFixed is given when the driver starts, and does not change while it runs.
	LimitFixed LimitSource = "fixed"
	// LimitGate is Headroom's quota backend for a driver that knows nothing of it: the gate before the driver asks it, answers with it and refuses by it.
	LimitGate LimitSource = "gate"
)

// LimitSources lists all of them.
var LimitSources = []LimitSource{LimitBackend, LimitGate, LimitOwn, LimitFixed}

// Provisioning is who makes the volumes of claims.
type Provisioning string

// Ways of provisioning.
const (
	// Static volumes are PersistentVolumes that Headroom makes; the default.
	Static Provisioning = "static"
	// Dynamic volumes are made and deleted by external-provisioner, through the driver's CreateVolume and DeleteVolume.
	Dynamic Provisioning = "dynamic"
)

// Provisionings lists all of them.
var Provisionings = []Provisioning{Static, Dynamic}

// NodeIDs is who chooses the driver's node ids.
type NodeIDs string

// Choosers of node ids.
const (
	// NodeIDsGiven are those that Headroom passes as ${NODE_ID}; the default.
	NodeIDsGiven NodeIDs = "given"
	// NodeIDsOwn are the driver's own.
	NodeIDsOwn NodeIDs = "own"
)

// NodeIDChoosers lists all of them.
var NodeIDChoosers = []NodeIDs{NodeIDsGiven, NodeIDsOwn}

// Readiness is how a process shows that it has started.
type Readiness string

// Ways of being ready.
const (
	// ReadySocket is that the socket takes connections.
	ReadySocket Readiness = "socket"
	// ReadyProbe is that Probe succeeds and does not say that the plugin is not ready.
	ReadyProbe Readiness = "probe"
)

// Readinesses lists all of them.
var Readinesses = []Readiness{ReadySocket, ReadyProbe}
