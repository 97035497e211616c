package invariants

import (
	"slices"
	"time"

	"headroom/e2e/framework/history"
	"headroom/e2e/invariants/model"
)

// answersKept is how many answers before the last one are held against it.
const answersKept = 16

// capacity is what one driver answered about one node that the backend knows.
type capacity struct {
	id   model.ID
	node string // the backend's name
	// answers are the last NodeGetInfo calls that were answered with a count, by completion.
	answers []*model.Call
}

// capacities are all of them, for rules that hold answers against the backend's record.
type capacities struct {
	open doneCalls
	of   map[model.ID]*capacity
}

func newCapacities() capacities { return capacities{of: map[model.ID]*capacity{}} }

func (c *capacities) observe(_ *model.Model, s *model.Step) {
	c.open.observe(s, model.NodeGetInfo, history.DriverSide)
}

// each calls judge for each answer that is settled: it is the last of its capacity's then. Answers from before the backend knew the node are left out.
func (c *capacities) each(m *model.Model, to time.Duration, judge func(c *capacity)) (needs time.Duration) {
	for _, call := range c.open.due(to) {
		if !call.OK() || call.Orphan {
			continue
		}
		x := c.of[call.ID]
		if x == nil {
			node, ok := m.BackendNode(call.Node, call.NodeID, call.Done)
			if !ok {
				continue
			}
			x = &capacity{id: call.ID, node: node}
			c.of[call.ID] = x
		}
		x.answers = append(x.answers, call)
		x.answers = slices.Delete(x.answers, 0, max(0, len(x.answers)-answersKept-1))
		judge(x)
	}
	return c.open.needs()
}

// last is the answer to judge.
func (c *capacity) last() *model.Call { return c.answers[len(c.answers)-1] }

// earlier are those before it that are kept.
func (c *capacity) earlier() []*model.Call { return c.answers[:len(c.answers)-1] }

// before returns the answer before the last one that was complete when that was asked for, nil when there is none.
func (c *capacity) before() *model.Call {
	for _, a := range slices.Backward(c.earlier()) {
		if a.Done <= c.last().Invoked {
			return a
		}
	}
	return nil
}

// remembered is from when on the driver may know what it answers in a call, while the backend answers.
func remembered(m *model.Model, c *model.Call) time.Duration {
	return model.Minus(c.Invoked, model.Plus(time.Duration(m.Header().Params.Driver.CacheAge), m.Slack()))
}

// pairable says whether two answers are near enough to each other for what was between them to be known.
func pairable(m *model.Model, a, b *model.Call) bool {
	return model.Minus(b.Done, a.Invoked) <= m.PairWithin(a.Done)
}

// knows says whether the backend told somebody the node's quota so shortly before an answer that the last good value cannot have expired: a backend
// can be out of reach without a fault in the history, on a machine that stands still.
func (c *capacity) knows(m *model.Model, call *model.Call) bool {
	since := model.Plus(model.Minus(call.Invoked, time.Duration(m.Header().Params.Driver.LastGoodLife)), m.Slack())
	return slices.ContainsFunc(m.Told(c.node), func(t model.Told) bool { return t.At >= since && t.At <= call.Done })
}

// found starts a finding about an answer.
func found(c *model.Call, evidence ...history.Ref) finding {
	return finding{at: c.Done, scope: c.Scope, evidence: append(evidence, c.Start, c.End)}
}
