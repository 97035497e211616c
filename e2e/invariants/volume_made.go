package invariants

import (
	"fmt"
	"time"

	"headroom/e2e/framework/history"
	"headroom/e2e/invariants/model"
)

// createWithin is how long external-provisioner waits for an answer (its --timeout). It asks again after 1 s, 2 s, 4 s and so on.
const createWithin = 10 * time.Second

// volumeMade judges each volume that external-provisioner asks for, by its name. A call that was refused may succeed when it is repeated, so only one that
// fails later than the bound counts; a claim that was deleted before is no longer asked for, and not judged.
var volumeMade = Invariant{
	Name:     "volume-made",
	Claim:    "a volume that the driver is asked for with CreateVolume is made within 10 s of the first call, unless its backend failed meanwhile",
	Source:   "external-provisioner, --timeout and --retry-interval-start; CSI spec CreateVolume: this operation MUST be idempotent",
	Boundary: history.Driver,
	Needs:    []string{history.PrefixCSI + "controller/"},
	New: func(p Params) Checker {
		return newChecker(p, &making{t: tally{}, first: map[madeKey]*model.Call{}})
	},
}

// madeKey is a volume that a driver is asked for.
type madeKey struct{ driver, name string }

type making struct {
	t    tally
	open doneCalls
	// first are the first calls for volumes that are not made yet.
	first  map[madeKey]*model.Call
	failed backendFailures
}

func (r *making) observe(_ *model.Model, s *model.Step) {
	r.failed.observe(s, "create")
	r.open.observe(s, model.CreateVolume, history.DriverSide)
	if c := s.Call; c != nil && c.Method == model.CreateVolume && c.Side == history.DriverSide && c.Name != "" {
		if key := (madeKey{c.Driver, c.Name}); r.first[key] == nil {
			r.first[key] = c
		}
	}
}

func (r *making) settle(m *model.Model, to time.Duration) time.Duration {
	for _, c := range r.open.due(model.Minus(to, m.Slack())) {
		key := madeKey{c.Driver, c.Name}
		first := r.first[key]
		if first == nil || c.Orphan {
			continue
		}
		took := c.Done - first.Invoked
		late := took > createWithin+m.Slack()
		if c.OK() {
			delete(r.first, key)
		}
		switch {
		case !late && c.OK():
			r.t.held(c.ID.String(), c.Scope)
		case late && !r.failed.during(first.Invoked, c.Done, m.Slack()) && !m.Interrupted(first.Invoked, c.Done, "driver-controller@"+c.Driver):
			f := finding{
				at: c.Done, scope: c.Scope, evidence: []history.Ref{first.Start, c.End},
				detail: fmt.Sprintf("want volume %q made within %s of the first call at %s, got %s after %s", c.Name, createWithin, m.Since(first.Invoked), answerOf(c), took.Round(time.Millisecond)),
			}
			r.t.late(m, c.ID.String(), first.Invoked, c.Done, f)
		}
	}
	return model.Forever
}

// answerOf is how a call ended.
func answerOf(c *model.Call) string {
	if c.OK() {
		return "it"
	}
	return fmt.Sprintf("code %d (%s)", c.Code, c.Message)
}

func (r *making) finish(m *model.Model) []Verdict { return r.t.verdicts(m, history.Driver) }

// backendFailures are when the backend did not do what it was asked for, of one operation.
type backendFailures struct{ at []time.Duration }

func (b *backendFailures) observe(s *model.Step, operation string) {
	if _, ok := s.Body.(*history.Backend); ok && s.Key == operation && (s.Phase == history.Fail || s.Phase == history.Unknown) {
		b.at = append(b.at, s.At)
	}
}

// during says whether one was told between from and to; the backend may write it down a little later.
func (b *backendFailures) during(from, to, slack time.Duration) bool {
	for _, at := range b.at {
		if at >= from && at <= model.Plus(to, slack) {
			return true
		}
	}
	return false
}
