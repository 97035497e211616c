package timeline

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"headroom/e2e/framework/history"
	"headroom/e2e/framework/report"
	"headroom/e2e/framework/report/signals"
	"headroom/e2e/invariants/model"
)

const (
	maxVerdicts = 1000
	// maxRows, maxSteps and maxMarks bound the page: steps and marks are shared out among the rows.
	maxRows  = 500
	maxSteps = 100_000
	maxMarks = 20_000
	// maxText bounds the text of a mark in bytes.
	maxText = 200
)

// fold takes the events of one history.
type fold struct {
	model  *model.Model
	use    *signals.Use
	begun  bool
	start  time.Duration
	last   time.Duration
	scopes map[string]string // node -> scope
	marks  map[string][]Mark // node -> marks
	bound  map[string]string // pod -> node, to see the first bind only
	failed map[string]bool   // pods that were rejected
	open   map[string]*Shade // faults by op, or by "backend/" and node
	spans  []*Shade
}

func newFold(h history.Header) *fold {
	return &fold{
		model: model.New(h), use: signals.NewUse(), scopes: map[string]string{}, marks: map[string][]Mark{}, bound: map[string]string{},
		failed: map[string]bool{}, open: map[string]*Shade{},
	}
}

// ms is a time of the page.
func (f *fold) ms(at time.Duration) int64 { return max(0, (at - f.start).Milliseconds()) }

func (f *fold) observe(e history.Event) {
	if e.Phase != history.Gap && !f.begun {
		f.begun, f.start = true, e.At
	}
	f.last = max(f.last, e.At)
	if e.Node != "" && e.Scope != "" && f.scopes[e.Node] == "" {
		f.scopes[e.Node] = e.Scope
	}
	s, ok := f.step(e)
	if !ok {
		return
	}
	switch b := s.Body.(type) {
	case *history.CSICall:
		f.call(e, s.Call)
	case *history.Audit:
		if b.Resource == "csinodes" && e.Phase != history.Invoke {
			f.mark(b.Name, e, MarkWrite, fmt.Sprintf("%s by %s: %d", b.Verb, b.User, b.Status))
		}
	case *history.Pod:
		f.pod(e, b)
	case *history.VolumeAttachment:
		f.use.Observe(e, b)
	case *history.Component:
		if _, node, ok := strings.Cut(e.Key, "@"); ok {
			f.mark(node, e, MarkComponent, strings.TrimSpace(e.Key+" "+b.State+" "+b.Exit))
		}
	case *history.Fault:
		f.fault(e, b)
	case *history.Backend:
		if e.Key == "fault" {
			f.backendFault(e, b)
		}
	}
}

// step folds an event; one that the model cannot bear is left out, as the judge leaves it out.
func (f *fold) step(e history.Event) (s model.Step, ok bool) {
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	return f.model.Observe(e), true
}

func (f *fold) mark(node string, e history.Event, kind, text string) {
	if len(f.marks[node]) <= maxMarks { // one more than fits, so that what is left out shows
		f.marks[node] = append(f.marks[node], Mark{At: f.ms(e.At), Kind: kind, Text: clip(text)})
	}
}

func clip(s string) string {
	if len(s) <= maxText {
		return s
	}
	return strings.ToValidUTF8(s[:maxText], "") + "..."
}

func (f *fold) call(e history.Event, c *model.Call) {
	if c == nil || e.Phase == history.Invoke || !c.Failed() || c.Side != history.ClientSide {
		return
	}
	switch c.Method {
	case model.NodeGetInfo:
		f.mark(c.Node, e, MarkAnswer, fmt.Sprintf("NodeGetInfo failed: code %d %s", c.Code, c.Message))
	case model.Publish:
		f.mark(c.Node, e, MarkAttach, fmt.Sprintf("attach of %s failed: code %d %s", c.Volume, c.Code, c.Message))
	}
}

func (f *fold) pod(e history.Event, b *history.Pod) {
	id := cmp.Or(b.UID, e.Key)
	if b.NodeName != "" && f.bound[id] == "" {
		f.bound[id] = b.NodeName
		f.mark(b.NodeName, e, MarkBind, e.Key+" bound")
	}
	if b.PodPhase == "Failed" && b.Reason != "" && b.NodeName != "" && !f.failed[id] {
		f.failed[id] = true
		f.mark(b.NodeName, e, MarkRejection, e.Key+" failed: "+b.Reason)
	}
}

