package invariants

import (
	"fmt"
	"slices"
	"sort"
	"time"

	"headroom/e2e/framework/history"
	"headroom/e2e/invariants/model"
)

var classIsHonest = Invariant{
	Name: "class-is-honest",
	Claim: "ControllerPublishVolume codes: volume or node missing 5, full 8, published elsewhere 9, incompatible capability 6, bad field 3, forbidden 7, bad secrets 16; " +
		"never 8 for anything but full, throttling included; unreachable or throttled should be 14, own deadline 4, wrong topology 3 or 9",
	Source:   "CSI spec ControllerPublishVolume errors; pkg/volume/util/attachment: code 8 refreshes and rejects",
	Boundary: history.Driver,
	Attaches: true,
	Needs:    []string{history.PrefixCSI + "controller/", history.SourceBackend},
	New:      func(p Params) Checker { return newChecker(p, &honest{t: tally{}}) },
}

// gRPC codes, named as in google.golang.org/grpc/codes.
const (
	codeCanceled          = 1
	codeInvalidArgument   = 3
	codeDeadlineExceeded  = 4
	codeResourceExhausted = 8
	codePrecondition      = 9
	codeUnavailable       = 14
)

// mustBe is the code that a refusal of the backend has to be answered with.
var mustBe = map[string]uint32{
	history.ReasonNoSuchVolume: 5, history.ReasonNoSuchNode: 5, history.ReasonFull: codeResourceExhausted, history.ReasonAttachedElsewhere: codePrecondition,
	history.ReasonIncompatible: 6, history.ReasonBadRequest: codeInvalidArgument, history.ReasonForbidden: 7, history.ReasonUnauthenticated: 16,
}

// attacherTimeout is the external-attacher's default --timeout: a code 4 after that long is the caller's deadline, not the driver's.
const attacherTimeout = 15 * time.Second

type honest struct {
	t    tally
	open doneCalls
}

func (r *honest) observe(_ *model.Model, s *model.Step) {
	r.open.observe(s, model.Publish, history.DriverSide)
}

// settle judges the calls that failed once the decisions that go with them have come.
func (r *honest) settle(m *model.Model, to time.Duration) time.Duration {
	for _, c := range r.open.backlog.due(func(c *model.Call) bool { return model.Plus(c.Done, m.Slack()) <= to }) {
		long := c.Code == codeDeadlineExceeded && model.Minus(c.Done, c.Invoked) >= attacherTimeout-m.Slack()
		// A connection that broke is no word of the driver's.
		broken := c.Answered == history.Unknown && c.Code != codeDeadlineExceeded
		if c.Failed() && c.Code != 0 && c.Code != codeCanceled && !long && !broken && !c.Orphan {
			judgeClass(m, r.t, c, overlapped(m, c))
		}
	}
	return r.open.needs()
}

// overlapped says whether another publish of the volume on the node ran meanwhile.
func overlapped(m *model.Model, c *model.Call) bool {
	return slices.ContainsFunc(m.Publishes(c.Volume), func(o *model.Call) bool {
		return o != c && o.ID == c.ID && o.Invoked <= c.Done && o.Over() >= c.Invoked
	})
}

func (r *honest) finish(m *model.Model) []Verdict { return r.t.verdicts(m, history.Driver) }

// decisions are what the backend said during one call.
type decisions struct {
	asked int
	// last is the last that names a class; codes are the classes named by any.
	last  *model.Attach
	codes []uint32
	// open says that a later request got no answer that names a class, or one so late that the driver may not have seen it.
	open bool
	// throttled says that some request was refused by rate.
	throttled bool
	refs      []history.Ref
}

// during joins the attach requests that arrived during the call, by arrival.
func during(m *model.Model, c *model.Call, node string) decisions {
	var d decisions
	all := m.Attaches(model.Place{Node: node, Volume: c.Volume})
	for _, a := range all[sort.Search(len(all), func(i int) bool { return all[i].Invoked >= c.Invoked }):] {
		if a.Invoked > c.Done {
			break
		}
		d.asked++
		d.refs = append(d.refs, a.Ref)
		tooLate := a.Done > model.Plus(c.Done, m.Slack())
		if !a.Told() || tooLate {
			d.open = true
			continue
		}
		code, named := mustBe[a.Answer.Reason]
		d.throttled = d.throttled || a.Answer.Reason == history.ReasonThrottled
		if named {
			d.codes = append(d.codes, code)
		}
		if named || a.Answer.Decision == history.Accepted || a.Answer.Reason == history.ReasonWrongZone {
			d.last, d.open = a, a.Done > c.Done
			continue
		}
		d.open = true
	}
	return d
}

