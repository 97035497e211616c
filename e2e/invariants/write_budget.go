package invariants

import (
	"fmt"
	"math"
	"time"

	"headroom/e2e/framework/history"
	"headroom/e2e/invariants/model"
)

var writeBudget = Invariant{
	Name: "write-budget",
	Claim: "a node writes its CSINode no more often than it has cause to: an entry once at most for each NodeGetInfo answer, its removal once for each registration, " +
		"anything else once for each start of the kubelet; and no write changes nothing",
	Source:   "pkg/volume/csi/nodeinfomanager/nodeinfomanager.go installDriverToCSINode, keepAllocatableCount",
	Boundary: history.Kubelet,
	Needs:    []string{history.SourceAudit, history.PrefixCSI, history.PrefixComponent},
	KnownUpstream: []Known{{
		Versions: ">=1.33 <=1.37", Scenario: "write-budget-minus-one", Signed: true,
		Source: "pkg/volume/csi/nodeinfomanager/nodeinfomanager.go keepAllocatableCount: an answer of -1 or above 2^31-1 never equals the count, so each tick writes",
	}},
	New: func(p Params) Checker {
		return newChecker(p, &budget{t: tally{}, of: map[model.ID]*spending{}, other: map[string]*spending{}, odd: map[string]oddAnswer{}})
	},
}

// spending is what one driver's entry, or a whole CSINode, was written for and how often. A gap in what is counted can only make it less.
type spending struct {
	causes, writes       int // answers, and changes made
	asks, removals       int // registrations begun, and removals
	last, lastRemoval    history.Ref
	lastAt, lastRemoveAt time.Duration
}

// oddAnswer is an answer that no count equals.
type oddAnswer struct {
	at  time.Duration
	max int64
	ref history.Ref
}

type budget struct {
	t     tally
	of    map[model.ID]*spending
	other map[string]*spending // by node: writes that change no entry
	odd   map[string]oddAnswer // by node: the last answer, where it is odd
	atOnce
}

func spent[K comparable](all map[K]*spending, k K) *spending {
	if all[k] == nil {
		all[k] = &spending{}
	}
	return all[k]
}

func (b *budget) observe(m *model.Model, s *model.Step) {
	switch body := s.Body.(type) {
	case *history.Component:
		if id := s.Key; body.State == "started" && len(id) > 8 && id[:8] == "kubelet@" {
			spent(b.other, id[8:]).causes++
		}
	case *history.CSICall:
		b.call(s)
	case *history.Audit:
		if s.Write != nil && s.Write.ByNode() {
			b.write(m, s.Write)
		}
	}
}

// call counts causes: each NodeGetInfo that did not certainly fail, each registration.
func (b *budget) call(s *model.Step) {
	c := s.Call
	if c.Side != history.ClientSide || c.Node == "" {
		return
	}
	switch {
	case c.Method == model.GetInfo && s.Phase == history.Invoke:
		spent(b.of, c.ID).asks++
	case c.Method != model.NodeGetInfo:
	case s.Phase == history.Invoke:
		spent(b.of, c.ID).causes++
	case s.Phase == history.Fail:
		spent(b.of, c.ID).causes--
	case c.OK() && (c.Max < 0 || c.Max > math.MaxInt32):
		b.odd[c.Node] = oddAnswer{s.At, c.Max, s.Ref()}
	case c.OK():
		delete(b.odd, c.Node)
	}
}

func (b *budget) write(m *model.Model, w *model.Write) {
	if w.Idle() {
		f := finding{at: w.At, scope: w.Scope, evidence: []history.Ref{w.Ref}}
		f.detail = fmt.Sprintf("want a write of CSINode %q to change something, got an update at %s that was answered with its own revision %d", w.Name, m.Since(w.At), w.Rev)
		if odd, ok := b.odd[w.Name]; ok && w.At-odd.at < mirrorBound+m.Slack() {
			f.detail += fmt.Sprintf(", after the answer %d", odd.max)
			f.evidence, f.defect = append(f.evidence, odd.ref), "write-budget-minus-one"
		}
		b.t.violated(w.Name, f)
		return
	}
	if !w.Took() || !w.Known || w.Verb == "create" {
		return
	}
	changes := w.Changes()
	for _, c := range changes {
		to := spent(b.of, c.ID)
		if c.After == nil {
			to.removals, to.lastRemoval, to.lastRemoveAt = to.removals+1, w.Ref, w.At
			continue
		}
		to.writes, to.last, to.lastAt = to.writes+1, w.Ref, w.At
	}
	if len(changes) == 0 {
		to := spent(b.other, w.Name)
		to.writes, to.last, to.lastAt = to.writes+1, w.Ref, w.At
	}
	b.t.held(w.Name, w.Scope)
}

func (b *budget) finish(m *model.Model) []Verdict {
	over := func(node, what string, writes, causes int, at time.Duration, ref history.Ref, sources ...string) {
		if writes > causes {
			b.t.missing(node, finding{at: at, evidence: []history.Ref{ref}, detail: fmt.Sprintf("want CSINode %q written %d times at most for %s, got %d, the last at %s",
				node, causes, what, writes, m.Since(at))}, sources...)
		}
	}
	for id, s := range b.of {
		over(id.Node, fmt.Sprintf("%d answers of %q", s.causes, id.Driver), s.writes, s.causes, s.lastAt, s.last, history.PrefixCSI+id.Node)
		// Who registers the driver may be out of sight.
		if s.asks > 0 {
			over(id.Node, fmt.Sprintf("removals of %q, registered %d times", id.Driver, s.asks), s.removals, s.asks, s.lastRemoveAt, s.lastRemoval, history.PrefixCSI+id.Node)
		}
	}
	for node, s := range b.other {
		over(node, fmt.Sprintf("%d starts of the kubelet", max(1, s.causes)), s.writes, max(1, s.causes), s.lastAt, s.last, history.PrefixComponent)
	}
	return b.t.verdicts(m, history.Kubelet)
}