// fault follows an injection of the run from when it was asked for to when it was healed.
func (f *fold) fault(e history.Event, b *history.Fault) {
	switch b.State {
	case "inject":
		f.begin("run/"+e.Op, e, strings.TrimSpace(e.Key+" "+b.Target), b.Nodes)
	case "healed", "failed":
		f.end("run/"+e.Op, e)
	}
}

func (f *fold) backendFault(e history.Event, b *history.Backend) {
	key := "backend/" + e.Node
	f.end(key, e)
	if b.Fault == "" {
		return
	}
	var nodes []string
	if e.Node != "" {
		nodes = []string{e.Node}
	}
	text := "backend: " + b.Fault
	if len(b.Operations) > 0 {
		text += " of " + strings.Join(b.Operations, ", ")
	}
	f.begin(key, e, text, nodes)
}

func (f *fold) begin(key string, e history.Event, text string, nodes []string) {
	s := &Shade{From: f.ms(e.At), To: -1, Kind: "fault", Text: clip(text), Nodes: append([]string{}, nodes...)}
	f.open[key] = s
	f.spans = append(f.spans, s)
}

func (f *fold) end(key string, e history.Event) {
	if s := f.open[key]; s != nil {
		s.To = f.ms(e.At)
		delete(f.open, key)
	}
}

// shades are the faults, those never healed up to the end, and the times at which the harness was slow.
func (f *fold) shades(r report.Report) []Shade {
	out := []Shade{}
	for _, s := range f.spans {
		if s.To < 0 {
			s.To = f.ms(f.last)
		}
		out = append(out, *s)
	}
	for _, s := range r.Harness.Slow {
		text := fmt.Sprintf("harness slow: %s (%s)", time.Duration(s.Worst).Round(time.Millisecond), s.Source)
		out = append(out, Shade{From: millis(s.From), To: millis(s.To), Kind: "slow", Text: text, Nodes: []string{}})
	}
	return out
}

// rows are the drivers of all nodes, by name.
func (f *fold) rows(p *Page) []Row {
	ids := map[model.ID]bool{}
	for _, id := range slices.Concat(f.model.Asked(), f.model.ServedIDs(), f.use.IDs()) {
		ids[id] = true
	}
	for _, name := range f.model.CSINodes() {
		for _, r := range f.model.Revisions(name) {
			for _, d := range r.Drivers {
				ids[model.ID{Node: name, Driver: d.Name}] = true
			}
		}
	}
	sorted := []model.ID{}
	for id := range ids {
		sorted = append(sorted, id)
	}
	slices.SortFunc(sorted, func(a, b model.ID) int { return cmp.Or(natural(a.Node, b.Node), natural(a.Driver, b.Driver)) })
	if n := len(sorted); n > maxRows {
		sorted = sorted[:maxRows]
		p.LeftOut = append(p.LeftOut, fmt.Sprintf("%d of %d nodes and drivers", n-maxRows, n))
	}
	out := make([]Row, 0, len(sorted))
	for _, id := range sorted {
		out = append(out, f.row(p, id, max(100, maxSteps/len(sorted)/4), max(20, maxMarks/len(sorted))))
	}
	return out
}

// natural orders "n2" before "n10": digits that follow each other are one number.
func natural(a, b string) int {
	for a != "" && b != "" {
		na, ra := chunk(a)
		nb, rb := chunk(b)
		ta, tb := strings.TrimLeft(na, "0"), strings.TrimLeft(nb, "0")
		order := strings.Compare(na, nb)
		if digit(na[0]) && digit(nb[0]) {
			order = cmp.Or(len(ta)-len(tb), strings.Compare(ta, tb), order)
		}
		if order != 0 {
			return order
		}
		a, b = ra, rb
	}
	return len(a) - len(b)
}

// chunk splits off the digits that s begins with, or what comes before the first digit.
func chunk(s string) (first, rest string) {
	i := 1
	for i < len(s) && digit(s[i]) == digit(s[0]) {
		i++
	}
	return s[:i], s[i:]
}

func digit(c byte) bool { return c >= '0' && c <= '9' }
