package run

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/history"
	"headroom/e2e/framework/report"
	"headroom/e2e/framework/workload"
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
	// NotTried says why the spec was not run at all; the requirement is then open.
	NotTried string
	// Skipped says why this provider cannot run the spec; the requirement does not apply then.
	Skipped string
}

// EndSpec records how a spec ended. A failure of the environment leaves the requirement open; one of the driver's own names the driver.
func (s *Session) EndSpec(r Requirement, o Outcome) {
	o.Failure = s.unlessDied(o.Scope, s.unlessGone(o.Failure))
	if unsupported := (*cluster.UnsupportedError)(nil); errors.As(o.Failure, &unsupported) {
		o.Skipped, o.Failure = unsupported.Error(), nil
	}
	body := history.Spec{Title: r.Claim, Boundary: r.Boundary, Outcome: "Held"}
	phase := history.OK
	var driver *cluster.DriverError
	var env *cluster.EnvironmentError
	var other blamed
	var provision *workload.ProvisionError
	var input *cluster.InputError
	var unreached *url.Error // this process could not reach the API server or the backend: no spec breaks the way there
	switch {
	case o.Skipped != "":
		phase, body.Outcome, body.Skipped, body.Message = history.Observed, "", true, o.Skipped
	case o.NotTried != "":
		phase, body.Outcome, body.Boundary, body.Message = history.Unknown, "Inconclusive", history.Driver, "not tried: "+o.NotTried
	case o.Failure == nil:
	case errors.As(o.Failure, &env), errors.As(o.Failure, &input), errors.As(o.Failure, &unreached): // before the driver, which may have failed for that very reason on another node
		phase, body.Outcome, body.Boundary = history.Unknown, "Inconclusive", history.Harness
	case errors.As(o.Failure, &driver):
		phase, body.Outcome, body.Boundary = history.Fail, "Violated", history.Driver
	case errors.As(o.Failure, &provision):
		phase, body.Outcome, body.Boundary = history.Fail, "Violated", provision.Boundary
	case errors.As(o.Failure, &other):
		phase, body.Outcome, body.Boundary = history.Fail, "Violated", other.boundary
	default:
		phase, body.Outcome = history.Fail, "Violated"
	}
	if o.Failure != nil {
		body.Message = o.Failure.Error()
	}
	if phase == history.Fail && driver == nil && provision == nil && report.OfTheGate(r.ID, s.Header.Params.Driver.Limit, body.Boundary) {
		phase, body.Outcome, body.Boundary = history.Unknown, "Inconclusive", history.Harness
		body.Message = "of the gate's limit, not the driver's: " + body.Message
	}
	s.specs.Write(history.Event{Phase: phase, Op: r.ID, Key: r.ID, Scope: o.Scope, Body: history.Encode(body)})
}

// fileDriverDown holds the failure of a driver that did not come up.
const fileDriverDown = "driver-down"

// NoteDriverDown remembers, for all processes of the run, that the driver did not come up in a spec. Each further spec would wait for it as long.
func (s *Session) NoteDriverDown(r Requirement, err error) {
	var driver *cluster.DriverError
	var env *cluster.EnvironmentError
	if !errors.As(err, &driver) || errors.As(err, &env) {
		return
	}
	why := fmt.Sprintf("the driver did not come up in %s", r.ID)
	s.Problem("remember that the driver is down", os.WriteFile(filepath.Join(s.Dir, fileDriverDown), []byte(why), 0o644))
}

// DriverDown says why there is no use in starting the driver once more; "" when it came up so far.
func (s *Session) DriverDown() string {
	b, err := os.ReadFile(filepath.Join(s.Dir, fileDriverDown))
	if err != nil {
		return ""
	}
	return string(b)
}

// BenchFailure is what a failed attempt to make a bench means for its spec.
func BenchFailure(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("make the bench: %w", cluster.Environment("make the bench", err))
}
