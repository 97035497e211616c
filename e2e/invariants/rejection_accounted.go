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
			t: tally{}, failed: map[string]*account{}, warned: map[string]*warnings{}, of: map[string]*life{}, rejections: map[string]int{},
		})
	},
}

// eventWithin is how long an event may take to be written; kubelets send them from a queue.
const eventWithin = 10 * time.Second

const (
	// eventsFor is how long after a rejection its first event may come, and how long after that the others are counted.
	eventsFor = 10 * time.Minute
	// unreadKept bounds the rejections of one node remembered since its metric was read.
	unreadKept = 4096
)

// sample is one reading of the metric.
type sample struct {
	at    time.Duration
	value float64
	ref   history.Ref
}

// account is a pod that was rejected, until it is gone and its events were judged.
type account struct {
	*rejected
	gone, judged bool
}

// warnings are how often each event said that a pod was rejected.
type warnings struct {
	since time.Duration
	times map[string]int32 // by the event's name
}

// life is one run of a node's kubelet, whose metric counts from 0.
type life struct {
	started time.Duration
	// last is the last reading: it covers those before it, for the counter only rises.
	last *sample
	// certain are rejections that every reading from now on counts; refs are the first of them.
	certain int
	refs    []history.Ref
	// unclear says that some rejection may count or not, whatever reading comes.
	unclear bool
	// open are rejections since, or shortly before, the last reading.
	open []refusal
}

// refusal is a rejection; one that may not be is a pod that was deleted before it ran: the deletion cuts the kubelet's wait short, which it may count.
type refusal struct {
	at    time.Duration
	ref   history.Ref
	maybe bool
}

type accounts struct {
	t      tally
	failed map[string]*account  // by UID
	warned map[string]*warnings // by the pod's UID, or its name without one
	of     map[string]*life     // by node
	// ended are lives of which no reading will come any more, with their nodes.
	ended      backlog[endedLife]
	read       bool
	rejections map[string]int // by node
}

type endedLife struct {
	*life
	node string
	at   time.Duration
}

func (r *accounts) observe(m *model.Model, s *model.Step) {
	switch b := s.Body.(type) {
	case *history.Pod:
		uid := cmp.Or(b.UID, s.Key)
		a := r.failed[uid]
		switch {
		case isRejected(b) && a == nil:
			a = &account{rejected: newRejected(s, b)}
			r.failed[uid] = a
			r.rejections[b.NodeName]++
			r.refused(m, b.NodeName, refusal{at: s.At, ref: s.Ref()})
		case b.Type == "DELETED" && b.PodPhase == "Pending" && b.NodeName != "":
			r.refused(m, b.NodeName, refusal{at: s.At, ref: s.Ref(), maybe: true})
		}
		if a != nil && b.Type == "DELETED" {
			a.gone = true
		}
	case *history.KubeEvent:
		if b.Kind == "Pod" && b.EventType == "Warning" && b.Reason == limitExceeded && b.Type != "DELETED" {
			r.warn(s, cmp.Or(b.NameUID, b.Name), max(1, b.Count))
		}
	case *history.Component:
		if node, ok := strings.CutPrefix(s.Key, "kubelet@"); ok && b.State == "started" {
			r.started(m, node, s.At)
		}
	case *history.Metric:
		if node, ok := strings.CutPrefix(s.Key, "kubelet@"); ok && b.Name == history.MetricRejections && b.Labels["reason"] == limitExceeded {
			r.read = true
			r.get(node).last = &sample{s.At, b.Value, s.Ref()}
		}
	}
}

func (r *accounts) get(node string) *life {
	x := r.of[node]
	if x == nil {
		x = &life{}
		r.of[node] = x
	}
	return x
}

// warn counts an event of a pod, unless it comes long after the first.
func (r *accounts) warn(s *model.Step, key string, times int32) {
	w := r.warned[key]
	if w == nil {
		w = &warnings{since: s.At, times: map[string]int32{}}
		r.warned[key] = w
	}
	if s.At <= model.Plus(w.since, eventsFor) {
		w.times[s.Key] = times
	}
}

// started ends a kubelet's life. What was rejected shortly before may be the next one's.
func (r *accounts) started(m *model.Model, node string, at time.Duration) {
	old := r.get(node)
	next := &life{started: at}
	for _, x := range old.open {
		if x.at >= model.Minus(at, m.Slack()) {
			next.open = append(next.open, x)
		}
	}
	r.ended.push(endedLife{old, node, at})
	r.of[node] = next
}

