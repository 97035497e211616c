// Package signals measures a run: six figures that an operator of attach capacity would watch, taken from the history.
//
// Contract: a Collector sees the events of one merged history in order, each once, and gives the figures at the end. The names of the fields say their
// units. Figures rest on what was recorded: where a source that one is taken from may have lost events, Incomplete says so and the figure is a lower
// bound.
//
// What it does not do: judge. No figure fails a run; the invariants say what must hold.
package signals

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"headroom/e2e/framework/history"
	"headroom/e2e/invariants/model"
)

// Signals are the figures of one run.
type Signals struct {
	// HistorySeconds is the time from the first event to the last; the rates are over it.
	HistorySeconds float64 `json:"historySeconds" yaml:"historySeconds"`
	UpdateDelay    Delay   `json:"updateDelay" yaml:"updateDelay"`
	CountChanges   Changes `json:"countChanges" yaml:"countChanges"`
	// PendingReasons are why pods waited, the most frequent first.
	PendingReasons []Reason `json:"pendingReasons,omitempty" yaml:"pendingReasons,omitempty"`
	// PodsBeforeVolumes are pods that the scheduler saw before the run had made their volumes. PendingReasons leaves that reason out.
	PodsBeforeVolumes int `json:"podsBeforeVolumes,omitempty" yaml:"podsBeforeVolumes,omitempty"`
	// AttachFailures are failed ControllerPublishVolume calls by gRPC code.
	AttachFailures []Failures `json:"attachFailures,omitempty" yaml:"attachFailures,omitempty"`
	// CSINodeWrites are audited writes of CSINodes by user, the busiest first.
	CSINodeWrites []Writes  `json:"csiNodeWrites,omitempty" yaml:"csiNodeWrites,omitempty"`
	Volumes       []Volumes `json:"volumes,omitempty" yaml:"volumes,omitempty"`
	// Incomplete names the signals that are lower bounds, and why.
	Incomplete []string `json:"incomplete,omitempty" yaml:"incomplete,omitempty"`
}

// Changes are changes of a count in place: a driver's entry was there before and after, with different counts.
type Changes struct {
	Changes   int     `json:"changes" yaml:"changes"`
	PerMinute float64 `json:"perMinute" yaml:"perMinute"`
	// Unasked changes left what Kubernetes may use although that did not change; RolledBack of them went back to what had been right before.
	Unasked    int `json:"unasked,omitempty" yaml:"unasked,omitempty"`
	RolledBack int `json:"rolledBack,omitempty" yaml:"rolledBack,omitempty"`
}

// needs are the sources that each signal is taken from.
var needs = []struct {
	signal  string
	sources []string
}{
	{"update delay", []string{history.SourceBackend, "api/csinodes"}},
	{"count changes", []string{"api/csinodes"}},
	{"pending pods", []string{"api/pods", "api/persistentvolumeclaims", "api/volumeattachments"}},
	{"attach failures", []string{history.PrefixCSI + "controller/"}},
	{"CSINode writes", []string{history.SourceAudit}},
	{"volumes in use", []string{"api/csinodes", "api/volumeattachments"}},
}

// Collector folds a history into Signals. Create it with New.
type Collector struct {
	model   *model.Model
	begun   bool
	first   time.Duration
	pending pending
	attach  attachFailures
	writes  map[string]*written
	use     *Use
	broken  string
}

// New returns a collector for a history with header h.
func New(h history.Header) *Collector {
	return &Collector{model: model.New(h), pending: pending{}, attach: attachFailures{}, writes: map[string]*written{}, use: NewUse()}
}

// Observe takes the next event. It does not panic: events that the fold cannot bear end the figures there.
func (c *Collector) Observe(e history.Event) {
	if c.broken != "" {
		return
	}
	defer func() {
		if p := recover(); p != nil {
			c.broken = fmt.Sprintf("event %s broke the fold: %v", e.Ref(), p)
		}
	}()
	if e.Phase != history.Gap && !c.begun {
		c.begun, c.first = true, e.At
	}
	s := c.model.Observe(e)
	switch b := s.Body.(type) {
	case *history.CSICall:
		c.attach.observe(s)
	case *history.Audit:
		c.write(e, b)
	case *history.Pod:
		c.pending.pod(e, b)
	case *history.VolumeAttachment:
		c.use.Observe(e, b)
		c.pending.attachment(c.model, e, b)
	}
}

