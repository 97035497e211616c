package invariants

import (
	"fmt"
	"strings"
	"time"

	"headroom/e2e/framework/history"
	"headroom/e2e/invariants/model"
)

var neverUnbounded = Invariant{
	Name: "never-unbounded",
	Claim: "once a quota was known for a node, no answer is 0 or less and registration never fails for lack of " +
		"quota, outages and driver restarts included (an absent count means unlimited)",
	Source: "pkg/volume/csi/nodeinfomanager/nodeinfomanager.go, pkg/volume/csi/csi_plugin.go: an answer of 0 or less, " +
		"and a failed registration, leave the node unlimited",
	Boundary: history.Driver,
	Needs:    []string{history.PrefixCSI, history.SourceBackend},
	New:      func(p Params) Checker { return newChecker(p, &unbounded{t: tally{}}) },
}

type unbounded struct {
	t        tally
	open     doneCalls
	outcomes backlog[*model.Registration]
}

func (u *unbounded) observe(_ *model.Model, s *model.Step) {
	u.open.observe(s, model.NodeGetInfo, history.DriverSide)
	if s.Outcome != nil {
		u.outcomes.push(s.Outcome)
	}
}

func (u *unbounded) settle(m *model.Model, to time.Duration) time.Duration {
	for _, c := range u.open.due(to) {
		known, ok := m.KnownSince(c.Node, c.NodeID)
		if !ok || c.Orphan || known > c.Invoked || !c.OK() {
			continue
		}
		if c.Max > 0 {
			u.t.held(c.ID.String(), c.Scope)
			continue
		}
		u.t.violated(c.ID.String(), finding{
			at: c.Done, scope: c.Scope, evidence: []history.Ref{c.Start, c.End},
			detail: fmt.Sprintf("want an answer of at least 1, since the quota was known at %s, got %d, which means unlimited, at %s",
				m.Since(known), c.Max, m.Since(c.Done)),
		})
	}
	for _, r := range u.outcomes.due(func(r *model.Registration) bool { return r.At <= to }) {
		if known, ok := m.KnownSince(r.Node); ok && known <= r.From {
			judgeRegistration(m, u.t, r)
		}
	}
	return u.outcomes.oldest(func(r *model.Registration) time.Duration { return r.From })
}

func (u *unbounded) finish(m *model.Model) []Verdict { return u.t.verdicts(m, history.Driver) }

// judgeRegistration looks for the driver's part in a registration that failed. A call that never reached the driver, because the gate answered it or
// the driver was down, is not the driver's; nor is a refused write.
func judgeRegistration(m *model.Model, t tally, r *model.Registration) {
	if r.Registered {
		t.held(r.ID.String(), r.Scope)
		return
	}
	if m.Down("driver@"+r.ID.String(), r.From, r.At) {
		return
	}
	f := finding{at: r.At, scope: r.Scope, evidence: []history.Ref{r.Ref}}
	want := fmt.Sprintf("want the registration at %s to succeed, got a failure", m.Since(r.At))
	reached := false
	for _, c := range m.Served(r.ID) {
		if c.Invoked < r.From || c.Invoked > r.At {
			continue
		}
		reached = true
		switch {
		case c.Done > r.At:
			f.detail = fmt.Sprintf("%s: the driver had not answered NodeGetInfo after %s", want, r.At-c.Invoked)
		case c.Answered == history.Unknown && c.Code != codeDeadlineExceeded && c.Code != codeCanceled:
			continue // the connection broke: the driver said nothing
		case c.Failed():
			f.detail = fmt.Sprintf("%s: the driver answered NodeGetInfo with code %d: %s", want, c.Code, c.Message)
		default:
			continue
		}
		f.evidence = append(f.evidence, c.Start, c.End)
		t.violated(r.ID.String(), f)
		return
	}
	for _, c := range m.Infos(r.ID) {
		reached = reached || c.Invoked >= r.From && c.Invoked <= r.At
	}
	if !reached && strings.Contains(r.Message, model.NodeGetInfo) {
		f.detail = fmt.Sprintf("%s: the kubelet says %q", want, r.Message)
		t.missing(r.ID.String(), f, history.PrefixCSI+r.Node)
	}
}
