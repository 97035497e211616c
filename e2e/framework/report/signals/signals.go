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
	writes  map[string]*Writes
	use     *Use
	broken  string
}

// New returns a collector for a history with header h.
func New(h history.Header) *Collector {
	return &Collector{model: model.New(h), pending: pending{}, attach: attachFailures{}, writes: map[string]*Writes{}, use: NewUse()}
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
		c.pending.attachment(c.model, b)
	}
}

// Finish returns the figures.
func (c *Collector) Finish() Signals {
	elapsed := time.Duration(0)
	if c.begun {
		elapsed = max(0, c.model.End()-c.first)
	}
	s := Signals{HistorySeconds: inSeconds(elapsed)}
	s.UpdateDelay = updateDelay(c.model)
	s.CountChanges = Changes{Changes: countChanges(c.model)}
	s.CountChanges.PerMinute = rate(s.CountChanges.Changes, elapsed.Minutes())
	s.PendingReasons, s.PodsBeforeVolumes = c.pending.reasons()
	s.AttachFailures = c.attach.byCode()
	for _, w := range c.writes {
		w.PerSecond = rate(w.Writes, elapsed.Seconds())
		s.CSINodeWrites = append(s.CSINodeWrites, *w)
	}
	slices.SortFunc(s.CSINodeWrites, func(a, b Writes) int { return cmp.Or(b.Writes-a.Writes, cmp.Compare(a.Writer, b.Writer)) })
	s.Volumes = volumes(c.model, c.use)
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

// countChanges counts revisions in which a driver's count differs from the one before.
func countChanges(m *model.Model) (n int) {
	for _, name := range m.CSINodes() {
		revs := m.Revisions(name)
		for i := 1; i < len(revs); i++ {
			for _, now := range revs[i].Drivers {
				if before, ok := revs[i-1].Entry(now.Name); ok && !model.SameCount(before.Count, now.Count) {
					n++
				}
			}
		}
	}
	return n
}

// rate is n per unit of time; 0 for a history without length.
func rate(n int, units float64) float64 {
	if units <= 0 {
		return 0
	}
	return thousandths(float64(n) / units)
}

func thousandths(f float64) float64 { return math.Round(f*1000) / 1000 }

func inSeconds(d time.Duration) float64 { return thousandths(d.Seconds()) }
