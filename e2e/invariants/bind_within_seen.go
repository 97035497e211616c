package invariants

import (
	"fmt"
	"slices"
	"time"

	"headroom/e2e/framework/history"
	"headroom/e2e/invariants/model"
)

var bindWithinSeen = Invariant{
	Name: "bind-within-seen",
	Claim: "when the scheduler binds a pod, the volumes in use on the node and the pod's own are at most the highest count that it can have seen, " +
		"both over the time from slack before its last decision, or the pod's creation, to the bind; an absent count is unlimited, a shared handle is one volume",
	Source:   "pkg/scheduler/framework/plugins/nodevolumelimits/csi.go Filter",
	Boundary: history.Scheduler,
	Needs:    placementNeeds,
	New: func(p Params) Checker {
		return newChecker(p, &binds{waiting: map[string]decided{}, t: tally{}})
	},
}

// bind is one pod's being bound by the scheduler.
type bind struct {
	pod   *model.Pod
	at    model.Stamp
	scope string
	// since is when the last decision before it was seen.
	since time.Duration
}

// decided is when the last decision on a pod that waits was seen: its creation, and each new reason.
type decided struct {
	at   time.Duration
	said string
}

// binds judges each bind once every watch must have shown what came before it.
type binds struct {
	waiting map[string]decided // by UID
	open    []bind
	t       tally
	atOnce
}

func (r *binds) observe(m *model.Model, s *model.Step) {
	for len(r.open) > 0 && s.At > model.Plus(r.open[0].at.At, m.Slack()) {
		r.judge(m, r.open[0])
		r.open = r.open[1:]
	}
	b, ok := s.Body.(*history.Pod)
	if !ok || b.Scheduler != "" && b.Scheduler != "default-scheduler" {
		return
	}
	last, waited := r.waiting[b.UID]
	switch {
	case b.NodeName != "" && waited && b.Type != "DELETED":
		r.open = append(r.open, bind{m.PodSeen(s.Key, b), model.Stamp{At: s.At, Rev: s.Rev, Ref: s.Ref()}, s.Scope, last.at})
		delete(r.waiting, b.UID)
	case b.NodeName != "" || b.Type == "DELETED":
		delete(r.waiting, b.UID) // who makes a pod with a node in it goes round the scheduler
	case b.UID != "" && len(b.Claims) > 0 && (!waited || b.Unschedulable != last.said):
		r.waiting[b.UID] = decided{s.At, b.Unschedulable}
	}
}

func (r *binds) finish(m *model.Model) []Verdict {
	for _, b := range r.open {
		r.judge(m, b)
	}
	r.open = nil
	return r.t.verdicts(m, history.Scheduler)
}

// judge compares what was in use throughout with the highest count of the same time, for each driver of the pod's volumes.
func (r *binds) judge(m *model.Model, b bind) {
	own := map[string]map[model.VolumeID]bool{}
	for _, claim := range b.pod.Claims {
		v, ok := m.Volume(&model.Use{Claim: b.pod.Namespace + "/" + claim})
		if !ok {
			continue
		}
		if own[v.Driver] == nil {
			own[v.Driver] = map[model.VolumeID]bool{}
		}
		own[v.Driver][v] = true
	}
	from := model.Minus(b.since, m.Slack())
	for driver, volumes := range own {
		id := model.ID{Node: b.pod.NodeName, Driver: driver}
		highest, ok := highestCount(m.Limits(id), from, b.at)
		if !ok || undecided(m, from, b.at.At) {
			continue
		}
		all := m.InUseThroughout(id, from, b.at)
		before := len(all)
		for v := range volumes {
			all[v] = true
		}
		if len(all) <= int(*highest.Count) {
			r.t.held(id.String(), b.scope)
			continue
		}
		r.t.late(m, id.String(), from, b.at.At, finding{
			at: b.at.At, scope: b.scope, evidence: []history.Ref{b.at.Ref, highest.Ref},
			detail: fmt.Sprintf("want at most %d volumes on %q, the highest count from %s on, got %d in use and %d new when pod %q was bound at %s",
				*highest.Count, id.Node, m.Since(from), before, len(all)-before, b.pod.Name, m.Since(b.at.At)),
		}, placementNeeds...)
	}
}

// highestCount is the highest count in force at some time from from to the moment end; false where none is known to have been, or one was absent.
func highestCount(line []model.Limit, from time.Duration, end model.Stamp) (best model.Limit, ok bool) {
	for i, l := range slices.Backward(line) {
		if l.Before(end) {
			if l.Count == nil || i == 0 && l.At > from {
				return model.Limit{}, false
			}
			if !ok || *l.Count > *best.Count {
				best, ok = l, true
			}
		}
		if l.At <= from {
			break // it held when the window began: those before it did not
		}
	}
	return best, ok
}
