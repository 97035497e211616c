package timeline

import (
	"fmt"
	"math"

	"headroom/e2e/framework/history"
	"headroom/e2e/framework/report"
	"headroom/e2e/invariants/model"
)

// line is a step line in the making: only changes are kept.
type line struct {
	steps []Step
	most  int
	lost  int
}

func (l *line) set(at, value int64) {
	n := len(l.steps)
	switch {
	case n > 0 && l.steps[n-1].Value == value:
	case n > 0 && l.steps[n-1].At == at:
		l.steps[n-1].Value = value
	case n >= l.most:
		l.lost++
	default:
		l.steps = append(l.steps, Step{At: at, Value: value})
	}
}

// row makes one row with at most the given number of steps in each line, and of marks.
func (f *fold) row(p *Page, id model.ID, steps, marks int) Row {
	r := Row{Node: id.Node, Driver: id.Driver, Scope: f.scopes[id.Node]}
	lines := map[string]*line{}
	of := func(name string) *line {
		lines[name] = &line{steps: []Step{}, most: steps}
		return lines[name]
	}
	counts := of("counts")
	csiID := f.counts(counts, id)
	f.answers(of("answers"), id, counts.steps, &csiID)
	f.usable(of("limits"), id, csiID)
	attached := of("attached volumes")
	for _, l := range f.use.Levels(id) {
		attached.set(f.ms(l.At), int64(l.Attached))
	}
	r.Usable, r.Answer, r.Count, r.Attached = lines["limits"].steps, lines["answers"].steps, lines["counts"].steps, attached.steps
	for _, name := range []string{"limits", "answers", "counts", "attached volumes"} {
		if l := lines[name]; l.lost > 0 {
			p.LeftOut = append(p.LeftOut, fmt.Sprintf("%s: %s of %s after the first %d", id, report.Plural(l.lost, "change"), name, steps))
		}
	}
	r.Marks = append([]Mark{}, f.marks[id.Node]...)
	if n := len(r.Marks); n > marks {
		r.Marks = r.Marks[:marks]
		more := "some"
		if n <= maxMarks {
			more = fmt.Sprint(n - marks)
		}
		p.LeftOut = append(p.LeftOut, fmt.Sprintf("%s: %s marks after the first %d", id, more, marks))
	}
	return r
}

// counts draws the CSINode's entry and returns the CSI node id in it.
func (f *fold) counts(l *line, id model.ID) (csiID string) {
	for _, r := range f.model.Revisions(id.Node) {
		e, ok := r.Entry(id.Driver)
		switch {
		case !ok && len(l.steps) == 0: // not there yet
		case !ok:
			l.set(f.ms(r.At), Nothing)
		case e.Count == nil:
			l.set(f.ms(r.At), Unlimited)
		default:
			l.set(f.ms(r.At), int64(*e.Count))
		}
		if ok {
			csiID = e.NodeID
		}
	}
	return csiID
}

// answers draws what the kubelet was answered, or where only the driver's side was recorded, what the driver said. The line ends with the entry.
func (f *fold) answers(l *line, id model.ID, counts []Step, csiID *string) {
	calls := f.model.Infos(id)
	if len(calls) == 0 {
		calls = f.model.Served(id)
	}
	for _, c := range calls {
		if !c.OK() {
			continue
		}
		if *csiID == "" {
			*csiID = c.NodeID
		}
		value := c.Max
		if value <= 0 {
			value = Unlimited
		}
		counts = l.endBefore(counts, f.ms(c.Done))
		l.set(f.ms(c.Done), value)
	}
	l.endBefore(counts, math.MaxInt64)
}

// endBefore ends the line wherever counts end before a time, and returns the counts from then on.
func (l *line) endBefore(counts []Step, at int64) []Step {
	for len(counts) > 0 && counts[0].At < at {
		if counts[0].Value == Nothing && len(l.steps) > 0 {
			l.set(counts[0].At, Nothing)
		}
		counts = counts[1:]
	}
	return counts
}

// usable draws the backend's truth, from when the driver is on the node.
func (f *fold) usable(l *line, id model.ID, csiID string) {
	node, ok := f.model.BackendNode(id.Node, csiID, model.Forever)
	if !ok {
		return
	}
	for _, point := range f.model.Quota(node).Points() {
		l.set(f.ms(point.At), usable(point))
	}
}

func usable(p model.Point[*history.Quota]) int64 {
	if p.Value == nil {
		return Nothing
	}
	return p.Value.Usable()
}
