package invariants

import (
	"slices"
	"time"

	"headroom/e2e/framework/history"
	"headroom/e2e/invariants/model"
)

// capacity is what one driver answered about one node that the backend knows.
type capacity struct {
	id   model.ID
	node string // the backend's name
	// answers are the NodeGetInfo calls that were answered with a count, by completion.
	answers []*model.Call
}

// capacities are all of them, for rules that hold answers against the backend's record.
func capacities(m *model.Model) []capacity {
	var out []capacity
	for node, ids := range m.Owners() {
		for _, id := range ids {
			c := capacity{id: id, node: node}
			for _, call := range m.Served(id) {
				if call.OK() && !call.Orphan {
					c.answers = append(c.answers, call)
				}
			}
			slices.SortStableFunc(c.answers, func(a, b *model.Call) int { return int(a.Done - b.Done) })
			out = append(out, c)
		}
	}
	return out
}

// after returns the last answer that was complete when the i-th was asked for, nil when there is none.
func (c capacity) after(i int) *model.Call {
	for j := i - 1; j >= 0; j-- {
		if c.answers[j].Done <= c.answers[i].Invoked {
			return c.answers[j]
		}
	}
	return nil
}

// remembered is from when on the driver may know what it answers in a call, while the backend answers.
func remembered(m *model.Model, c *model.Call) time.Duration {
	return model.Minus(c.Invoked, model.Plus(time.Duration(m.Header().Params.Driver.CacheAge), m.Slack()))
}

// knows says whether the backend told somebody the node's quota so shortly before an answer that the last good value cannot have expired: a backend
// can be out of reach without a fault in the history, on a machine that stands still.
func (c capacity) knows(m *model.Model, call *model.Call) bool {
	since := model.Plus(model.Minus(call.Invoked, time.Duration(m.Header().Params.Driver.LastGoodLife)), m.Slack())
	return slices.ContainsFunc(m.Told(c.node), func(t model.Told) bool { return t.At >= since && t.At <= call.Done })
}

// found starts a finding about an answer.
func found(c *model.Call, evidence ...history.Ref) finding {
	return finding{at: c.Done, scope: c.Scope, evidence: append(evidence, c.Start, c.End)}
}
