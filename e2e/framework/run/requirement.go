package run

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"headroom/e2e/framework/history"
	"headroom/e2e/framework/versions"
)

// Requirement is one thing that a driver or Kubernetes must do, with the spec that puts it to the test.
type Requirement struct {
	// ID is stable: "count-drop". Reports, --focus and personas use it.
	ID string
	// Claim is the requirement in one sentence, for people.
	Claim string
	// Source is the document or code that it comes from.
	Source string
	// Boundary is the part that broke when the spec fails, unless the failure says otherwise.
	Boundary history.Boundary
	// Labels are for --label-filter.
	Labels []string
	// Setup is the bench that the spec runs on.
	Setup Setup
	// Needs are features of kind-configs/versions.yaml without which the requirement does not apply.
	Needs []string
	// Lacks are features of which one must be missing: the requirement says what holds instead, where a version or a gate does not have them all.
	Lacks []string
	// Unless says why the requirement does not apply to a run for another reason, "" where it does; nil means that there is none.
	Unless func(history.Header) string
	// Limit bounds the spec, the bench's making included.
	Limit time.Duration
	// Test runs the spec. It fails through Bench.Check or gomega, and may return early when ctx ends.
	Test func(ctx context.Context, b *Bench)
}

// Inapplicable says why the requirement does not apply to a run, "" where it does.
func (r Requirement) Inapplicable(h history.Header) string {
	for _, name := range r.Needs {
		if a := versions.Embedded().Works(name, h.Versions); !a.Works {
			return a.Text()
		}
	}
	if why := r.Contrary(h.Versions); why != "" {
		return why
	}
	if why := r.Setup.inapplicable(h.Params.Driver); why != "" {
		return why
	}
	if r.Unless != nil {
		return r.Unless(h)
	}
	return ""
}

// inapplicable says what the driver's definition does not give that the bench needs, "" where nothing is missing.
func (s Setup) inapplicable(d history.DriverParams) string {
	chosen := slices.ContainsFunc(s.Nodes, func(n Node) bool { return !n.AnyLimit })
	switch {
	case s.Releases && !d.Releases:
		return "the definition has no ${RELEASE}: the driver has one release only"
	case s.Changes && d.Limit == history.LimitStart:
		return "limit: fixed: the driver's limit does not change while it runs"
	case (s.Changes || chosen) && !d.Limited():
		return "limit: " + d.Limit + ": the specs of a cluster do not choose the driver's limit; a limit: fixed that is given as ${LIMIT}, or limit: gate, lets them"
	}
	return ""
}

// Contrary says why a requirement on versions that lack something does not apply to those that ran, "" where it does or is no such requirement: they
// have it all.
func (r Requirement) Contrary(ran map[string]string) string {
	var has []string
	for _, name := range r.Lacks {
		a := versions.Embedded().Works(name, ran)
		if !a.Works {
			return ""
		}
		has = append(has, a.Text())
	}
	return strings.Join(has, ", ")
}

// Labels of requirements.
const (
	// LabelSlow marks specs that wait for a rejection, which takes the kubelet 123 s.
	LabelSlow = "slow"
	// LabelLong marks specs that take many minutes or many nodes; they run only where they are asked for.
	LabelLong = "long"
	// LabelSmoke marks the few specs that show that everything is connected.
	LabelSmoke = "smoke"
)

// DefaultLimit bounds a spec that does not say otherwise.
const DefaultLimit = 4 * time.Minute

var requirements []Requirement

// Register adds a requirement; it is for init functions. It panics on what would only be found in a run.
func Register(r Requirement) {
	switch {
	case r.ID == "" || r.Claim == "" || r.Source == "" || r.Boundary == "" || r.Test == nil:
		panic(fmt.Sprintf("requirement %q: want ID, Claim, Source, Boundary and Test", r.ID))
	case slices.ContainsFunc(slices.Concat(r.Needs, r.Lacks), func(name string) bool { _, known := versions.Embedded().Feature(name); return !known }):
		panic(fmt.Sprintf("requirement %q: Needs %q, Lacks %q: want features of kind-configs/versions.yaml", r.ID, r.Needs, r.Lacks))
	case slices.ContainsFunc(requirements, func(o Requirement) bool { return o.ID == r.ID }):
		panic(fmt.Sprintf("requirement %q is registered twice", r.ID))
	}
	if r.Limit == 0 {
		r.Limit = DefaultLimit
	}
	requirements = append(requirements, r)
}

// Requirements lists what is registered: those that take longest first, so that parallel processes end together.
func Requirements() []Requirement {
	all := slices.Clone(requirements)
	slices.SortStableFunc(all, func(a, b Requirement) int {
		slow := func(r Requirement) int {
			if slices.Contains(r.Labels, LabelSlow) {
				return 0
			}
			return 1
		}
		if d := slow(a) - slow(b); d != 0 {
			return d
		}
		return strings.Compare(a.ID, b.ID)
	})
	return all
}
