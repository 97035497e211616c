package invariants

import (
	"slices"
	"time"

	"headroom/e2e/framework/history"
	"headroom/e2e/invariants/model"
)

// deferred are violations, found on the way, that are none where something stood in the way. Whether it did is known once their time is settled.
type deferred []deferral

type deferral struct {
	name    string
	f       finding
	sources []string
	// node was kept from its work at some time from since to to: then there is nothing to judge.
	node      string
	since, to time.Duration
	// late says that it is a bound over from..to that was missed.
	late bool
	from time.Duration
}

// unless defers a violation that only counts when nothing disturbed the node from since to to.
func (d *deferred) unless(node string, since, to time.Duration, f finding, name string, sources ...string) {
	*d = append(*d, deferral{name: name, f: f, sources: sources, node: node, since: since, to: to})
}

// late is unless for a bound over from..to that was missed.
func (d *deferred) late(node string, since, from, to time.Duration, f finding, name string, sources ...string) {
	*d = append(*d, deferral{name: name, f: f, sources: sources, node: node, since: since, to: to, late: true, from: from})
}

// conclude hands over the violations that are settled at to.
func (d *deferred) conclude(m *model.Model, t tally, to time.Duration) {
	*d = slices.DeleteFunc(*d, func(x deferral) bool {
		switch {
		case x.to > to:
			return false
		case m.Disturbed(x.node, x.since, x.to):
		case x.late:
			t.late(m, x.name, x.from, x.to, x.f, x.sources...)
		default:
			t.missing(x.name, x.f, x.sources...)
		}
		return true
	})
}

// calls names the source of a node's CSI calls.
func calls(node string) string { return history.PrefixCSI + node }
