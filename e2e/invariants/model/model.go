// Package model is the one fold of a history that the checkers share: what was in force when, who was up, which object belongs to which.
//
// Contract: a Model takes the events of one merged history in order and answers questions about any time of it. It decodes each body once; an
// event that it cannot decode counts as a gap of its source. Questions are answered from what was folded so far: a question about an interval
// is to be asked once its end is settled, because watch events and heartbeats come late. A Model keeps all that it folded until Forget is called.
//
// What it does not do: judge. It knows no claims, no bounds but the header's slack, and nothing that is not in the history.
package model

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"headroom/e2e/framework/history"
)

// DefaultSlack is used where a header names none.
const DefaultSlack = 2 * time.Second

// ID names a driver on a node.
type ID struct{ Node, Driver string }

func (id ID) String() string { return id.Node + "/" + id.Driver }

// Gap says that a source may have lost events. Where in its file is not known, so it counts for the whole run.
type Gap struct {
	Source string      `json:"source"`
	Reason string      `json:"reason"`
	Ref    history.Ref `json:"ref"`
	// Declared says that the run's header announced it: the provider cannot give this source.
	Declared bool `json:"declared,omitempty"`
}

// Step is one event with what the fold found in it.
type Step struct {
	history.Event
	// Body is a pointer to the body's type in package history, nil where the source has none or it did not decode.
	Body any
	// Call is set on events of csi/*.
	Call *Call
	// Attach is set on backend events with Key "attach".
	Attach *Attach
	// Outcome is set on the event of csi/* that tells how a registration ended.
	Outcome *Registration
	// Over are the waits of pods that the event ended, but those of pods that found room at once. It is good until the next event.
	Over []*Wait
	// Write is set on audit events that answer a write of a CSINode.
	Write *Write
}

// Model is the fold. Create it with New.
type Model struct {
	header history.Header
	begun  bool
	first  time.Duration
	last   time.Duration
	// settled is the latest time that Settled has told.
	settled time.Duration
	gaps    []Gap
	lost    map[string]int // gaps by source

	harness
	backend
	calls
	components
	nodes
	objects
	recent
	rejections
	copies   names
	declared map[[2]string]bool // user, CSINode: whom the run itself had write
	placement
}

// New returns an empty model for a history with header h.
func New(h history.Header) *Model {
	if h.Params.Slack <= 0 {
		h.Params.Slack = history.Duration(DefaultSlack)
	}
	d := &h.Params.Driver
	d.CacheAge, d.LastGoodLife, d.StepInterval, d.MinInterval = max(0, d.CacheAge), max(0, d.LastGoodLife), max(0, d.StepInterval), max(0, d.MinInterval)
	var gaps []Gap
	for _, source := range slices.Sorted(maps.Keys(h.Missing)) {
		gaps = append(gaps, Gap{Source: source, Reason: h.Missing[source], Declared: true})
	}
	return &Model{
		header: h, settled: -Forever, gaps: gaps, lost: map[string]int{}, harness: newHarness(), backend: newBackend(), calls: newCalls(),
		components: newComponents(), nodes: newNodes(), objects: newObjects(), recent: newRecent(), rejections: newRejections(), copies: names{},
		declared: map[[2]string]bool{}, placement: newPlacement(),
	}
}

// Decode returns the event's body as Step has it. It depends on the event alone, so it can be done ahead of the fold, elsewhere.
func Decode(e history.Event) (body any, err error) {
	if e.Phase == history.Gap || len(e.Body) == 0 || strings.HasPrefix(e.Key, "writer/") {
		return nil, nil
	}
	if body = bodyOf(e.Source); body == nil {
		return nil, nil
	}
	if err := e.Decode(body); err != nil {
		return nil, err
	}
	return body, nil
}

// Observe folds the next event.
func (m *Model) Observe(e history.Event) Step {
	body, err := Decode(e)
	return m.Fold(e, body, err)
}

// Fold is Observe for an event of which Decode said body and err.
func (m *Model) Fold(e history.Event, body any, err error) Step {
	if !m.begun {
		m.begun, m.first, m.last = true, e.At, e.At
	}
	m.last = max(m.last, e.At)
	m.folded++
	m.over, m.outcome = m.over[:0], nil
	m.copies.event(&e)
	s := Step{Event: e}
	if e.Phase == history.Gap {
		m.gap(e)
		return s
	}
	if err != nil {
		m.Lose(e.Source, err.Error(), e.Ref())
	}
	if body == nil {
		return s
	}
	m.copies.body(body)
	s.Body = body
	m.fold(&s)
	m.foldPlacement(s)
	s.Over = m.over
	return s
}

