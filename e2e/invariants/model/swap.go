package model

import (
	"time"

	"headroom/e2e/framework/history"
)

// Swap is one component's way to another version, as a step of a walk.
type Swap struct {
	Step                history.WalkStep
	Component, From, To string
	Op, Scope           string
	// Signal is when the component was asked to end, Ready when it was ready again, Leases when the last kubelet renewed its lease since, End when the step
	// was over; 0 for what did not happen.
	Signal, Ready, Leases, End time.Duration
	Begun, Signalled, Last     history.Ref
	// Whole says that the step ended well: all leases were renewed.
	Whole bool
}

// Took is the time from the signal until the component was ready and the last lease was renewed; false where it never was.
func (s *Swap) Took() (time.Duration, bool) {
	return max(s.Ready, s.Leases) - s.Signal, s.Signal > 0 && s.Ready > 0
}

// Swaps follows the swaps of a walk, of which one is under way at a time. The zero value has seen nothing.
type Swaps struct{ open *Swap }

// Component takes an event of component/*.
func (f *Swaps) Component(e history.Event, b *history.Component) {
	switch o := f.open; {
	case o == nil || e.Key != o.Component:
	case b.State == "stopping" && o.Signal == 0:
		o.Signal, o.Signalled = e.At, e.Ref()
	case b.State == "ready" && o.Signal > 0:
		o.Ready, o.Last = e.At, e.Ref()
	}
}

// Walk takes an event of history.SourceUpgrade and returns the swap that it ends, nil for none. An error is of a body that cannot be decoded.
func (f *Swaps) Walk(e history.Event) (*Swap, error) {
	switch {
	case e.Key == history.KeyLease && f.open != nil && e.Op == f.open.Op:
		f.open.Leases, f.open.Last = e.At, e.Ref()
	case e.Key == history.KeyStep && e.Phase == history.Invoke:
		var b history.WalkStep
		if err := e.Decode(&b); err != nil {
			return nil, err
		}
		f.open = nil
		if b.Do == history.DoSwap {
			f.open = &Swap{Step: b, Component: b.Component, From: b.From, To: b.To, Op: e.Op, Scope: e.Scope, Begun: e.Ref()}
		}
	case e.Key == history.KeyStep && f.open != nil && e.Op == f.open.Op:
		done := f.open
		done.End, done.Whole, f.open = e.At, e.Phase == history.OK, nil
		return done, nil
	}
	return nil, nil
}
