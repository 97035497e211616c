// Package stoprules says when a rollout has to stop: rules over the six signals of package signals, read while nothing is changed.
//
// Contract: a rule is a pure function of the signals of a window and of the bounds that hold there. A rule that has no bound in a window is not judged. What
// a busy but healthy cluster does is within the bounds: single outages, quotas that change, attaches that are refused because a node is full.
//
// It does not read histories, and it does nothing about a broken rule.
package stoprules

import (
	"fmt"
	"strings"
	"time"

	"headroom/e2e/framework/history"
	"headroom/e2e/framework/report/signals"
)

// Bounds are what signals are measured against.
type Bounds struct {
	// UpdateDelay is the longest time that a change of quota may take to its CSINode; 0 where no change can be expected to arrive.
	UpdateDelay time.Duration `json:"updateDelayNanoseconds"`
	// Period is how often each kubelet asks; 0 where none does.
	Period time.Duration `json:"periodNanoseconds"`
}

// Rule is one stop rule.
type Rule struct {
	// Name is what reports call it, Signal which of the six it reads.
	Name, Signal string
	// Doc says when it is broken, in one sentence.
	Doc string
	// Pause says that it pauses growth and does not stop.
	Pause bool
	// broken says want, got; "" where the rule is kept.
	broken func(signals.Signals, Bounds) string
}

// Figures of the rules.
const (
	// unaskedAtMost changes of a count that nothing asked for may be one outage that outlived what its driver knew.
	unaskedAtMost = 1
	// waitingAtMost pods may wait for attach capacity at the same time as quotas fall.
	waitingAtMost = 2
	// classlessAtMost attaches may fail without a class, as one that meets a restart does.
	classlessAtMost = 1
	// writesBesides are writes of a kubelet besides one for each tick: registrations and refreshes after refused attaches.
	writesBesides = 4
	// overAtMost is how long more volumes than the count may be attached: a count that falls below them is told at once.
	overAtMost = 60 * time.Second
)

// maxVolumes is the scheduler's reason for a pod that waits for attach capacity (kubernetes pkg/scheduler/framework/plugins/nodevolumelimits).
const maxVolumes = "exceed max volume count"

// Rules are all of them, in the order of the signals.
var Rules = []Rule{
	{
		Name: "count-is-stale", Signal: "update delay",
		Doc: "a change of quota took longer to its CSINode than driver and period allow, or has been on its way for longer",
		broken: func(s signals.Signals, b Bounds) string {
			got := max(s.UpdateDelay.MaxSeconds, s.UpdateDelay.OldestOpenSeconds)
			if b.UpdateDelay == 0 || got <= b.UpdateDelay.Seconds() {
				return ""
			}
			return fmt.Sprintf("want changes of quota in CSINode within %.0fs, got one after %.1fs (%d open)", b.UpdateDelay.Seconds(), got, s.UpdateDelay.Open)
		},
	},
	{
		Name: "count-moves-unasked", Signal: "count changes",
		Doc: "counts left what Kubernetes may use, again and again, although that did not change",
		broken: func(s signals.Signals, _ Bounds) string {
			if s.CountChanges.Unasked <= unaskedAtMost {
				return ""
			}
			return fmt.Sprintf("want at most %d count to leave what Kubernetes may use while that does not change, got %d of %d changes", unaskedAtMost, s.CountChanges.Unasked, s.CountChanges.Changes)
		},
	},
	{
		Name: "values-roll-back", Signal: "count changes", Pause: true,
		Doc: "a count went back to what was right before, although what Kubernetes may use did not: somebody speaks from old knowledge",
		broken: func(s signals.Signals, _ Bounds) string {
			if s.CountChanges.RolledBack == 0 {
				return ""
			}
			return fmt.Sprintf("want no count to go back to an older value while the newer one holds, got %d", s.CountChanges.RolledBack)
		},
	},
	{
		Name: "pods-wait", Signal: "pending pods",
		Doc: "a pod was rejected for lack of attach capacity, or more pods wait for it than a quota that falls explains",
		broken: func(s signals.Signals, _ Bounds) string {
			rejected, waiting := 0, 0
			for _, r := range s.PendingReasons {
				switch {
				case r.Reason == "rejected: "+history.RejectionReason:
					rejected += r.Pods
				case strings.Contains(r.Reason, maxVolumes):
					waiting += r.Pods
				}
			}
			if rejected == 0 && waiting <= waitingAtMost {
				return ""
			}
			return fmt.Sprintf("want no pod rejected and at most %d to wait for attach capacity, got %d and %d", waitingAtMost, rejected, waiting)
		},
	},
	{
		Name: "attach-fails-without-class", Signal: "attach failures",
		Doc: "attaches fail with INTERNAL or UNKNOWN, on which no kubelet acts",
		broken: func(s signals.Signals, _ Bounds) string {
			n := 0
			for _, f := range s.AttachFailures {
				if f.Name == "Internal" || f.Name == "Unknown" {
					n += f.Calls
				}
			}
			if n <= classlessAtMost {
				return ""
			}
			return fmt.Sprintf("want at most %d attach to fail with Internal or Unknown, got %d", classlessAtMost, n)
		},
	},
	{
		Name: "writes-too-often", Signal: "CSINode writes",
		Doc: "a kubelet writes its CSINode more often than it asks its driver",
		broken: func(s signals.Signals, b Bounds) string {
			most := writesBesides
			if b.Period > 0 {
				most += int(s.HistorySeconds / b.Period.Seconds())
			}
			for _, w := range s.CSINodeWrites {
				if strings.HasPrefix(w.Writer, "system:node:") && w.Writes > most {
					return fmt.Sprintf("want at most %d writes of CSINode by a kubelet in %.0fs, got %d by %q", most, s.HistorySeconds, w.Writes, w.Writer)
				}
			}
			return ""
		},
	},
	{
		Name: "no-count", Signal: "volumes in use",
		Doc: "a node has the driver and no count, which is unlimited to the scheduler",
		broken: func(s signals.Signals, _ Bounds) string {
			for _, v := range s.Volumes {
				if v.Count == nil {
					return fmt.Sprintf("want a count for driver %q on node %q, got none, which is unlimited", v.Driver, v.Node)
				}
			}
			return ""
		},
	},
	{
		Name: "above-count", Signal: "volumes in use",
		Doc: "more volumes than the count stay attached to a node",
		broken: func(s signals.Signals, _ Bounds) string {
			for _, v := range s.Volumes {
				if v.OverSeconds > overAtMost.Seconds() {
					return fmt.Sprintf("want at most as many volumes as the count on node %q, got more for %.0fs", v.Node, v.OverSeconds)
				}
			}
			return ""
		},
	},
}

// Broken is a rule that the signals of a window break.
type Broken struct {
	Rule
	// Detail says want, got.
	Detail string
}

// Check returns the rules that are broken, those that stop first.
func Check(s signals.Signals, b Bounds) []Broken {
	var stop, pause []Broken
	for _, r := range Rules {
		switch detail := r.broken(s, b); {
		case detail == "":
		case r.Pause:
			pause = append(pause, Broken{r, detail})
		default:
			stop = append(stop, Broken{r, detail})
		}
	}
	return append(stop, pause...)
}
