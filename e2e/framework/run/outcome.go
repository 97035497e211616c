package run

import (
	"errors"
	"fmt"

	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/history"
)

// Begin records that a spec starts.
func (s *Session) Begin(r Requirement) {
	s.specs.Write(history.Event{
		Phase: history.Invoke, Op: r.ID, Key: r.ID, Body: history.Encode(history.Spec{Title: r.Claim, Boundary: r.Boundary}),
	})
}

// Outcome is how a spec ended.
type Outcome struct {
	// Scope is the bench's, for joining the spec to its events.
	Scope string
	// Failure is nil when the requirement held.
	Failure error
}

// EndSpec records how a spec ended. A failure of the environment leaves the requirement open; one of the driver's own names the driver.
func (s *Session) EndSpec(r Requirement, o Outcome) {
	o.Failure = s.unlessGone(o.Failure)
	body := history.Spec{Title: r.Claim, Boundary: r.Boundary, Outcome: "Held"}
	phase := history.OK
	var driver *cluster.DriverError
	var env *cluster.EnvironmentError
	var other blamed
	switch {
	case o.Failure == nil:
	case errors.As(o.Failure, &driver):
		phase, body.Outcome, body.Boundary = history.Fail, "Violated", history.Driver
	case errors.As(o.Failure, &env):
		phase, body.Outcome, body.Boundary = history.Unknown, "Inconclusive", history.Harness
	case errors.As(o.Failure, &other):
		phase, body.Outcome, body.Boundary = history.Fail, "Violated", other.boundary
	default:
		phase, body.Outcome = history.Fail, "Violated"
	}
	if o.Failure != nil {
		body.Message = o.Failure.Error()
	}
	s.specs.Write(history.Event{Phase: phase, Op: r.ID, Key: r.ID, Scope: o.Scope, Body: history.Encode(body)})
}

// BenchFailure is what a failed attempt to make a bench means for its spec.
func BenchFailure(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("make the bench: %w", cluster.Environment("make the bench", err))
}
