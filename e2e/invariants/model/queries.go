package model

import (
	"slices"
	"time"

	"headroom/e2e/framework/history"
)

// Query is one question for a node's quota or attachments.
type Query struct {
	// Holder is who asked, as it names itself.
	Holder string
	// Invoked is when it arrived.
	Invoked time.Duration
	Ref     history.Ref
}

// Told is a quota that the backend told somebody along with an answer.
type Told struct {
	At    time.Duration
	Quota history.Quota
	Ref   history.Ref
}

// queries are what the backend was asked and what it told.
type queries struct {
	asked  map[string][]Query
	told   map[string][]Told
	counts table[string, int64] // volumes attached through the API, as of each change and each answer
	// refusals are the attaches refused because the node is full, by answer.
	refusals map[string][]*Attach
}

func newQueries() queries {
	return queries{asked: map[string][]Query{}, told: map[string][]Told{}, counts: table[string, int64]{}, refusals: map[string][]*Attach{}}
}

func (q *queries) foldQuery(e history.Event, body *history.Backend) {
	if (e.Key == "get" || e.Key == "list") && e.Phase == history.Invoke {
		q.asked[e.Node] = append(q.asked[e.Node], Query{Holder: body.Holder, Invoked: e.At, Ref: e.Ref()})
	}
	if body.Quota == nil {
		return
	}
	if body.Fault == "" { // what a fault answers is not the truth
		if p, ok := q.counts.of(e.Node).Back(0); !ok || p.Value != body.Quota.Attached {
			q.counts.of(e.Node).set(e.At, body.Quota.Attached, e.Ref())
		}
	}
	if e.Phase == history.OK && e.Key != "list" {
		q.told[e.Node] = append(q.told[e.Node], Told{At: e.At, Quota: *body.Quota, Ref: e.Ref()})
	}
}

// Queries returns the questions about node, by arrival.
func (q *queries) Queries(node string) []Query { return q.asked[node] }

// Queried returns every node that the backend was asked about, in no order.
func (q *queries) Queried() []string { return keys(q.asked) }

// Told returns the quotas that the backend told of node, in order; those that a fault made up are among them.
func (q *queries) Told(node string) []Told { return q.told[node] }

// Counts returns how many volumes Kubernetes had attached to node over time, by the backend's own count.
func (q *queries) Counts(node string) *Timeline[int64] { return q.counts[node] }

// SteadyQuota returns the number of volumes that Kubernetes might use on node, the same throughout from..to, and when it came into force; false
// when it changed meanwhile, or is not known.
func (b *backend) SteadyQuota(node string, from, to time.Duration) (usable int64, since time.Duration, ok bool) {
	points := b.quotas[node].Over(from, to)
	for i, p := range points {
		if p.Value == nil || i > 0 && p.Value.Usable() != usable {
			return 0, 0, false
		}
		if i == 0 {
			usable, since = p.Value.Usable(), p.At
		}
	}
	return usable, since, len(points) > 0
}

// Full says whether node had no room, by the backend's own count, or refused an attach for lack of it, at some time from from to to.
func (b *backend) Full(node string, from, to time.Duration) bool {
	for _, q := range b.quotas[node].Over(from, to) {
		for _, n := range b.counts[node].Over(max(from, q.At), to) {
			if q.Value != nil && n.Value >= q.Value.Usable() {
				return true
			}
		}
	}
	_, refused := b.LastRefusal(node, from, to)
	return refused
}

// LastRefusal returns the last attach on node that the backend refused because the node is full, answered from from to to.
func (b *backend) LastRefusal(node string, from, to time.Duration) (*Attach, bool) {
	var last *Attach
	for _, a := range b.refusals[node] {
		if a.Done >= from && a.Done <= to {
			last = a
		}
	}
	return last, last != nil
}

// Owners returns, by the backend's name of each node, the drivers that were asked for its capacity, in no order.
func (m *Model) Owners() map[string][]ID {
	out := map[string][]ID{}
	for id, calls := range m.served {
		for _, c := range calls {
			if node, ok := m.BackendNode(c.Node, c.NodeID); ok {
				out[node] = append(out[node], id)
				break
			}
		}
	}
	return out
}

// NodeGone says whether the Node object was deleted at some time from from to to.
func (m *Model) NodeGone(node string, from, to time.Duration) bool {
	return slices.ContainsFunc(m.gone[node].Over(from, to), func(p Point[bool]) bool { return p.Value })
}
