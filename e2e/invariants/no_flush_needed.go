package invariants

import (
	"fmt"

	"headroom/e2e/framework/history"
	"headroom/e2e/invariants/model"
)

var noFlushNeeded = Invariant{
	Name: "no-flush-needed",
	Claim: history.MetricFlushed + " of kube-scheduler (1.36+) stays 0: no pod had to be flushed from the queue after 5 minutes to be bound, " +
		"as far as the metric was read before the scheduler stopped",
	Source:   "pkg/scheduler/schedule_one.go PodScheduledAfterFlush; pkg/scheduler/backend/queue flushUnschedulablePodsLeftover",
	Boundary: history.Scheduler,
	Needs:    []string{history.PrefixMetric + "kube-scheduler"},
	KnownUpstream: []Known{
		{Versions: ">=1.36 <1.38", Source: "growth-requeues: finite to unlimited does not requeue", Scenario: unlimitedScenario, Signed: true},
		{Versions: ">=1.36 <1.38", Source: "detach-requeues: generic ephemeral volumes do not requeue", Scenario: ephemeralScenario, Signed: true},
	},
	New: func(p Params) Checker { return newChecker(p, &flushed{}) },
}

// flushed follows one counter.
type flushed struct {
	last  model.Stamp // the last reading
	value float64
	read  bool
	rises []rise
	binds int // waits that ended in a bind
}

// rise is an increase of the counter between two readings.
type rise struct {
	from, to model.Stamp
	by       float64
}

func (r *flushed) observe(_ *model.Model, s model.Step) {
	b, ok := s.Body.(*history.Metric)
	if !ok || b.Name != history.MetricFlushed || s.Source != history.PrefixMetric+"kube-scheduler" {
		return
	}
	now := model.Stamp{At: s.At, Ref: s.Ref()}
	switch {
	case b.Absent || b.Error != "":
		return
	case b.Value > r.value:
		r.rises = append(r.rises, rise{r.last, now, b.Value - r.value})
	}
	r.last, r.value, r.read = now, b.Value, true
}

func (r *flushed) finish(m *model.Model) []Verdict {
	t := tally{}
	const name = "kube-scheduler"
	for _, w := range m.Waits() {
		if w.Bound && w.Room && w.Said {
			r.binds++
		}
	}
	for _, up := range r.rises {
		f := finding{
			at: up.to.At, evidence: []history.Ref{up.from.Ref, up.to.Ref},
			detail: fmt.Sprintf("want %s to stay 0, got %g more between %s and %s", history.MetricFlushed, up.by, m.Since(up.from.At), m.Since(up.to.At)),
		}
		known, chance := flushedBetween(m, up)
		if chance {
			f.detail += "; but a pod was bound then that had got room just before: the flush may have come at the same time"
			t.doubt(name, f)
			continue
		}
		f.defect = known
		t.violated(name, f)
	}
	for range r.binds {
		if r.read && len(r.rises) == 0 {
			t.held(name, "")
		}
	}
	return t.verdicts(history.Scheduler)
}

// flushedBetween looks at the pods that were bound between two readings. It names the known defect that made one of them wait for the flush, and says
// whether one had had room for so short a time that it may have been flushed by chance.
func flushedBetween(m *model.Model, up rise) (known string, chance bool) {
	for _, w := range m.Waits() {
		if !w.Bound || !w.Room || w.To.At < model.Minus(up.from.At, m.Slack()) || w.To.At > model.Plus(up.to.At, m.Slack()) {
			continue
		}
		waited := w.To.At - w.From.At
		if defect := knownRequeue(w.By, w); defect != "" && waited > requeueBound {
			known = defect
		}
		chance = chance || waited <= model.Plus(requeueBound, m.Slack())
	}
	return known, chance && known == ""
}
