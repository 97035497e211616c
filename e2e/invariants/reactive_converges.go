package invariants

import (
	"fmt"
	"slices"
	"time"

	"headroom/e2e/framework/history"
	"headroom/e2e/invariants/model"
)

var reactiveConverges = Invariant{
	Name: "reactive-converges",
	Claim: "a pod that waits on attach error code 8 is Failed, reason VolumeAttachmentLimitExceeded, within 123 + 15 " +
		"s + slack + NodeGetInfo time, and CSINode was refreshed (kubelet 1.34+)",
	Source:   "pkg/kubelet/volumemanager/volume_manager.go podAttachAndMountTimeout; pkg/kubelet/kubelet.go; KEP-4876",
	Boundary: history.Kubelet,
	Needs:    []string{history.PrefixCSI, history.PrefixAPI + "pods", history.PrefixAPI + "volumeattachments", history.PrefixAPI + "csinodes"},
	New:      func(p Params) Checker { return newChecker(p, &converges{t: tally{}, open: map[[2]string]*wait{}}) },
}

const (
	// rejectWithin is the kubelet's wait for volumes (2 m 3 s) plus the time until it looks at the pod again.
	rejectWithin = 123*time.Second + 15*time.Second
	// limitExceeded is the reason of a pod that the kubelet failed.
	limitExceeded = "VolumeAttachmentLimitExceeded"
)

// wait is one stretch of time in which a bound pod waited for one volume under code 8.
type wait struct {
	id       model.ID
	pod, uid string
	scope    string
	// from is when both the binding and the code were seen; to is when either was seen gone, Forever while it lasts.
	from, to time.Duration
	rejected bool
	refs     []history.Ref
	// deadline is by when the pod is to be rejected, once it is fixed.
	deadline time.Duration
	fixed    bool
}

// converges follows pods and attachments as they change.
type converges struct {
	t    tally
	open map[[2]string]*wait // pod UID, attachment
	all  backlog[*wait]
}

func (r *converges) observe(m *model.Model, s *model.Step) {
	switch b := s.Body.(type) {
	case *history.Pod:
		if p := m.PodSeen(s.Key, b); p != nil {
			r.pod(m, s, p)
		}
	case *history.PVC:
		for _, p := range m.PodsOf(s.Key) {
			r.pod(m, s, p)
		}
	case *history.VolumeAttachment:
		for _, p := range m.PodsOn(b.NodeName, b.PVName) {
			r.pod(m, s, p)
		}
	}
}

// pod looks at every attachment of a pod again.
func (r *converges) pod(m *model.Model, s *model.Step, p *model.Pod) {
	for _, a := range m.AttachmentsOf(p) {
		uid := p.UID
		if uid == "" {
			uid = p.Name
		}
		key := [2]string{uid, a.Name}
		w := r.open[key]
		waits := p.NodeName != "" && (p.PodPhase == "" || p.PodPhase == "Pending") && p.Deleted == nil && !p.Gone &&
			!a.Gone && !a.Attached && a.AttachCode != nil && *a.AttachCode == codeResourceExhausted
		switch {
		case waits && w == nil:
			w = &wait{
				id: model.ID{Node: p.NodeName, Driver: a.Attacher}, pod: p.Name, uid: uid, scope: s.Scope,
				from: s.At, to: model.Forever, refs: []history.Ref{p.Ref, a.Ref},
			}
			r.open[key] = w
			r.all.push(w)
		case !waits && w != nil:
			w.to, w.rejected = s.At, p.PodPhase == "Failed" && p.Reason == limitExceeded
			w.refs = append(w.refs, s.Ref())
			delete(r.open, key)
		}
	}
}

