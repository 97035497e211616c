package invariants

import (
	"fmt"
	"time"

	"headroom/e2e/framework/history"
	"headroom/e2e/invariants/model"
)

// volumeDeleted judges the answers of DeleteVolume. Whether OK is true only Headroom's backend can tell: of volumes that a driver made elsewhere, or that the
// gate made known to the backend, nothing is judged but that they are not refused for ever.
var volumeDeleted = Invariant{
	Name: "volume-deleted",
	Claim: "a volume of which the driver answers DeleteVolume with OK is gone from the backend, and the driver does answer so within 10 s of the first call, " +
		"unless its backend failed meanwhile or the volume is attached",
	Source:   "CSI spec DeleteVolume; external-provisioner, --timeout and --retry-interval-start",
	Boundary: history.Driver,
	Needs:    []string{history.PrefixCSI + "controller/", history.SourceBackend},
	New: func(p Params) Checker {
		return newChecker(p, &reclaiming{t: tally{}, there: map[string]history.Ref{}, gone: map[string]time.Duration{}, first: map[madeKey]*model.Call{}, gate: p.Params.Driver.Limit == history.LimitGate})
	},
}

type reclaiming struct {
	t    tally
	open doneCalls
	// there are the volumes that drivers made in the backend, with the event that says so.
	there map[string]history.Ref
	// gone is when the backend took some of them away.
	gone map[string]time.Duration
	// first are the first calls for volumes whose DeleteVolume was not answered with OK yet.
	first  map[madeKey]*model.Call
	failed backendFailures
	gate   bool
}

func (r *reclaiming) observe(_ *model.Model, s *model.Step) {
	if b, ok := s.Body.(*history.Backend); ok && b.Decision == history.Accepted {
		switch s.Key {
		case "create":
			if _, known := r.there[b.Volume]; !known {
				r.there[b.Volume] = s.Ref()
			}
		case "delete":
			r.gone[b.Volume] = s.At
		}
	}
	r.failed.observe(s, "delete")
	r.open.observe(s, model.DeleteVolume, history.DriverSide)
	if c := s.Call; c != nil && c.Method == model.DeleteVolume && c.Side == history.DriverSide && c.Volume != "" {
		if key := (madeKey{c.Driver, c.Volume}); r.first[key] == nil {
			r.first[key] = c
		}
	}
}

func (r *reclaiming) settle(m *model.Model, to time.Duration) time.Duration {
	for _, c := range r.open.due(model.Minus(to, m.Slack())) {
		key := madeKey{c.Driver, c.Volume}
		first := r.first[key]
		made, ours := r.there[c.Volume]
		at, gone := r.gone[c.Volume]
		if first == nil || c.Orphan {
			continue
		}
		f := finding{at: c.Done, scope: c.Scope, evidence: []history.Ref{first.Start, c.End}}
		took := c.Done - first.Invoked
		switch {
		case c.OK() && (!ours || r.gate):
		case c.OK() && !(gone && at <= model.Plus(c.Done, m.Slack())):
			f.evidence = []history.Ref{made, c.Start, c.End}
			f.detail = fmt.Sprintf("want volume %q gone from the backend once DeleteVolume was answered OK at %s, got it still there; try the driver's log, "+
				"logs/driver-controller@%s.log: it must not answer before the volume is deleted", c.Volume, m.Since(c.Done), c.Driver)
			r.t.missing(c.ID.String(), f, history.SourceBackend)
		case c.OK():
			r.t.held(c.ID.String(), c.Scope)
		case c.Code == codePrecondition: // it says that the volume is in use
		case took > createWithin+m.Slack() && !r.failed.during(first.Invoked, c.Done, m.Slack()) &&
			!m.Interrupted(first.Invoked, c.Done, "driver-controller@"+c.Driver):
			f.detail = fmt.Sprintf("want volume %q deleted within %s of the first call at %s, got %s after %s",
				c.Volume, createWithin, m.Since(first.Invoked), answerOf(c), took.Round(time.Millisecond))
			r.t.late(m, c.ID.String(), first.Invoked, c.Done, f)
		}
		if c.OK() {
			delete(r.first, key)
			delete(r.there, c.Volume)
			delete(r.gone, c.Volume)
		}
	}
	return model.Forever
}

func (r *reclaiming) finish(m *model.Model) []Verdict { return r.t.verdicts(m, history.Driver) }
