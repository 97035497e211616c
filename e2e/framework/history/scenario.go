package history

// SourceScenario holds the scenarios that a run plays: Key is the scenario's name, Scope the scope of everything that it does.
const SourceScenario = "scenario"

// Scenario is the body of scenario events: what must be seen of it. It is written before the scenario begins.
type Scenario struct {
	// File is where it was read from.
	File string `json:"file,omitempty"`
	// Spec is the id under which its beginning and end are recorded.
	Spec   string        `json:"spec"`
	Expect []Expectation `json:"expect,omitempty"`
}

// Expectation is a verdict that a scenario must get from an invariant over what it did.
type Expectation struct {
	Invariant string `json:"invariant"`
	// Violated says that the scenario shows a defect: the verdict must be that it is there. Otherwise the invariant must be put to the test and hold.
	Violated bool `json:"violated,omitempty"`
	// AtMost bounds the longest duration that was measured; 0 means that it is not bounded.
	AtMost Duration `json:"atMost,omitempty"`
}
