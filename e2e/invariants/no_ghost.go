package invariants

import (
	"fmt"
	"slices"
	"time"

	"headroom/e2e/framework/history"
	"headroom/e2e/invariants/model"
)

var noGhost = Invariant{
	Name: "no-ghost",
	Claim: "after a node removed a driver's entry, it does not write one again until it has asked the registration socket anew; " +
		"a registration that was under way at the removal and succeeded is one",
	Source:   "pkg/volume/csi/csi_plugin.go DeRegisterPlugin",
	Boundary: history.Kubelet,
	Needs:    []string{history.SourceAudit, history.PrefixCSI},
	KnownUpstream: []Known{{
		Versions: ">=1.33 <=1.37", Scenario: "ghost-entry", Signed: true,
		Source: "pkg/volume/csi/csi_plugin.go updateCSIDriver: a NodeGetInfo in flight at the removal writes the entry again",
	}},
	New: func(p Params) Checker { return newChecker(p, &ghosts{t: tally{}, removed: map[model.ID]removal{}}) },
}

// ghostWithin is how long a removal is watched before it counts as one that lasted: a call in flight takes up to the kubelet's 2 minutes, but most take
// less than a second.
const ghostWithin = 10 * time.Second

type removal struct {
	at    time.Duration
	ref   history.Ref
	scope string
}

type ghosts struct {
	t       tally
	removed map[model.ID]removal
	atOnce
}

func (g *ghosts) observe(m *model.Model, s *model.Step) {
	w := s.Write
	if w == nil {
		return
	}
	for _, c := range w.Changes() {
		gone, was := g.removed[c.ID]
		switch {
		case m.Asks(c.ID) == 0: // who registers it is out of sight
		case !w.ByNode():
			delete(g.removed, c.ID)
		case c.After == nil:
			g.removed[c.ID] = removal{w.At, w.Ref, w.Scope}
		case c.Before == nil && was:
			delete(g.removed, c.ID)
			g.added(m, w, c, gone)
		}
	}
}

// added judges an entry that came back.
func (g *ghosts) added(m *model.Model, w *model.Write, c model.Change, gone removal) {
	attempts := m.Attempts(c.ID)
	if slices.ContainsFunc(attempts, func(a *model.Attempt) bool {
		anew := a.Asked > gone.at
		under := a.Asked <= gone.at && a.Told > gone.at && (a.Registered || a.Told > w.At)
		return a.Asked <= w.At+clockError && (anew || under)
	}) {
		g.t.held(c.ID.String(), w.Scope)
		return
	}
	f := finding{at: w.At, scope: w.Scope, evidence: []history.Ref{w.Ref, gone.ref}}
	f.detail = fmt.Sprintf("want no entry of %q in CSINode %q after its removal at %s until it is registered again, got one with count %s at %s",
		c.Driver, c.Node, m.Since(gone.at), count(c.After.Count), m.Since(w.At))
	for _, a := range m.Recent(c.ID) {
		if a.Invoked <= gone.at && a.Done >= gone.at-m.Slack() && a.Carries(c.After.Count) {
			f.evidence, f.defect = append(f.evidence, a.End), "ghost-entry"
		}
	}
	g.t.missing(c.ID.String(), f, calls(c.Node))
}

func (g *ghosts) finish(m *model.Model) []Verdict {
	for id, gone := range g.removed {
		if model.Plus(gone.at, ghostWithin) <= m.End() {
			g.t.held(id.String(), gone.scope)
		}
	}
	return g.t.verdicts(m, history.Kubelet)
}
