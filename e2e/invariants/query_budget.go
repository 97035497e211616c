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
	New:      func(p Params) Checker { return newChecker(p, askBudget{}) },
}

type askBudget struct{ atEnd }

func (askBudget) finish(m *model.Model) []Verdict {
	t := tally{}
	interval := time.Duration(m.Header().Params.Driver.MinInterval)
	if interval <= 0 {
		return nil
	}
	owners := m.Owners()
	for _, node := range m.Queried() {
		if len(owners[node]) != 1 {
			continue
		}
		byHolder := map[string][]model.Query{}
		for _, q := range m.Queries(node) {
			byHolder[q.Holder] = append(byHolder[q.Holder], q)
		}
		for _, queries := range byHolder {
			judgeBudget(m, t, owners[node][0].String(), interval, queries)
		}
	}
	return t.verdicts(history.Driver)
}

// judgeBudget looks for the window that is fullest. Between the i-th and the j-th question, j-i intervals must have gone by; so i*interval - its
// time, at the lowest so far, tells the worst window that ends at j.
func judgeBudget(m *model.Model, t tally, name string, interval time.Duration, queries []model.Query) {
	owed := func(i int) time.Duration { return time.Duration(i)*interval - queries[i].Invoked }
	first, bad := 0, false
	for j := range queries {
		if owed(j)-owed(first) > m.Slack() {
			bad = true
			judgeWindow(m, t, name, interval, queries[first:j+1])
			first = j // what follows is another window
		}
		if owed(j) < owed(first) {
			first = j
		}
	}
	if !bad && len(queries) > 1 {
		t.held(name, "")
	}
}

// judgeWindow reports a window with too many questions. A backend that stood still takes in at once what was asked over a while.
func judgeWindow(m *model.Model, t tally, name string, interval time.Duration, window []model.Query) {
	from, to := window[0], window[len(window)-1]
	took := to.Invoked - from.Invoked
	f := finding{at: to.Invoked, evidence: []history.Ref{from.Ref, to.Ref}, detail: fmt.Sprintf(
		"want at most %d queries in %s, one in %s and one more, got %d by %q from %s to %s",
		int64((took+m.Slack())/interval)+1, took.Round(time.Millisecond), interval, len(window), to.Holder, m.Since(from.Invoked), m.Since(to.Invoked))}
	if m.Down("backend", from.Invoked, to.Invoked) || m.Down("quota-backend", from.Invoked, to.Invoked) {
		f.detail += "; but the backend was stopped meanwhile"
		t.doubt(name, f)
		return
	}
	t.late(m, name, from.Invoked, to.Invoked, f)
}
