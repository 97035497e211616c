package signals

import (
	"math"
	"slices"
	"time"

	"headroom/e2e/framework/history"
	"headroom/e2e/invariants/model"
)

// Delay is the time from a change of what Kubernetes may use of a node's quota, in the backend, to the CSINode that shows it. Only changes that find the
// driver's entry there and ask for another count than it has are measured; a node's way into the cluster is not. A usable quota of 0 is shown as 1.
type Delay struct {
	// Samples is how many changes arrived; the percentiles are over these, by nearest rank.
	Samples    int     `json:"samples" yaml:"samples"`
	P50Seconds float64 `json:"p50Seconds" yaml:"p50Seconds"`
	P99Seconds float64 `json:"p99Seconds" yaml:"p99Seconds"`
	MaxSeconds float64 `json:"maxSeconds" yaml:"maxSeconds"`
	// Superseded changes were followed by another one, or by the end of the driver's entry, before they arrived.
	Superseded int `json:"superseded" yaml:"superseded"`
	// Open changes had not arrived when the history ended; OldestOpenSeconds is for how long the oldest of them had been on its way.
	Open              int     `json:"open" yaml:"open"`
	OldestOpenSeconds float64 `json:"oldestOpenSeconds,omitempty" yaml:"oldestOpenSeconds,omitempty"`
}

func updateDelay(m *model.Model, from time.Duration) Delay {
	var d Delay
	var took []time.Duration
	for _, name := range m.CSINodes() {
		revs := m.Revisions(name)
		for driver, id := range driversOf(revs) {
			node, ok := m.BackendNode(name, id, model.Forever)
			if !ok {
				continue
			}
			points := m.Quota(node).Points()
			for i := 1; i < len(points); i++ {
				took = d.change(took, points[i-1:], revs, driver, m.After(name, points[i].At), from, m.End())
			}
		}
	}
	slices.Sort(took)
	d.Samples = len(took)
	if d.Samples > 0 {
		d.P50Seconds, d.P99Seconds, d.MaxSeconds = rank(took, 0.5), rank(took, 0.99), rank(took, 1)
	}
	return d
}

// driversOf maps every driver of a CSINode's states to its CSI node id.
func driversOf(revs []*model.Revision) map[string]string {
	out := map[string]string{}
	for _, r := range revs {
		for _, d := range r.Drivers {
			out[d.Name] = d.NodeID
		}
	}
	return out
}

// change follows the second of points, the first being what held before it. next is the index of the first state that came into force after it. What had
// arrived, or was superseded, before from is left out.
func (d *Delay) change(
	took []time.Duration, points []model.Point[*history.Quota], revs []*model.Revision, driver string, next int, from, last time.Duration,
) []time.Duration {
	before, now := points[0], points[1]
	if before.Value == nil || now.Value == nil || before.Value.Usable() == now.Value.Usable() || next == 0 {
		return took
	}
	want := countFor(now.Value)
	if e, ok := revs[next-1].Entry(driver); !ok || model.SameCount(e.Count, want) {
		return took
	}
	end, superseded := model.Forever, false
	for _, p := range points[2:] {
		if p.Value == nil || p.Value.Usable() != now.Value.Usable() {
			end, superseded = p.At, true
			break
		}
	}
	for _, r := range revs[next:] {
		if r.At > end {
			break
		}
		e, ok := r.Entry(driver)
		if !ok {
			end, superseded = r.At, true
			break
		}
		if model.SameCount(e.Count, want) {
			if r.At < from {
				return took
			}
			return append(took, r.At-now.At)
		}
	}
	switch {
	case superseded && end >= from:
		d.Superseded++
	case !superseded:
		d.Open++
		d.OldestOpenSeconds = max(d.OldestOpenSeconds, inSeconds(last-now.At))
	}
	return took
}

// rank is the q-quantile of sorted, by nearest rank, in seconds.
func rank(sorted []time.Duration, q float64) float64 {
	i := int(math.Ceil(q*float64(len(sorted)))) - 1
	return inSeconds(sorted[min(max(0, i), len(sorted)-1)])
}