// judgeClass judges one failed publish. overlap says that another publish of the volume on the node ran meanwhile, so that a decision may be the other's.
func judgeClass(m *model.Model, t tally, c *model.Call, overlap bool) {
	name := c.ID.String()
	node, ok := m.BackendNode(c.Node, c.NodeID, c.Done)
	if !ok {
		node = c.NodeID // a node that the backend never knew is asked for by the id in the request
	}
	d := during(m, c, node)
	f := finding{at: c.Done, scope: c.Scope, evidence: append(d.refs, c.Start, c.End)}
	got := fmt.Sprintf("got %d for volume %q on %q at %s: %s", c.Code, c.Volume, c.Node, m.Since(c.Done), c.Message)
	exhausted := c.Code == codeResourceExhausted
	broke := func(want string) {
		f.detail = "want " + want + ", " + got
		t.missing(name, f, history.SourceBackend)
	}
	switch {
	case d.asked == 0 && ok && m.Outage(node, "attach", c.Invoked, c.Done):
		if exhausted {
			broke("code 14 or 4, because the backend did not decide")
			return
		}
		t.held(name, c.Scope)
		advise(t, name, c, got, codeUnavailable, codeDeadlineExceeded, codeInvalidArgument)
	case d.asked == 0 && exhausted:
		if ok && wasFull(m, node, c) {
			t.held(name, c.Scope)
			return
		}
		f.detail = "want a decision of the backend to join code 8 to, found none; " + got
		t.doubt(name, f)
	case d.asked == 0: // validation, or the driver's own reasons
	case exhausted && !slices.Contains(d.codes, codeResourceExhausted):
		broke(fmt.Sprintf("a code other than 8, because the backend said %s and not %q", said(d.last), history.ReasonFull))
	case d.last == nil:
		t.held(name, c.Scope)
		if d.throttled {
			advise(t, name, c, got, codeUnavailable)
		} else {
			advise(t, name, c, got, codeUnavailable, codeDeadlineExceeded)
		}
	case d.last.Answer.Decision == history.Accepted: // the publish failed for another reason
	case d.last.Answer.Reason == history.ReasonWrongZone:
		t.held(name, c.Scope)
		advise(t, name, c, got, codeInvalidArgument, codePrecondition)
	case c.Code == mustBe[d.last.Answer.Reason]:
		t.held(name, c.Scope)
	case (overlap || d.open) && (slices.Contains(d.codes, c.Code) || c.Code == codeUnavailable || c.Code == codeDeadlineExceeded):
		t.held(name, c.Scope)
	case overlap:
		f.detail = fmt.Sprintf("want code %d for %s, but another publish of the volume ran meanwhile; %s", mustBe[d.last.Answer.Reason], said(d.last), got)
		t.doubt(name, f)
	default:
		broke(fmt.Sprintf("code %d for %s", mustBe[d.last.Answer.Reason], said(d.last)))
	}
}

// said names what the backend answered.
func said(a *model.Attach) string {
	switch {
	case a == nil:
		return "nothing that decides"
	case a.Answer.Decision == history.Accepted:
		return history.Accepted
	}
	return fmt.Sprintf("%q", a.Answer.Reason)
}

// advise notes a code that should have been another one. The specification leaves it open, so it breaks nothing.
func advise(t tally, name string, c *model.Call, got string, should ...uint32) {
	if !slices.Contains(should, c.Code) {
		t.note(name, fmt.Sprintf("advice: should be one of %v, %s", should, got))
	}
}

// wasFull says whether the node had no room at some time of the call, by the last counts that the backend told.
func wasFull(m *model.Model, node string, c *model.Call) bool {
	for _, p := range m.Quota(node).Over(model.Minus(c.Invoked, m.Slack()), c.Done) {
		if p.Value != nil && p.Value.Attached+p.Value.Foreign >= p.Value.Limit {
			return true
		}
	}
	return false
}
