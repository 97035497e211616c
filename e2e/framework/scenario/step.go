package scenario

import (
	"fmt"
	"strconv"

	"go.yaml.in/yaml/v3"

	"headroom/e2e/framework/history"
	"headroom/e2e/framework/versions"
)

// Step is one thing to do: exactly one of its fields besides At is given.
type Step struct {
	// At is when the step begins at the earliest, counted from the beginning of the first.
	At *history.Duration `yaml:"at,omitempty"`
	// Pods makes pods.
	Pods *Pods `yaml:"pods,omitempty"`
	// Delete removes the pods of that name.
	Delete string `yaml:"delete,omitempty"`
	// Quota changes what the backend says of a node.
	Quota *Quota `yaml:"quota,omitempty"`
	// Fault injects a fault.
	Fault *Fault `yaml:"fault,omitempty"`
	// Heal ends the fault with that id. Faults that no step heals are healed when the steps are over.
	Heal string `yaml:"heal,omitempty"`
	// Component changes the life of a process.
	Component *Component `yaml:"component,omitempty"`
	// Patch changes an API object, as a user would.
	Patch *Patch `yaml:"patch,omitempty"`
	// Replace deletes an API object and makes it again with a new UID: node/1 or csidriver.
	Replace *Target `yaml:"replace,omitempty"`
	// Remove deletes an API object: node/1, csinode/1 or csidriver.
	Remove *Target `yaml:"remove,omitempty"`
	// Wait waits until something is seen.
	Wait *Wait `yaml:"wait,omitempty"`
	// Sleep lets time pass.
	Sleep *history.Duration `yaml:"sleep,omitempty"`
}

// Pods are pods that run until they are deleted, each with volumes of its own.
type Pods struct {
	// Name is what later steps call them.
	Name string `yaml:"name"`
	// Count is how many; 1 when left out.
	Count int `yaml:"count,omitempty"`
	// On is the node that they must be on; any node of the scenario when left out.
	On *Target `yaml:"on,omitempty"`
	// Volumes is how many each of them uses; 1 when left out, unless Ephemeral is given.
	Volumes int `yaml:"volumes,omitempty"`
	// Ephemeral is how many generic ephemeral volumes each of them has.
	Ephemeral int `yaml:"ephemeral,omitempty"`
}

// Quota is a change of a node's quota; what is left out stays.
type Quota struct {
	Node    Target `yaml:"node"`
	Limit   *int64 `yaml:"limit,omitempty"`
	Foreign *int64 `yaml:"foreign,omitempty"`
}

// Fault is an injection.
type Fault struct {
	// ID is what the step that heals it says; the fault's name when left out.
	ID   string `yaml:"id,omitempty"`
	Name string `yaml:"name"`
	// Target is what it acts on.
	Target Target `yaml:"target"`
	// Params are the fault's own.
	Params yaml.Node `yaml:"params,omitempty"`

	params any
}

// Decoded returns the parameters as the fault's own type, a pointer; nil before Load.
func (f *Fault) Decoded() any { return f.params }

// Key is the id that a heal refers to.
func (f *Fault) Key() string {
	if f.ID != "" {
		return f.ID
	}
	return f.Name
}

// Action is what is done to a process.
type Action string

// Actions. A restart is a stop and a start.
const (
	Start   Action = "start"
	Stop    Action = "stop"
	Kill    Action = "kill"
	Restart Action = "restart"
	Pause   Action = "pause"
	Resume  Action = "resume"
)

// Actions lists all of them.
var Actions = []Action{Start, Stop, Kill, Restart, Pause, Resume}

// Component changes the life of a process.
type Component struct {
	Target Target `yaml:"target"`
	Do     Action `yaml:"do"`
	// Version is what it is started at, for start and restart; the one it had when left out.
	Version versions.Version `yaml:"version,omitempty"`
}

// Patch is a JSON merge patch of an API object.
type Patch struct {
	// Object is csidriver, csinode/1 or node/1.
	Object Target `yaml:"object"`
	// Merge is the patch: a null removes a field.
	Merge yaml.Node `yaml:"merge"`
}

// Wait waits until something is seen: exactly one of its fields besides Within is given.
type Wait struct {
	// Within is how long it may take. A wait that is not met in time fails the scenario.
	Within history.Duration `yaml:"within"`
	// Count waits for a count in CSINode.
	Count *CountIs `yaml:"count,omitempty"`
	// Pods waits for a state of pods.
	Pods *PodsAre `yaml:"pods,omitempty"`
	// Calls waits for further calls of a driver's node service.
	Calls *Calls `yaml:"calls,omitempty"`
	// Process waits for a process to end by itself, or to be up.
	Process *ProcessIs `yaml:"process,omitempty"`
}

// CountIs is a state of a node's CSINode.
type CountIs struct {
	Node Target `yaml:"node"`
	Is   Count  `yaml:"is"`
}

// Count is allocatable.count of the driver's entry: a number, "absent" for an entry without one (which is unlimited), or "no-entry".
type Count struct {
	Number  int32
	Absent  bool
	NoEntry bool
}

func (c Count) String() string {
	switch {
	case c.NoEntry:
		return "no-entry"
	case c.Absent:
		return "absent"
	}
	return strconv.Itoa(int(c.Number))
}

// MarshalText writes the form of String.
func (c Count) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText reads the form of String.
func (c *Count) UnmarshalText(b []byte) error {
	switch text := string(b); text {
	case "absent":
		*c = Count{Absent: true}
	case "no-entry":
		*c = Count{NoEntry: true}
	default:
		n, err := strconv.ParseInt(text, 10, 32)
		if err != nil || n < 0 {
			return fmt.Errorf(`want a count of 0 or more, "absent" or "no-entry", got %q`, text)
		}
		*c = Count{Number: int32(n)}
	}
	return nil
}

// PodState is what pods of a name are.
type PodState string

// States of pods.
const (
	Running PodState = "running"
	// Scheduled pods have a node, whatever else they are.
	Scheduled PodState = "scheduled"
	// Unschedulable pods wait for room, and say that the node's volume limit is why.
	Unschedulable PodState = "unschedulable"
	// Waiting pods are Pending on a node.
	Waiting PodState = "waiting"
	// Rejected pods are Failed for lack of attach capacity.
	Rejected PodState = "rejected"
)

// PodStates lists all of them.
var PodStates = []PodState{Running, Scheduled, Unschedulable, Waiting, Rejected}

// PodsAre is a state of all pods of a name.
type PodsAre struct {
	Name string   `yaml:"name"`
	Are  PodState `yaml:"are"`
	// Count is how many of them must be; all when left out.
	Count int `yaml:"count,omitempty"`
}

// Calls waits until a driver was called so many times more than when the wait began.
type Calls struct {
	// Target is driver@1.
	Target Target `yaml:"target"`
	// Method is a name such as NodeGetInfo, or GetInfo for the registration.
	Method string `yaml:"method"`
	More   int    `yaml:"more"`
}

// ProcessState is what a process is.
type ProcessState string

// States of processes.
const (
	Up     ProcessState = "up"
	Exited ProcessState = "exited"
)

// ProcessIs is a state of a process.
type ProcessIs struct {
	Target Target       `yaml:"target"`
	Is     ProcessState `yaml:"is"`
	// Version is the one that it is up with; any when left out.
	Version versions.Version `yaml:"version,omitempty"`
}
