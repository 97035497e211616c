package invariants

import (
	"fmt"
	"time"

	"headroom/e2e/framework/history"
	"headroom/e2e/invariants/model"
)

var answerWithinQuota = Invariant{
	Name: "answer-within-quota",
	Claim: "each NodeGetInfo answer is at most max(1, the highest limit in force from (call start - declared max " +
		"age) to call end); max age is the cache life, or the last-good life during an outage; " +
		"what Kubernetes has attached may always be reported during an outage",
	Source:   "CSI spec NodeGetInfo max_volumes_per_node; the driver's declared ages",
	Boundary: history.Driver,
	Needs:    []string{history.PrefixCSI, history.SourceBackend},
	New:      func(p Params) Checker { return newChecker(p, &withinQuota{t: tally{}}) },
}

type withinQuota struct {
	t    tally
	open doneCalls
}

func (r *withinQuota) observe(_ *model.Model, s *model.Step) {
	r.open.observe(s, model.NodeGetInfo, history.DriverSide)
}

func (r *withinQuota) settle(m *model.Model, to time.Duration) time.Duration {
	for _, c := range r.open.due(to) {
		if c.OK() && !c.Orphan {
			judgeAnswer(m, r.t, c)
		}
	}
	return r.open.needs()
}

func (r *withinQuota) finish(m *model.Model) []Verdict { return r.t.verdicts(m, history.Driver) }

// judgeAnswer compares one answer with what the backend allowed while it was made and as long before as the driver may remember. An answer given
// before the node had a quota is not judged. An answer of 0 or less means unlimited, which no quota covers.
func judgeAnswer(m *model.Model, t tally, c *model.Call) {
	node, ok := m.BackendNode(c.Node, c.NodeID, c.Done)
	if !ok {
		return
	}
	now, ok := m.Quota(node).At(c.Invoked)
	if !ok || now.Value == nil {
		return
	}
	from, outage := earliest(m, node, c)
	most, ref, _ := m.Usable(node, from, c.Done)
	want := max(1, most)
	if outage {
		// What is attached already admits nothing new, so a driver that falls back to it when the last good value has expired over-promises nothing,
		// even where the quota has fallen below it unseen.
		want = max(want, m.MostHeld(node, c.Invoked, c.Done))
	}
	f := finding{at: c.Done, scope: c.Scope, evidence: []history.Ref{ref, c.Start, c.End}}
	switch {
	case c.Max <= 0:
		f.evidence[0] = now.Ref
		f.detail = fmt.Sprintf("want an answer from 1 to %d, got %d, which means unlimited, at %s", want, c.Max, m.Since(c.Done))
		t.violated(c.ID.String(), f)
	case c.Max > want:
		f.detail = fmt.Sprintf("want an answer of at most %d, the highest quota in force from %s to %s, got %d at %s",
			want, m.Since(from), m.Since(c.Done), c.Max, m.Since(c.Done))
		t.missing(c.ID.String(), f, history.SourceBackend)
	default:
		t.held(c.ID.String(), c.Scope)
	}
}

// earliest is from when on an answer's quota may date. During an outage it is the last-good life; after its end the driver may still hold that
// value for one cache life, because only then it has to ask again.
func earliest(m *model.Model, node string, c *model.Call) (from time.Duration, outage bool) {
	d := m.Header().Params.Driver
	age := time.Duration(d.CacheAge)
	cached := model.Minus(c.Invoked, model.Plus(age, m.Slack()))
	if outage = m.Outage(node, "get", cached, c.Done); outage {
		age = max(age, time.Duration(d.LastGoodLife))
	}
	return model.Minus(c.Invoked, model.Plus(age, m.Slack())), outage
}
