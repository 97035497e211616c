package invariants

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"headroom/e2e/framework/history"
	"headroom/e2e/invariants/model"
)

var rejectionAccounted = Invariant{
	Name: "rejection-accounted",
	Claim: "each pod that was rejected for lack of attach capacity has one Warning event, and the kubelet's " +
		history.MetricRejections + "{reason=\"" + limitExceeded + "\"} counts it once",
	Source:   "pkg/kubelet/kubelet.go rejectPod, recordAdmissionRejection",
	Boundary: history.Kubelet,
	Needs:    []string{history.PrefixAPI + "pods", history.PrefixAPI + "events"},
	New: func(p Params) Checker {
		return newChecker(p, &accounts{
			t: tally{}, failed: map[string]*rejected{}, warned: map[string]map[string]int32{}, deleted: map[string]*rejected{},
		})
	},
}

// eventWithin is how long an event may take to be written; kubelets send them from a queue.
const eventWithin = 10 * time.Second

// sample is one reading of the metric.
type sample struct {
	node    string
	started time.Duration // of the kubelet that was asked
	at      time.Duration
	value   float64
	ref     history.Ref
}

type accounts struct {
	t      tally
	failed map[string]*rejected        // by UID
	warned map[string]map[string]int32 // by the pod's UID, or its name without one; by the event's name
	// deleted are pods that were deleted before they ran, by UID: the deletion cuts the kubelet's wait short, which it may count as a rejection.
	deleted map[string]*rejected
	started map[string]time.Duration
	samples []sample
}

func (r *accounts) observe(m *model.Model, s model.Step) {
	switch b := s.Body.(type) {
	case *history.Pod:
		uid := cmp.Or(b.UID, s.Key)
		switch {
		case isRejected(b) && r.failed[uid] == nil:
			r.failed[uid] = newRejected(s, b)
		case b.Type == "DELETED" && b.PodPhase == "Pending" && b.NodeName != "":
			r.deleted[uid] = newRejected(s, b)
		}
	case *history.KubeEvent:
		if b.Kind == "Pod" && b.EventType == "Warning" && b.Reason == limitExceeded && b.Type != "DELETED" {
			key := cmp.Or(b.NameUID, b.Name)
			if r.warned[key] == nil {
				r.warned[key] = map[string]int32{}
			}
			r.warned[key][s.Key] = max(1, b.Count)
		}
	case *history.Component:
		if node, ok := strings.CutPrefix(s.Key, "kubelet@"); ok && b.State == "started" {
			if r.started == nil {
				r.started = map[string]time.Duration{}
			}
			r.started[node] = s.At
		}
	case *history.Metric:
		if node, ok := strings.CutPrefix(s.Key, "kubelet@"); ok && b.Name == history.MetricRejections && b.Labels["reason"] == limitExceeded {
			r.samples = append(r.samples, sample{node, r.started[node], s.At, b.Value, s.Ref()})
			r.trim()
		}
	}
}

// trim drops readings that a later one of the same kubelet covers: the counter only rises.
func (r *accounts) trim() {
	last := r.samples[len(r.samples)-1]
	r.samples = slices.DeleteFunc(r.samples, func(s sample) bool { return s.node == last.node && s.started == last.started && s.at < last.at })
}

func (r *accounts) finish(m *model.Model) []Verdict {
	for uid, p := range r.failed {
		r.event(m, uid, p)
	}
	for _, s := range r.samples {
		r.metric(m, s)
	}
	if len(r.samples) == 0 {
		for _, p := range r.failed {
			r.t.note(p.node, "the history has no reading of "+history.MetricRejections)
		}
	}
	return r.t.verdicts(history.Kubelet)
}

// event judges the events of one pod.
func (r *accounts) event(m *model.Model, uid string, p *rejected) {
	var n int32
	for _, key := range []string{uid, p.name} {
		for _, times := range r.warned[key] {
			n += times
		}
		if n > 0 {
			break
		}
	}
	due := model.Plus(p.at, model.Plus(eventWithin, m.Slack()))
	f := finding{at: due, scope: p.scope, evidence: []history.Ref{p.ref}}
	f.detail = fmt.Sprintf("want one Warning event of pod %q, rejected at %s, got %d", p.name, m.Since(p.at), n)
	switch {
	case n == 1:
		r.t.held(p.node, p.scope)
	case n > 1:
		r.t.violated(p.node, f)
	case due <= m.End() && !m.Disturbed(p.node, p.at-settle, due):
		r.t.late(m, p.node, p.at, due, f, history.PrefixAPI+"events")
	}
}

// metric compares one reading with the pods that were seen rejected. It is left out where one was rejected too near to the reading, or to the start,
// or deleted before it ran.
func (r *accounts) metric(m *model.Model, s sample) {
	certain, possible, refs := 0, 0, []history.Ref{s.ref}
	for _, p := range r.failed {
		if p.node != s.node || p.at < model.Minus(s.started, m.Slack()) || p.at > model.Plus(s.at, m.Slack()) {
			continue
		}
		possible++
		if p.at >= model.Plus(s.started, m.Slack()) && p.at <= model.Minus(s.at, m.Slack()) {
			certain++
			refs = append(refs, p.ref)
		}
	}
	for _, p := range r.deleted {
		if p.node == s.node && p.at >= model.Minus(s.started, m.Slack()) && p.at <= model.Plus(s.at, m.Slack()) {
			possible++
		}
	}
	switch {
	case possible == 0 && s.value == 0 || certain < possible || m.Disturbed(s.node, s.started+1, s.at):
	case s.value == float64(certain):
		r.t.held(s.node, "")
	default:
		r.t.missing(m, s.node, finding{at: s.at, evidence: refs, detail: fmt.Sprintf("want %s of node %q at %d, as many as were rejected since its kubelet started, got %g at %s",
			history.MetricRejections, s.node, certain, s.value, m.Since(s.at))}, history.PrefixAPI+"pods")
	}
}
