package invariants

import (
	"fmt"
	"net/http"

	"headroom/e2e/framework/history"
	"headroom/e2e/invariants/model"
)

var conditionalWrites = Invariant{
	Name: "conditional-writes",
	Claim: "every update of a CSINode by a node carries a resourceVersion, no node patches one, and an update changes the entry of one driver at most; " +
		"creating and deleting are exempt",
	Source:   "pkg/volume/csi/nodeinfomanager: GET, then UPDATE with the resourceVersion read",
	Boundary: history.Kubelet,
	Needs:    []string{history.SourceAudit},
	New:      func(p Params) Checker { return newChecker(p, &conditional{t: tally{}}) },
}

// conditional judges each write as it comes. A request that was turned away before its object was read (401, 403) says nothing of the object.
type conditional struct {
	t tally
	atOnce
}

func (c *conditional) observe(m *model.Model, s *model.Step) {
	w := s.Write
	if w == nil || !w.ByNode() {
		return
	}
	f := finding{at: w.At, scope: w.Scope, evidence: []history.Ref{w.Ref}}
	read := w.Phase == history.OK || w.Status == http.StatusUnprocessableEntity || w.Status == http.StatusConflict
	changes := w.Changes()
	switch {
	case w.Verb == "patch":
		f.detail = fmt.Sprintf("want CSINode %q updated by %q, got a patch at %s", w.Name, w.User, m.Since(w.At))
	case w.Verb != "update" || !read:
		return
	case w.RequestVersion == "":
		f.detail = fmt.Sprintf("want a resourceVersion in the update of CSINode %q by %q, got none at %s", w.Name, w.User, m.Since(w.At))
	case len(changes) > 1:
		f.detail = fmt.Sprintf("want the update of CSINode %q by %q to change one driver's entry, got those of %q and %q changed at %s",
			w.Name, w.User, changes[0].Driver, changes[1].Driver, m.Since(w.At))
	default:
		c.t.held(w.Name, w.Scope)
		return
	}
	c.t.violated(w.Name, f)
}

func (c *conditional) finish(m *model.Model) []Verdict { return c.t.verdicts(m, history.Kubelet) }