// refused counts a rejection for its node's kubelet, and for the one before while it may be that one's.
func (r *accounts) refused(m *model.Model, node string, x refusal) {
	r.get(node).add(m, x)
	for _, old := range r.ended.items {
		if old.node == node && old.last != nil && x.at <= model.Plus(old.last.at, m.Slack()) {
			old.open = append(old.open, x)
		}
	}
}

// add counts a rejection. Those that a reading has certainly covered are not kept.
func (l *life) add(m *model.Model, x refusal) {
	l.open = append(l.open, x)
	if l.last == nil && len(l.open) <= unreadKept {
		return
	}
	var covered time.Duration // everything before is in every reading to come
	if l.last != nil {
		covered = model.Minus(l.last.at, m.Slack())
	}
	if len(l.open) > unreadKept {
		covered = max(covered, l.open[len(l.open)-unreadKept].at)
		l.unclear = true
	}
	l.open = slices.DeleteFunc(l.open, func(x refusal) bool {
		if x.at > covered {
			return false
		}
		l.count(m, x)
		return true
	})
}

// count takes a rejection that every reading to come is later than.
func (l *life) count(m *model.Model, x refusal) {
	switch {
	case x.at < model.Minus(l.started, m.Slack()):
	case x.maybe || x.at < model.Plus(l.started, m.Slack()):
		l.unclear = true
	default:
		l.certain++
		if len(l.refs) < maxEvidence {
			l.refs = append(l.refs, x.ref)
		}
	}
}

func (r *accounts) settle(m *model.Model, to time.Duration) time.Duration {
	for uid, a := range r.failed {
		if !a.judged && model.Plus(a.at, 2*eventsFor) <= to {
			r.event(m, uid, a.rejected)
			a.judged = true
		}
		if a.judged && a.gone {
			delete(r.failed, uid)
		}
	}
	for key, w := range r.warned {
		if model.Plus(w.since, 3*eventsFor) <= to {
			delete(r.warned, key)
		}
	}
	for _, x := range r.ended.due(func(x endedLife) bool { return x.last == nil || model.Plus(x.last.at, m.Slack()) <= to }) {
		r.metric(m, x.node, x.life)
	}
	return model.Forever
}

func (r *accounts) finish(m *model.Model) []Verdict {
	for node, x := range r.of {
		r.metric(m, node, x)
	}
	if !r.read {
		for node, n := range r.rejections {
			for range n {
				r.t.note(node, "the history has no reading of "+history.MetricRejections)
			}
		}
	}
	return r.t.verdicts(m, history.Kubelet)
}

// event judges the events of one pod.
func (r *accounts) event(m *model.Model, uid string, p *rejected) {
	var n int32
	for _, key := range []string{uid, p.name} {
		if w := r.warned[key]; w != nil && n == 0 && w.since <= model.Plus(p.at, eventsFor) {
			for _, times := range w.times {
				n += times
			}
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

// metric compares a kubelet's last reading with the pods that were seen rejected. It is left out where one was rejected too near to the reading, or to the
// start, or deleted before it ran.
func (r *accounts) metric(m *model.Model, node string, l *life) {
	if l.last == nil {
		return
	}
	s := l.last
	certain, unclear, refs := l.certain, l.unclear, append([]history.Ref{s.ref}, l.refs...)
	for _, x := range l.open {
		switch {
		case x.at < model.Minus(l.started, m.Slack()) || x.at > model.Plus(s.at, m.Slack()):
		case x.maybe || x.at < model.Plus(l.started, m.Slack()) || x.at > model.Minus(s.at, m.Slack()):
			unclear = true
		default:
			certain++
			refs = append(refs, x.ref)
		}
	}
	switch {
	case certain == 0 && !unclear && s.value == 0 || unclear || m.Disturbed(node, l.started+1, s.at):
	case s.value == float64(certain):
		r.t.held(node, "")
	default:
		r.t.missing(node, finding{at: s.at, evidence: refs, detail: fmt.Sprintf("want %s of node %q at %d, as many as were rejected since its kubelet started, got %g at %s",
			history.MetricRejections, node, certain, s.value, m.Since(s.at))}, history.PrefixAPI+"pods")
	}
}
