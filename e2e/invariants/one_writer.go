package invariants

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"headroom/e2e/framework/history"
	"headroom/e2e/invariants/model"
)

var oneWriter = Invariant{
	Name: "one-writer",
	Claim: "every revision of a CSINode that changes a count comes from system:node:<that node>; garbage collection, " +
		"writes that keep the counts, and writers that the run put there are exempt",
	Source:   "plugin/pkg/admission/noderestriction and the node authorizer; KEP-4876",
	Boundary: history.APIServer,
	Needs:    []string{history.SourceAudit},
	New: func(p Params) Checker {
		return newChecker(p, &writers{t: tally{}, unaudited: tally{}, declared: map[[2]string]bool{}, of: map[string]*written{}})
	},
}

// collectors are the users that garbage collection deletes as, with and without credentials of its own.
var collectors = []string{"system:serviceaccount:kube-system:generic-garbage-collector", "system:kube-controller-manager"}

type writers struct {
	t tally
	// unaudited are changes that nobody is known to have made: doubts once any write of the CSINode is in the audit log.
	unaudited tally
	// declared are those whom the run made write to which CSINode: user, name.
	declared map[[2]string]bool
	of       map[string]*written
}

// written is how far the writes of a CSINode have been judged.
type written struct {
	last    *model.Revision // the last one judged
	audited bool
	until   time.Duration // deletes up to here were
	begun   bool
}

func (w *writers) observe(_ *model.Model, s *model.Step) {
	if b, ok := s.Body.(*history.Workload); ok && b.Writer != "" && strings.HasPrefix(b.Resource, "csinode") {
		w.declared[[2]string{b.Writer, b.Name}] = true
	}
}

func (w *writers) settle(m *model.Model, to time.Duration) time.Duration {
	needs := model.Forever
	for _, name := range m.CSINodes() {
		x := w.of[name]
		if x == nil {
			x = &written{}
			w.of[name] = x
		}
		needs = min(needs, w.revisions(m, x, name, to))
		for _, r := range m.Removals(name) {
			if r.At <= to && (!x.begun || r.At > x.until) {
				w.removal(m, name, r)
			}
		}
		x.begun, x.until = true, to
	}
	return needs
}

func (w *writers) finish(m *model.Model) []Verdict {
	for name, s := range w.unaudited {
		if w.of[name].audited {
			w.t.join(name, s)
		}
	}
	return w.t.verdicts(m, history.APIServer)
}

// may says whether user may change counts of the CSINode.
func (w *writers) may(user, name string) bool {
	return user == "system:node:"+name || w.declared[[2]string{user, name}]
}

// writeTimeout is how long a write whose answer was lost may take.
const writeTimeout = time.Minute

// revisions compares each revision with the one before it, once the writes that may have made it are known. The first one known is compared with nothing,
// unless it was created there.
func (w *writers) revisions(m *model.Model, x *written, name string, to time.Duration) (needs time.Duration) {
	for _, r := range m.Revisions(name) {
		x.audited = x.audited || len(r.Claims) > 0
		switch {
		case x.last != nil && r.Rev <= x.last.Rev:
			continue
		case model.Plus(r.At, model.Plus(writeTimeout, m.Slack())) > to:
			return r.At
		}
		w.revision(m, x.last, r, name)
		x.last = r
	}
	return model.Forever
}

func (w *writers) revision(m *model.Model, prev, r *model.Revision, name string) {
	claims := slices.DeleteFunc(slices.Clone(r.Claims), func(c model.Claim) bool { return c.RequestVersion == strconv.FormatInt(r.Rev, 10) })
	created := slices.ContainsFunc(claims, func(c model.Claim) bool { return c.Verb == "create" })
	var old []history.CSINodeDriver
	switch {
	case r.Type == "DELETED" || prev == nil && !created:
		return
	case !created && prev.Type != "DELETED":
		old = prev.Drivers
	}
	change := changed(old, r.Drivers)
	if change == "" {
		return
	}
	f := finding{at: r.At, scope: r.Scope, evidence: []history.Ref{r.Ref}}
	if prev != nil {
		f.evidence = append(f.evidence, prev.Ref)
	}
	switch {
	case len(claims) > 0:
		w.judge(m, name, r, claims, change, f)
	case !slices.ContainsFunc(m.Unsure(name), func(c model.Claim) bool { return w.may(c.User, name) && near(m, c.At, r.At) }):
		f.detail = fmt.Sprintf("want to know who wrote revision %d (%s), found no audited write at %s", r.Rev, change, m.Since(r.At))
		w.unaudited.doubt(name, f)
	}
}

// near says whether a write whose answer was lost at a may be the one that the watch showed at b: it may have taken effect before its answer was
// given up, or up to a request's time-out later.
func near(m *model.Model, a, b time.Duration) bool {
	return a <= model.Plus(b, model.Plus(writeTimeout, m.Slack())) && b <= model.Plus(a, model.Plus(writeTimeout, m.Slack()))
}

// judge attributes a change. Among several writes answered with one revision only one made it; where the node is among them, it did.
func (w *writers) judge(m *model.Model, name string, r *model.Revision, claims []model.Claim, change string, f finding) {
	if slices.ContainsFunc(claims, func(c model.Claim) bool { return w.may(c.User, name) }) {
		w.t.held(name, r.Scope)
		return
	}
	c := claims[0]
	f.at, f.scope, f.evidence[0] = c.At, c.Scope, c.Ref
	f.detail = fmt.Sprintf("want counts of CSINode %q changed by %q only, got %s by %q (%s) in revision %d at %s",
		name, "system:node:"+name, change, c.User, c.Verb, r.Rev, m.Since(c.At))
	w.t.missing(name, f, history.SourceAudit)
}

// removal judges a delete, which takes all counts away.
func (w *writers) removal(m *model.Model, name string, r model.Removal) {
	if w.may(r.User, name) || slices.Contains(collectors, r.User) {
		return
	}
	f := finding{at: r.At, scope: r.Scope, evidence: []history.Ref{r.Ref}}
	for _, rev := range slices.Backward(m.Revisions(name)[:m.After(name, r.At)]) {
		if rev.Type == "DELETED" {
			continue
		}
		if len(rev.Drivers) == 0 {
			return
		}
		f.evidence = append(f.evidence, rev.Ref)
		break
	}
	f.detail = fmt.Sprintf("want CSINode %q deleted by garbage collection or %q only, got a delete by %q at %s", name, "system:node:"+name, r.User, m.Since(r.At))
	w.t.violated(name, f)
}

// changed names the first entry whose count differs between two states, or that is in one of them only; "" when none is.
func changed(before, after []history.CSINodeDriver) string {
	for _, d := range after {
		i := slices.IndexFunc(before, func(b history.CSINodeDriver) bool { return b.Name == d.Name })
		switch {
		case i < 0:
			return fmt.Sprintf("%s added with count %s", d.Name, count(d.Count))
		case !model.SameCount(before[i].Count, d.Count):
			return fmt.Sprintf("count of %s from %s to %s", d.Name, count(before[i].Count), count(d.Count))
		}
	}
	for _, d := range before {
		if !slices.ContainsFunc(after, func(a history.CSINodeDriver) bool { return a.Name == d.Name }) {
			return fmt.Sprintf("%s removed", d.Name)
		}
	}
	return ""
}