// fold hands a decoded event to the part of the model that it belongs to.
func (m *Model) fold(s *Step) {
	switch b := s.Body.(type) {
	case *history.CSICall:
		s.Call = m.foldCall(s.Event, b)
		s.Outcome = m.outcome
		m.foldKubelet(s.Event, b, s.Call)
	case *history.Backend:
		s.Attach = m.foldBackend(s.Event, b)
	case *history.Component:
		m.foldComponent(s.Event, b, &m.calls)
	case *history.Fault:
		m.foldFault(s.Event, b)
	case *history.Beat:
		m.foldBeat(s.Event, b, m.Slack())
	case *history.Probe:
		m.foldProbe(s.Event, b, m.Slack())
	case *history.CSINode:
		m.foldWatched(s.Event, b, &m.calls)
	case *history.Audit:
		s.Write = m.write(s.Event, b)
		m.foldAudit(s.Event, b, &m.calls)
	case *history.Node:
		m.foldNode(s.Event, b)
	case *history.Workload:
		m.declare(b)
	default:
		m.foldObject(s.Event, s.Body)
		m.foldRejection(s.Event, s.Body)
	}
}

// bodyOf returns an empty body of the type that a source writes; nil for sources whose bodies no checker reads.
func bodyOf(source string) any {
	kind, rest, _ := strings.Cut(source, "/")
	switch kind + "/" {
	case history.PrefixCSI:
		return &history.CSICall{}
	case history.PrefixComponent:
		return &history.Component{}
	case history.PrefixBeat:
		return &history.Beat{}
	case history.PrefixWorkload:
		return &history.Workload{}
	case history.PrefixMetric:
		return &history.Metric{}
	case history.PrefixAPI:
		return objectOf(rest)
	}
	switch source {
	case history.SourceBackend:
		return &history.Backend{}
	case history.SourceAudit:
		return &history.Audit{}
	case history.SourceFault:
		return &history.Fault{}
	case history.SourceProbe:
		return &history.Probe{}
	}
	return nil
}

// objectOf is bodyOf for api/<resource>.
func objectOf(resource string) any {
	switch resource {
	case "csinodes":
		return &history.CSINode{}
	case "csidrivers":
		return &history.CSIDriver{}
	case "nodes":
		return &history.Node{}
	case "pods":
		return &history.Pod{}
	case "persistentvolumeclaims":
		return &history.PVC{}
	case "persistentvolumes":
		return &history.PV{}
	case "volumeattachments":
		return &history.VolumeAttachment{}
	case "events":
		return &history.KubeEvent{}
	}
	return nil
}

// gap records a gap event. Merge writes gaps under its own name, with the source that lost events as the key.
func (m *Model) gap(e history.Event) {
	source := e.Source
	if source == history.SourceMerge {
		source = e.Key
	}
	var r history.GapReason
	if len(e.Body) == 0 || e.Decode(&r) != nil || r.Reason == "" {
		r.Reason = "events may be missing"
	}
	m.Lose(source, r.Reason, e.Ref())
}

// Lose records that source may have lost events; the empty source means all of them. Of many gaps in one source the first ones are kept.
func (m *Model) Lose(source, reason string, ref history.Ref) {
	if m.lost[source]++; m.lost[source] <= gapsAtMost {
		m.gaps = append(m.gaps, Gap{Source: source, Reason: reason, Ref: ref})
	}
}

// Gaps returns the gaps in the sources that needs name: sources, or prefixes that end in "/". A gap in all sources is in every answer.
func (m *Model) Gaps(needs ...string) []Gap {
	var out []Gap
	for _, g := range m.gaps {
		if g.Source == "" || Names(needs, g.Source) {
			out = append(out, g)
		}
	}
	return out
}

// AllGaps returns the gaps of all sources.
func (m *Model) AllGaps() []Gap { return m.gaps }

// Names says whether source is one of needs, or has one of those that end in "/" as its prefix. A source that itself is a prefix
// ("csi/") is named by whatever lies below it.
func Names(needs []string, source string) bool {
	for _, n := range needs {
		if n == source || strings.HasSuffix(n, "/") && strings.HasPrefix(source, n) || strings.HasSuffix(source, "/") && strings.HasPrefix(n, source) {
			return true
		}
	}
	return false
}

// Header returns the header with its defaults filled in.
func (m *Model) Header() history.Header { return m.header }

// Slack is what every bound is widened by.
func (m *Model) Slack() time.Duration { return time.Duration(m.header.Params.Slack) }

// End is the time of the last event so far: a bound that expires later judges nothing.
func (m *Model) End() time.Duration { return m.last }

// Since renders t relative to the first event: "+12.3s".
func (m *Model) Since(t time.Duration) string {
	return fmt.Sprintf("%+.1fs", Minus(t, m.first).Seconds())
}

// Began says whether any event was folded.
func (m *Model) Began() bool { return m.begun }
