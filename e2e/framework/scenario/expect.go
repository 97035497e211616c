package scenario

import "headroom/e2e/framework/history"

// Expect is what must be seen for the scenario to pass. Whatever it does not speak of must not be violated either.
type Expect struct {
	Invariants []Verdict `yaml:"invariants,omitempty"`
	// Pods are states of pods when the steps are over.
	Pods []PodsAre `yaml:"pods,omitempty"`
}

// Verdicts that can be expected. A scenario that shows a defect expects it violated, and fails on the day that the defect is gone.
const (
	Held     = "held"
	Violated = "violated"
)

// Verdict is an invariant's verdict over what the scenario did.
type Verdict struct {
	// Invariant is a name of docs/invariants.md.
	Invariant string `yaml:"invariant"`
	// Verdict is held or violated.
	Verdict string `yaml:"verdict"`
	// Versions is the range of the invariant's component in which this is expected, such as ">=1.33 <1.38". An expectation that does not apply to the
	// topology is a mistake. All versions when left out.
	Versions string `yaml:"versions,omitempty"`
	// AtMost bounds the longest duration that the invariant measured.
	AtMost history.Duration `yaml:"atMost,omitempty"`
}