// Finish returns the figures.
func (c *Collector) Finish() Signals { return c.Since(c.first) }

// Since returns the figures of what happened from a time on, to the last event so far. Changes of quota that were on their way then are among them. It
// may be asked while the history goes on.
func (c *Collector) Since(from time.Duration) Signals {
	elapsed := time.Duration(0)
	if c.begun {
		elapsed = max(0, c.model.End()-from)
	}
	s := Signals{HistorySeconds: inSeconds(elapsed)}
	s.UpdateDelay = updateDelay(c.model, from)
	s.CountChanges = countChanges(c.model, from)
	s.CountChanges.PerMinute = rate(s.CountChanges.Changes, elapsed.Minutes())
	s.PendingReasons, s.PodsBeforeVolumes = c.pending.reasons(from)
	s.AttachFailures = c.attach.byCode(from)
	for user, w := range c.writes {
		if n := w.since(user, from); n.Writes > 0 {
			n.PerSecond = rate(n.Writes, elapsed.Seconds())
			s.CSINodeWrites = append(s.CSINodeWrites, n)
		}
	}
	slices.SortFunc(s.CSINodeWrites, func(a, b Writes) int { return cmp.Or(b.Writes-a.Writes, cmp.Compare(a.Writer, b.Writer)) })
	s.Volumes = volumes(c.model, c.use, from)
	s.Incomplete = c.incomplete()
	return s
}

func (c *Collector) incomplete() (out []string) {
	for _, n := range needs {
		if gaps := c.model.Gaps(n.sources...); len(gaps) > 0 {
			out = append(out, fmt.Sprintf("%s: %s: %s", n.signal, cmp.Or(gaps[0].Source, "all sources"), gaps[0].Reason))
		}
	}
	if c.broken != "" {
		out = append(out, "all: "+c.broken)
	}
	return out
}

// countChanges counts revisions from a time on in which a driver's count differs from the one before.
func countChanges(m *model.Model, from time.Duration) (c Changes) {
	for _, name := range m.CSINodes() {
		revs := m.Revisions(name)
		for i := 1; i < len(revs); i++ {
			if revs[i].At < from {
				continue
			}
			for _, now := range revs[i].Drivers {
				before, ok := revs[i-1].Entry(now.Name)
				if !ok || model.SameCount(before.Count, now.Count) {
					continue
				}
				c.Changes++
				unasked, back := leftTruth(m, name, revs[i-1], before, revs[i].At, now)
				if unasked {
					c.Unasked++
				}
				if back {
					c.RolledBack++
				}
			}
		}
	}
	return c
}

// leftTruth says whether a count was what Kubernetes may use, changed to something else although that did not change, and, in that case, whether it went
// back to what had been right before.
func leftTruth(m *model.Model, name string, was *model.Revision, before history.CSINodeDriver, at time.Duration, now history.CSINodeDriver) (unasked, back bool) {
	node, ok := m.BackendNode(name, now.NodeID, at)
	if !ok {
		return false, false
	}
	held := m.Quota(node).Over(was.At, at)
	if len(held) != 1 || held[0].Value == nil || held[0].At > was.At || !model.SameCount(before.Count, countFor(held[0].Value)) {
		return false, false
	}
	for _, p := range m.Quota(node).Points() {
		if p.At < held[0].At && p.Value != nil && model.SameCount(now.Count, countFor(p.Value)) {
			return true, true
		}
	}
	return true, false
}

// countFor is the count that a quota is shown as.
func countFor(q *history.Quota) *int32 { return model.CountOf(max(1, q.Usable())) }

// rate is n per unit of time; 0 for a history without length.
func rate(n int, units float64) float64 {
	if units <= 0 {
		return 0
	}
	return thousandths(float64(n) / units)
}

func thousandths(f float64) float64 { return math.Round(f*1000) / 1000 }

func inSeconds(d time.Duration) float64 { return thousandths(d.Seconds()) }
