package history

// SourceUpgrade holds the walks over versions that a run takes.
//
//	Key "walk"    invoke, then ok or fail         a walk begins and ends; Body is Walk
//	Key "step"    invoke, then ok or fail         Op joins the two; Body is WalkStep
//	Key "lease"   observed                        the first renewal of a node's lease after the component of the step was gone; Op is the step's
//	Key "look"    observed                        what the stop rules saw while nothing was changed; Body has the bounds of package stoprules, and the signals
//	Key "stop"    observed                        a stop rule was broken; Body is WalkStop
const SourceUpgrade = "upgrade"

// Keys of the events of SourceUpgrade.
const (
	KeyWalk  = "walk"
	KeyStep  = "step"
	KeyLease = "lease"
	KeyLook  = "look"
	KeyStop  = "stop"
)

// What a step can do, as far as it bears on what is judged.
const (
	DoSwap      = "swap"
	DoDrain     = "drain"
	DoSetPeriod = "set period"
)

// SpecWalk is the id of the row that says how a walk went.
const SpecWalk = "upgrade-walk"

// Walk is the body of the events that frame a walk.
type Walk struct {
	// From and To are Kubernetes versions.
	From string `json:"from"`
	To   string `json:"to"`
	// NewDriver is the definition that plays the driver's new release.
	NewDriver string `json:"newDriver"`
	// Steps is how many there are to take.
	Steps int `json:"steps"`
	// Stopped is the stop rule that ended the walk early, "" where none did; Error says what else did.
	Stopped string `json:"stopped,omitempty"`
	Error   string `json:"error,omitempty"`
}

// WalkStep is the body of a step's events.
type WalkStep struct {
	// Number counts from 1; Leg is the part of the walk: "upgrade", "rollback" or "upgrade again".
	Number int    `json:"number"`
	Leg    string `json:"leg"`
	// Do is what the step does: swap, drain, uncordon, bake, driver, set period, unset period.
	Do string `json:"do"`
	// Component is the id of what is swapped ("kubelet@n1"); "" where nothing is. The step's event has the node.
	Component string `json:"component,omitempty"`
	From      string `json:"from,omitempty"`
	To        string `json:"to,omitempty"`
	// Unsupported is the rule of the version skew policy that the step breaks.
	Unsupported string `json:"unsupported,omitempty"`
	Error       string `json:"error,omitempty"`
}

// WalkStop is the body of a broken stop rule.
type WalkStop struct {
	// Rule is its name, and Signal the one that it reads.
	Rule   string `json:"rule"`
	Signal string `json:"signal"`
	// Pause says that the rule pauses growth and does not end the walk.
	Pause bool `json:"pause,omitempty"`
	// Detail says want, got.
	Detail string `json:"detail"`
}
