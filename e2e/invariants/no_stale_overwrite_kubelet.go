package invariants

import (
	"fmt"
	"time"

	"headroom/e2e/framework/history"
	"headroom/e2e/invariants/model"
)

var noStaleOverwriteKubelet = Invariant{
	Name: "no-stale-overwrite-kubelet",
	Claim: "if NodeGetInfo answer A left the driver before call B was sent, no CSINode revision carries A after one carries B; " +
		"a count that several answers explain is not judged",
	Source:   "pkg/volume/csi/csi_plugin.go RegisterPlugin, updateCSIDriver; KEP-4876",
	Boundary: history.Kubelet,
	Needs:    []string{history.PrefixCSI, history.SourceAudit},
	KnownUpstream: []Known{{
		Versions: "all", Scenario: "slow-stale-answer",
		Source: "pkg/volume/csi/csi_plugin.go: tick, registration and reactive refresh call NodeGetInfo outside the lock that the write is made under",
	}},
	New: func(p Params) Checker { return newChecker(p, &staleWrites{t: tally{}, carried: map[model.ID]*carry{}}) },
}

const (
	// clockError is how far the audit log's wall times may be off.
	clockError = 50 * time.Millisecond
	// writeWithin is how long a kubelet may take from an answer to its write; older answers are no candidates for it.
	writeWithin = 15 * time.Second
)

// carry is the last write of a driver's entry that could be traced to answers.
type carry struct {
	at, sent time.Duration // when it was made, and when the first of the calls was sent that it may come from
	refs     []history.Ref
}

type staleWrites struct {
	t       tally
	carried map[model.ID]*carry
	deferred
}

// causes returns the answers that a write of count at t may come from.
func causes(m *model.Model, id model.ID, count *int32, t time.Duration) []*model.Answer {
	var out []*model.Answer
	for _, a := range m.Recent(id) {
		if a.Carries(count) && a.Done <= t+clockError && a.Done >= t-writeWithin {
			out = append(out, a)
		}
	}
	return out
}

func (r *staleWrites) observe(m *model.Model, s *model.Step) {
	if s.Write == nil {
		return
	}
	for _, c := range s.Write.Changes() {
		switch {
		case !s.Write.ByNode() || c.After == nil || !c.Counts():
			delete(r.carried, c.ID) // whatever comes next is compared with nothing
		default:
			r.write(m, s.Write, c)
		}
	}
}

func (r *staleWrites) write(m *model.Model, w *model.Write, c model.Change) {
	from := causes(m, c.ID, c.After.Count, w.At)
	before := r.carried[c.ID]
	delete(r.carried, c.ID)
	if len(from) == 0 {
		return
	}
	now := &carry{at: w.At, sent: model.Forever, refs: []history.Ref{w.Ref}}
	var given, sent time.Duration // of the latest that it may come from
	for _, a := range from {
		now.sent = min(now.sent, a.Invoked)
		given, sent = max(given, a.Given), max(sent, a.Invoked)
	}
	now.refs = append(now.refs, from[len(from)-1].End)
	r.carried[c.ID] = now
	switch {
	case before == nil:
	case sent >= before.sent:
		r.t.held(c.ID.String(), w.Scope)
	case given < before.sent:
		r.unless(c.Node, w.At-settle, w.At, finding{
			at: w.At, scope: w.Scope, evidence: append(now.refs, before.refs...),
			detail: fmt.Sprintf("want no answer written over a newer one, got count %s at %s, whose answer left the driver at %s, over %s of a call sent at %s",
				count(c.After.Count), m.Since(w.At), m.Since(given), count(countOf(c.Before)), m.Since(before.sent)),
		}, c.ID.String(), calls(c.Node))
	}
}

// countOf is an entry's count; nil without an entry.
func countOf(d *history.CSINodeDriver) *int32 {
	if d == nil {
		return nil
	}
	return d.Count
}

func (r *staleWrites) settle(m *model.Model, to time.Duration) time.Duration {
	r.conclude(m, r.t, to)
	return model.Forever
}

func (r *staleWrites) finish(m *model.Model) []Verdict { return r.t.verdicts(m, history.Kubelet) }
