package invariants

import (
	"fmt"
	"time"

	"headroom/e2e/framework/history"
	"headroom/e2e/invariants/model"
)

// queryBudget judges the questions of each holder apart, because an instance cannot know of another one's, and a node with one driver only, because
// two drivers may call themselves alike. A driver that declares no minimum interval is not judged.
var queryBudget = Invariant{
	Name:     "query-budget",
	Claim:    "in every window, an instance of the driver asks the backend about its node at most (window + slack) / declared minimum interval + 1 times",
	Source:   "the driver's declared minimum interval; clouds throttle whole accounts by rate",
	Boundary: history.Driver,
	Needs:    []string{history.PrefixCSI, history.SourceBackend},
	New: func(p Params) Checker {
		return newChecker(p, &askBudget{of: map[string]map[string]*asking{}, t: tally{}})
	},
}

type askBudget struct {
	of map[string]map[string]*asking // by node and holder
	// t is by the backend's name of the node: which drivers ask about it, the end tells.
	t    tally
	over backlog[window]
}

// query is one question about a node.
type query struct {
	at  time.Duration
	ref history.Ref
}

// asking is how a holder has asked about a node so far. Between the i-th and the j-th question, j-i intervals must have gone by; so i*interval - its
// time, at the lowest so far, tells the worst window that ends at j.
type asking struct {
	n     int // questions
	first query
	index int // of first
	bad   bool
}

// window is one with too many questions.
type window struct {
	node, holder string
	from, to     query
	n            int
}

func (r *askBudget) observe(m *model.Model, s *model.Step) {
	b, ok := s.Body.(*history.Backend)
	interval := time.Duration(m.Header().Params.Driver.MinInterval)
	if !ok || s.Key != "get" && s.Key != "list" || s.Phase != history.Invoke || interval <= 0 {
		return
	}
	if r.of[s.Node] == nil {
		r.of[s.Node] = map[string]*asking{}
	}
	now := query{s.At, s.Ref()}
	x := r.of[s.Node][b.Holder]
	if x == nil {
		x = &asking{first: now}
		r.of[s.Node][b.Holder] = x
	}
	ahead := time.Duration(x.n-x.index)*interval - (now.at - x.first.at)
	if ahead > m.Slack() {
		x.bad = true
		r.over.push(window{s.Node, b.Holder, x.first, now, x.n - x.index + 1})
	}
	if ahead > m.Slack() || ahead < 0 {
		x.first, x.index = now, x.n // what follows is another window
	}
	x.n++
}

func (r *askBudget) settle(m *model.Model, to time.Duration) time.Duration {
	for _, w := range r.over.due(func(w window) bool { return w.to.at <= to }) {
		r.judge(m, w)
	}
	return model.Forever
}

// judge reports a window with too many questions. A backend that stood still takes in at once what was asked over a while.
func (r *askBudget) judge(m *model.Model, w window) {
	interval := time.Duration(m.Header().Params.Driver.MinInterval)
	took := w.to.at - w.from.at
	f := finding{at: w.to.at, evidence: []history.Ref{w.from.ref, w.to.ref}, detail: fmt.Sprintf(
		"want at most %d queries in %s, one in %s and one more, got %d by %q from %s to %s",
		int64((took+m.Slack())/interval)+1, took.Round(time.Millisecond), interval, w.n, w.holder, m.Since(w.from.at), m.Since(w.to.at))}
	if m.Down("backend", w.from.at, w.to.at) || m.Down("quota-backend", w.from.at, w.to.at) {
		f.detail += "; but the backend was stopped meanwhile"
		r.t.doubt(w.node, f)
		return
	}
	r.t.late(m, w.node, w.from.at, w.to.at, f)
}

func (r *askBudget) finish(m *model.Model) []Verdict {
	out := tally{}
	owners := m.Owners()
	for node, holders := range r.of {
		if len(owners[node]) != 1 {
			continue
		}
		for _, x := range holders {
			if !x.bad && x.n > 1 {
				r.t.held(node, "")
			}
		}
		if s := r.t[node]; s != nil {
			out.join(owners[node][0].String(), s)
		}
	}
	return out.verdicts(m, history.Driver)
}
