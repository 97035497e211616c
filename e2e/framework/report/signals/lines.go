package signals

import (
	"fmt"
	"strings"
)

// nodeUser is how a kubelet's user name begins.
const nodeUser = "system:node:"

// Line is one signal for people.
type Line struct{ Name, Text string }

// Lines renders the signals, one line each and one more where some are incomplete.
func (s Signals) Lines() []Line {
	out := []Line{
		{"update delay", s.UpdateDelay.text()},
		{"count changes", fmt.Sprintf("%s per minute (%d)", figure(s.CountChanges.PerMinute), s.CountChanges.Changes)},
		{"pending pods", s.waited()},
		{"attach failures", list(s.AttachFailures, func(f Failures) string { return fmt.Sprintf("%d %s", f.Calls, f.Name) })},
		{"CSINode writes", s.writers()},
		{"volumes in use", s.use()},
	}
	for _, why := range s.Incomplete {
		out = append(out, Line{"incomplete", why})
	}
	return out
}

func (s Signals) waited() string {
	text := list(s.PendingReasons, func(r Reason) string { return fmt.Sprintf("%d %s", r.Pods, r.Reason) })
	if s.PodsBeforeVolumes > 0 {
		text += fmt.Sprintf(" (%d came before the run had made their volumes: left out)", s.PodsBeforeVolumes)
	}
	return text
}

func (d Delay) text() string {
	text := "no change of quota arrived"
	if d.Samples > 0 {
		text = fmt.Sprintf("p50 %ss, p99 %ss, max %ss (%d)", figure(d.P50Seconds), figure(d.P99Seconds), figure(d.MaxSeconds), d.Samples)
	}
	if d.Superseded > 0 {
		text += fmt.Sprintf(", %d superseded", d.Superseded)
	}
	if d.Open > 0 {
		text += fmt.Sprintf(", %d still open at the end", d.Open)
	}
	return text
}

// writers joins the kubelets, of which there may be many.
func (s Signals) writers() string {
	if len(s.CSINodeWrites) == 0 {
		return "none seen in the audit log"
	}
	var kubelets, total int
	var perSecond float64
	var busiest Writes
	var others []string
	for _, w := range s.CSINodeWrites {
		if node, ok := strings.CutPrefix(w.Writer, nodeUser); ok {
			kubelets, total, perSecond = kubelets+1, total+w.Writes, perSecond+w.PerSecond
			if w.Writes > busiest.Writes {
				busiest = Writes{Writer: node, Writes: w.Writes, PerSecond: w.PerSecond}
			}
			continue
		}
		others = append(others, fmt.Sprintf("%s %s/s (%d)", w.Writer, figure(w.PerSecond), w.Writes))
	}
	if kubelets > 0 {
		text := fmt.Sprintf("%d kubelets %s/s (%d), the busiest %s (%d)", kubelets, figure(perSecond), total, busiest.Writer, busiest.Writes)
		if kubelets == 1 {
			text = fmt.Sprintf("kubelet of %s %s/s (%d)", busiest.Writer, figure(perSecond), total)
		}
		others = append([]string{text}, others...)
	}
	return strings.Join(others, "; ")
}

// use names the fullest node, and the one that was longest over its count.
func (s Signals) use() string {
	if len(s.Volumes) == 0 {
		return "no node has the driver"
	}
	fullest, worst := s.Volumes[0], s.Volumes[0]
	over, unlimited := 0, 0
	for _, v := range s.Volumes {
		if v.MostAttached > fullest.MostAttached {
			fullest = v
		}
		if v.OverSeconds > worst.OverSeconds {
			worst = v
		}
		if v.OverSeconds > 0 {
			over++
		}
		if v.Count == nil {
			unlimited++
		}
	}
	text := fmt.Sprintf("at most %d attached, on %s", fullest.MostAttached, fullest.Node)
	if fullest.Count != nil {
		text += fmt.Sprintf(" (count %d at the end)", *fullest.Count)
	}
	if over > 0 {
		text += fmt.Sprintf("; above the count on %d of %d, longest on %s for %ss", over, len(s.Volumes), worst.Node, figure(worst.OverSeconds))
	}
	if unlimited > 0 {
		text += fmt.Sprintf("; %d of %d without a count, which is unlimited", unlimited, len(s.Volumes))
	}
	return text
}

func list[T any](all []T, text func(T) string) string {
	if len(all) == 0 {
		return "none"
	}
	var out []string
	for _, one := range all {
		out = append(out, text(one))
	}
	return strings.Join(out, ", ")
}

// figure leaves out digits that nobody reads.
func figure(f float64) string {
	switch {
	case f == 0:
		return "0"
	case f < 1:
		return fmt.Sprintf("%.3f", f)
	case f < 100:
		return fmt.Sprintf("%.1f", f)
	}
	return fmt.Sprintf("%.0f", f)
}