// settle judges waits that have ended. One rejection ends all waits of a pod, so they are judged together.
func (r *converges) settle(m *model.Model, to time.Duration) time.Duration {
	cut := map[string]bool{} // pods that were rejected so shortly ago that the refresh may still come
	for _, w := range r.all.items {
		w.fix(m, to)
		if w.to <= to && w.rejected && !w.refreshed(m, to) {
			cut[w.uid] = true
		}
	}
	rejected := map[string][]*wait{} // by pod UID
	var order []string
	for _, w := range r.all.due(func(w *wait) bool { return to == model.Forever || w.fixed && w.to <= to && !cut[w.uid] }) {
		until := min(w.to, w.deadline)
		switch {
		case !m.Rejects(w.id.Node, w.from) || !m.PeriodThroughout(w.id.Driver, w.from, min(until, m.End())) || m.Disturbed(w.id.Node, w.from, until):
		case w.rejected && w.to <= w.deadline:
			if rejected[w.uid] == nil {
				order = append(order, w.uid)
			}
			rejected[w.uid] = append(rejected[w.uid], w)
		case w.to <= w.deadline || w.deadline > m.End(): // it ended otherwise, or the run did
		default:
			got := "it still waits at " + m.Since(m.End())
			if w.to < model.Forever {
				got = "it waited until " + m.Since(w.to)
			}
			r.t.late(m, r.t.pod(w.pod), w.from, w.deadline, finding{
				at: w.deadline, scope: w.scope, evidence: w.refs,
				detail: fmt.Sprintf("want the pod Failed (%s) within %s + %s after code 8 and binding were seen at %s, got %s",
					limitExceeded, rejectWithin, w.deadline-w.from-rejectWithin, m.Since(w.from), got),
			}, history.PrefixAPI+"pods", history.PrefixAPI+"volumeattachments")
		}
	}
	for _, uid := range order {
		judgeRefresh(m, r.t, rejected[uid])
	}
	return r.all.oldest(func(w *wait) time.Duration {
		if w.fixed && w.to > w.deadline {
			return model.Forever // what went on before does not matter any more
		}
		return model.Minus(w.from, m.Slack())
	})
}

func (r *converges) finish(m *model.Model) []Verdict { return r.t.verdicts(m, history.Kubelet) }

// fix sets the deadline once it is settled: calls that were sent by then have been answered, and so the slowest of them is known.
func (w *wait) fix(m *model.Model, to time.Duration) {
	if w.fixed {
		return
	}
	within := model.Plus(rejectWithin, m.Slack())
	w.deadline = model.Plus(w.from, within)
	for {
		next := model.Plus(w.from, model.Plus(within, m.Slowest(w.id, w.deadline)))
		if next <= w.deadline {
			break
		}
		w.deadline = next
	}
	w.fixed = to == model.Forever || min(w.to, w.deadline) <= to && !slices.ContainsFunc(m.Infos(w.id), func(c *model.Call) bool {
		return c.Invoked <= w.deadline && c.Over() > to
	})
}

// refreshed says whether all is settled that may have refreshed the count until the wait's end.
func (w *wait) refreshed(m *model.Model, to time.Duration) bool {
	until := model.Plus(w.to, m.Slack())
	return until <= to && !slices.ContainsFunc(m.Infos(w.id), func(c *model.Call) bool {
		return c.Invoked <= until && model.Plus(c.Over(), model.Plus(mirrorBound, m.Slack())) > to
	})
}

// judgeRefresh looks for the refresh before a rejection. A pod that waited for several drivers needs one of them refreshed.
func judgeRefresh(m *model.Model, t tally, waits []*wait) {
	w := waits[0]
	name := t.pod(w.pod)
	f := finding{at: w.to, scope: w.scope, evidence: slices.Clone(w.refs)}
	tried, cut := false, false
	var last *model.Call
	for _, w := range waits {
		for _, c := range m.Infos(w.id) {
			if c.Invoked < model.Minus(w.from, m.Slack()) || c.Invoked > model.Plus(w.to, m.Slack()) {
				continue
			}
			tried = true
			switch hard := model.Plus(c.Done, model.Plus(mirrorBound, m.Slack())); {
			case !c.OK():
			case !m.Mutable(c.Done) || shows(m, c, hard):
				t.held(name, w.scope)
				return
			case hard > m.End() || m.Disturbed(c.Node, c.Done, hard):
				cut = true
			default:
				last = c
			}
		}
	}
	switch {
	case cut:
	case last != nil:
		f.evidence = append(f.evidence, last.End)
		f.detail = fmt.Sprintf("want CSINode %q at the answer %d of %s within %s, got another count", last.Node, last.Max, m.Since(last.Done), mirrorBound+m.Slack())
		t.late(m, name, w.from, last.Done, f, history.PrefixAPI+"csinodes", history.PrefixCSI+w.id.Node)
	case tried:
		t.held(name, w.scope)
		t.note(name, "the kubelet asked, but the driver answered none of its calls with success")
	case model.Plus(w.to, m.Slack()) <= m.End():
		f.detail = fmt.Sprintf("want NodeGetInfo between %s and the rejection at %s, got none", m.Since(w.from), m.Since(w.to))
		t.missing(name, f, history.PrefixCSI+w.id.Node)
	}
}

// shows says whether the CSINode had the answer's count at some time from the answer to hard.
func shows(m *model.Model, c *model.Call, hard time.Duration) bool {
	revs := m.Revisions(c.Node)
	for _, r := range revs[max(0, m.After(c.Node, c.Done)-1):] {
		if r.At > hard {
			return false
		}
		if e, ok := r.Entry(c.Driver); ok && model.SameCount(e.Count, model.CountOf(c.Max)) {
			return true
		}
	}
	return false
}
