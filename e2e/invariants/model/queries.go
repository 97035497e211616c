package model

import (
	"slices"
	"time"

	"headroom/e2e/framework/history"
)

// Told is a quota that the backend told somebody along with an answer.
type Told struct {
	At    time.Duration
	Quota history.Quota
	Ref   history.Ref
}

// queries are what the backend told, and what it refused.
type queries struct {
	told   map[string][]Told
	counts table[string, int64] // volumes attached through the API, as of each change and each answer
	// refusals are the attaches refused because the node is full, by answer.
	refusals map[string][]*Attach
}

func newQueries() queries {
	return queries{told: map[string][]Told{}, counts: table[string, int64]{}, refusals: map[string][]*Attach{}}
}

func (q *queries) foldQuery(e history.Event, body *history.Backend) {
	if body.Quota == nil {
		return
	}
	if body.Fault == "" || body.Fault == history.NoAnswer { // what another fault answers is not the truth
		if p, ok := q.counts.of(e.Node).Back(0); !ok || p.Value != body.Quota.Attached {
			q.counts.of(e.Node).set(e.At, body.Quota.Attached, e.Ref())
		}
	}
	if e.Phase == history.OK && e.Key != "list" && body.Fault != history.NoAnswer {
		q.told[e.Node] = append(q.told[e.Node], Told{At: e.At, Quota: *body.Quota, Ref: e.Ref()})
	}
}

// Told returns the quotas that the backend told of node, in order; those that a fault made up are among them.
func (q *queries) Told(node string) []Told { return q.told[node] }

// ToldOf returns every node that the backend told the quota of, with what it told.
func (q *queries) ToldOf() map[string][]Told { return q.told }

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
	for id, names := range m.faces {
		for _, name := range names {
			if node, ok := m.BackendNode(id.Node, name, Forever); ok {
				out[node] = append(out[node], id)
				break
			}
		}
	}
	return out
}

// OwnNode is the name by which the backend knew the node of a driver at t; false when it did not.
func (m *Model) OwnNode(id ID, t time.Duration) (string, bool) {
	for _, name := range append([]string{""}, m.faces[id]...) {
		if node, ok := m.BackendNode(id.Node, name, t); ok {
			return node, true
		}
	}
	return "", false
}

// NodeGone says whether the Node object was deleted at some time from from to to.
func (m *Model) NodeGone(node string, from, to time.Duration) bool {
	return slices.ContainsFunc(m.gone[node].Over(from, to), func(p Point[bool]) bool { return p.Value })
}
