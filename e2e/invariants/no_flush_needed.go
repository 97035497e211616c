package invariants

import (
	"fmt"
	"slices"

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
	New: func(p Params) Checker { return newChecker(p, &flushed{t: tally{}}) },
}

// bindsKept bounds the binds remembered since the last reading.
const bindsKept = 4096

// flushed follows one counter.
type flushed struct {
	t     tally
	last  model.Stamp // the last reading
	value float64
	read  bool
	rises int
	open  []rise        // those whose binds may not have been seen yet
	bound []*model.Wait // waits that ended in a bind, since the last reading
	binds int           // those that count
	atOnce
}

// rise is an increase of the counter between two readings.
type rise struct {
	from, to model.Stamp
	by       float64
}

func (r *flushed) observe(m *model.Model, s *model.Step) {
	for len(r.open) > 0 && s.At > model.Plus(r.open[0].to.At, m.Slack()) {
		r.judge(m, r.open[0])
		r.open = r.open[1:]
	}
	for _, w := range s.Over {
		if !w.Bound || !w.Room {
			continue
		}
		if w.Said {
			r.binds++
		}
		r.bound = append(r.bound, w)
		r.bound = slices.Delete(r.bound, 0, max(0, len(r.bound)-bindsKept))
	}
	b, ok := s.Body.(*history.Metric)
	if !ok || b.Name != history.MetricFlushed || s.Source != history.PrefixMetric+"kube-scheduler" {
		return
	}
	now := model.Stamp{At: s.At, Ref: s.Ref()}
	switch {
	case b.Absent || b.Error != "":
		return
	case b.Value > r.value:
		r.rises++
		r.open = append(r.open, rise{r.last, now, b.Value - r.value})
	}
	r.last, r.value, r.read = now, b.Value, true
	since := r.last.At
	for _, up := range r.open {
		since = min(since, up.from.At)
	}
	r.bound = slices.DeleteFunc(r.bound, func(w *model.Wait) bool { return w.To.At < model.Minus(since, m.Slack()) })
}

// flushedMetric is the subject of its verdict.
const flushedMetric = "kube-scheduler"

func (r *flushed) judge(m *model.Model, up rise) {
	f := finding{
		at: up.to.At, evidence: []history.Ref{up.from.Ref, up.to.Ref},
		detail: fmt.Sprintf("want %s to stay 0, got %g more between %s and %s", history.MetricFlushed, up.by, m.Since(up.from.At), m.Since(up.to.At)),
	}
	known, chance := r.flushedBetween(m, up)
	if chance {
		f.detail += "; but a pod was bound then that had got room just before: the flush may have come at the same time"
		r.t.doubt(flushedMetric, f)
		return
	}
	f.defect = known
	r.t.violated(flushedMetric, f)
}

func (r *flushed) finish(m *model.Model) []Verdict {
	for _, up := range r.open {
		r.judge(m, up)
	}
	for range r.binds {
		if r.read && r.rises == 0 {
			r.t.held(flushedMetric, "")
		}
	}
	return r.t.verdicts(m, history.Scheduler)
}

// flushedBetween looks at the pods that were bound between two readings. It names the known defect that made one of them wait for the flush, and says
// whether one had had room for so short a time that it may have been flushed by chance.
func (r *flushed) flushedBetween(m *model.Model, up rise) (known string, chance bool) {
	for _, w := range r.bound {
		if w.To.At < model.Minus(up.from.At, m.Slack()) || w.To.At > model.Plus(up.to.At, m.Slack()) {
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
