package history

// Schema is the version of the history's format; readers refuse others.
const Schema = "headroom/history/v1"

// Header is the first line of a merged history.
type Header struct {
	Schema string `json:"schema"`
	// Run is the id that every writer's open record repeats.
	Run string `json:"run"`
	// Seed drives all random choices of the run.
	Seed     int64  `json:"seed"`
	Provider string `json:"provider"`
	Topology string `json:"topology,omitempty"`
	// Versions maps a component kind ("kube-apiserver", "kubelet", "csi-attacher") to the version the run began with.
	Versions map[string]string `json:"versions"`
	Params   Params            `json:"params"`
	// Missing maps a source to why its events may be incomplete from the start (an `existing` cluster without audit, say).
	Missing map[string]string `json:"missing,omitempty"`
}

// Params are the figures that checks measure against.
type Params struct {
	// Slack is added to every bound for clock reading, watch latency and scheduling of the harness. Default 2 s.
	Slack Duration `json:"slack"`
	// Driver holds what the driver declares of itself.
	Driver DriverParams `json:"driver"`
}

// DriverParams are a driver's declared policy figures (drivers/<driver>.yaml).
type DriverParams struct {
	// Name is the driver under test as given to --driver: "steady", or a persona.
	Name string `json:"name"`
	// MinInterval is the least time between two backend queries of a node; 0 means that it declares none.
	MinInterval Duration `json:"minInterval,omitzero"`
	// CacheAge is how old an answer may be while the backend answers.
	CacheAge Duration `json:"cacheAge"`
	// LastGoodLife is how long the last good value may be reported while the backend does not answer.
	LastGoodLife Duration `json:"lastGoodLife"`
	// Step is how many volumes an answer may rise by per StepInterval; 0 means not limited.
	Step         int64    `json:"step"`
	StepInterval Duration `json:"stepInterval"`
	// Limit is where the driver's limit comes from, as in its definition, or "start" for one that the definition hands over at the start; "" means the
	// quota backend.
	Limit string `json:"limit,omitempty"`
	// Releases says that the driver's process is told which release to play.
	Releases bool `json:"releases,omitempty"`
	// Dynamic says that external-provisioner makes and deletes the driver's volumes.
	Dynamic bool `json:"dynamic,omitempty"`
	// Parameters are those of the driver's StorageClass, with Dynamic.
	Parameters map[string]string `json:"parameters,omitempty"`
}

// Limited says whether Headroom chooses the driver's limits, so that the quota backend knows the truth.
func (p DriverParams) Limited() bool {
	return p.Limit == "" || p.Limit == LimitGate || p.Limit == LimitStart
}

// Changeable says whether Headroom can change limits while the driver runs, and knows from the backend what is attached.
func (p DriverParams) Changeable() bool { return p.Limit == "" || p.Limit == LimitGate }

// LimitStart is DriverParams.Limit of a driver that is given its limit when it starts.
const LimitStart = "start"

// LimitGate is DriverParams.Limit of a driver that has none of its own: what is judged of a limit then is the gate's.
const LimitGate = "gate"
