package invariants

import (
	"fmt"
	"time"

	"headroom/e2e/framework/history"
	"headroom/e2e/invariants/model"
)

var onlyCapacityRefreshes = Invariant{
	Name: "only-capacity-refreshes",
	Claim: "with a period of an hour or more, the kubelet asks a driver when it registers, at the ticks, and once for each pod " +
		"that waited on attach error code 8, and at no other time: other errors refresh nothing",
	Source:   "pkg/volume/csi/csi_plugin.go VerifyExhaustedResource; KEP-4876",
	Boundary: history.Kubelet,
	Needs:    []string{history.PrefixCSI, history.PrefixAPI + "csidrivers", history.PrefixAPI + "volumeattachments", history.PrefixAPI + "pods"},
	New: func(p Params) Checker {
		return newChecker(p, &refreshes{t: tally{}, anchors: map[model.ID]time.Duration{}, reactive: map[model.ID]int{}})
	},
}

// longPeriod is a period whose ticks do not come into the way.
const longPeriod = time.Hour

type refreshes struct {
	t        tally
	anchors  map[model.ID]time.Duration // when the ticker of the driver on the node was last started
	reactive map[model.ID]int           // calls that only code 8 explains
	open     []*model.Answer            // calls whose attach error may still be on its way here
	atOnce
}

func (r *refreshes) observe(m *model.Model, s *model.Step) {
	r.pass(m, s.At)
	if c := s.Call; c != nil && c.Method == model.NotifyRegistered && s.Phase == history.Invoke {
		r.anchors[c.ID] = s.At
	}
	a := m.AnswerOf(s)
	if a == nil || s.Phase != history.Invoke || m.Asks(a.ID) == 0 || !longThroughout(m, a.Driver, s.At) {
		return
	}
	if a.Registering {
		r.t.held(a.ID.String(), a.Scope)
		return
	}
	r.open = append(r.open, a)
}

// longThroughout says whether the driver's period has been long for a while: a call of an earlier ticker may still come just after a change.
func longThroughout(m *model.Model, driver string, at time.Duration) bool {
	points := m.Period(driver).Over(at-10*time.Second-m.Slack(), at)
	for _, p := range points {
		if p.Value == nil || model.Seconds(*p.Value) < longPeriod {
			return false
		}
	}
	return len(points) > 0
}

// pass judges the calls sent more than slack ago.
func (r *refreshes) pass(m *model.Model, now time.Duration) {
	for len(r.open) > 0 && r.open[0].Invoked+m.Slack() < now {
		r.judge(m, r.open[0])
		r.open = r.open[1:]
	}
}

func (r *refreshes) judge(m *model.Model, a *model.Answer) {
	name := a.ID.String()
	f := finding{at: a.Invoked, scope: a.Scope, evidence: []history.Ref{a.Start}}
	if r.ticks(m, a) {
		r.t.held(name, a.Scope)
		return
	}
	if m.Exhausted(a.ID, a.Invoked) {
		r.reactive[a.ID]++
		if n := m.Waited(a.ID); n == 0 || r.reactive[a.ID] <= n {
			r.t.held(name, a.Scope)
			return
		}
		f.detail = fmt.Sprintf("want one refresh at most for each of %d pods that waited on code 8, got the %d. at %s", m.Waited(a.ID), r.reactive[a.ID], m.Since(a.Invoked))
		r.t.missing(name, f, history.PrefixAPI+"pods", history.PrefixAPI+"persistentvolumeclaims")
		return
	}
	f.detail = fmt.Sprintf("want NodeGetInfo in a registration, at a tick or on attach error code 8 only, got a call at %s without any of them", m.Since(a.Invoked))
	r.t.missing(name, f, history.PrefixAPI+"volumeattachments", calls(a.Node))
}

// ticks says whether a tick was due when the call was sent.
func (r *refreshes) ticks(m *model.Model, a *model.Answer) bool {
	point, ok := m.Period(a.Driver).At(a.Invoked)
	if !ok || point.Value == nil {
		return false
	}
	period := model.Seconds(*point.Value)
	for _, start := range []time.Duration{r.anchors[a.ID], point.At} {
		since := a.Invoked - start
		if n := (since + period/2) / period; n > 0 && max(since-n*period, n*period-since) <= m.Slack() {
			return true
		}
	}
	return false
}

func (r *refreshes) finish(m *model.Model) []Verdict {
	r.pass(m, m.End())
	return r.t.verdicts(m, history.Kubelet)
}
