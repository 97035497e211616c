package scenario

import "headroom/e2e/framework/history"

// Catalog is what a scenario may name and this package does not know itself.
type Catalog struct {
	Faults map[string]FaultType
	// Invariants maps each name to the component that it judges.
	Invariants map[string]history.Boundary
	// Driver says why there is no driver of that name or path; nil when there is.
	Driver func(name string) error
	// Figures says why the driver of that name cannot have these figures in place of its own; nil when it can.
	Figures func(name string, f Figures) error
}

// FaultType is a fault as scenarios may use it.
type FaultType struct {
	// Targets are the classes that it acts on.
	Targets []Class
	// New returns a pointer to its parameters, a struct with yaml tags, holding the defaults.
	New func() any
}

// Checked are parameters with rules of their own.
type Checked interface {
	// Check returns the field that is wrong, the remedy, and what is wrong; nil as error when all is well.
	Check() (field, remedy string, err error)
}
