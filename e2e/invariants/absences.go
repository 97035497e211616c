package invariants

import (
	"time"

	"headroom/e2e/framework/history"
	"headroom/e2e/invariants/model"
)

// absences are violations, found on the way, that consist in something not being in the history. Only its end tells whether it may have been lost, or
// what stood in the way.
type absences []absence

type absence struct {
	name    string
	f       finding
	sources []string
	// node was kept from its work at some time from from to to: then there is nothing to judge. "" asks for nothing.
	node     string
	from, to time.Duration
}

func (a *absences) missing(name string, f finding, sources ...string) {
	*a = append(*a, absence{name: name, f: f, sources: sources})
}

// unless is missing for a violation that only counts when nothing disturbed the node from from to to.
func (a *absences) unless(node string, from, to time.Duration, f finding, name string, sources ...string) {
	*a = append(*a, absence{name: name, f: f, sources: sources, node: node, from: from, to: to})
}

// conclude hands the violations over.
func (a absences) conclude(m *model.Model, t tally) {
	for _, x := range a {
		if x.node == "" || !m.Disturbed(x.node, x.from, x.to) {
			t.missing(m, x.name, x.f, x.sources...)
		}
	}
}

// lateness is a bound that was missed: whether that is a violation shows at the end as well.
type lateness struct {
	name, node string
	from, to   time.Duration
	f          finding
	sources    []string
}

// conclude hands the violation over, unless something kept the node from its work from since on.
func (l lateness) conclude(m *model.Model, t tally, since time.Duration) {
	if !m.Disturbed(l.node, since, l.to) {
		t.late(m, l.name, l.from, l.to, l.f, l.sources...)
	}
}

// calls names the source of a node's CSI calls.
func calls(node string) string { return history.PrefixCSI + node }
