package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"headroom/e2e/framework/history"
	"headroom/e2e/invariants"
)

// neverTested is the reason for an empty list of verdicts where the caller gives none.
const neverTested = "the history never put the claim to the test"

// row makes one row of the report. In a damaged history nothing is held: what is missing might have said otherwise.
func (b *builder) row(j Judged, damaged bool) InvariantResult {
	inv := j.Invariant
	row := InvariantResult{Name: inv.Name, Claim: inv.Claim, Source: inv.Source, Boundary: inv.Boundary}
	known, refusal := b.versions.known(inv)
	for _, k := range known {
		row.Known = append(row.Known, Known{Versions: k.Versions, Source: k.Source, Scenario: k.Scenario})
	}
	for _, v := range j.Verdicts {
		evidence := b.evidence.of(v)
		scope := b.scopes.verdict(v, evidence)
		out := Verdict{
			Status: Status(v.Status), Boundary: cmp.Or(v.Boundary, inv.Boundary), Subject: v.Subject, Scope: scope, Spec: b.specs.of(scope), Detail: v.Detail,
			Judged: v.Judged, Samples: v.Samples, Worst: Duration(v.Worst),
			Evidence: evidence, More: max(0, len(v.Evidence)-maxEvidence),
		}
		out.classify(inv, bearing(known, v), refusal, damaged)
		if out.Status == Violated && OfTheGate(inv.Name, b.quota, out.Boundary) {
			out.Status, out.Boundary = Inconclusive, history.Harness
			out.Detail = joinDetail("of the gate's limit, not the driver's", out.Detail)
		}
		row.Verdicts = append(row.Verdicts, out)
	}
	row.Status, row.Detail = aggregate(row.Verdicts)
	if row.Status == NotJudged {
		row.Detail = cmp.Or(j.Reason, neverTested)
		if damaged {
			row.Detail += ", as far as it can be read"
		}
	}
	return row
}

// classify replaces statuses that cannot be taken as they come.
func (v *Verdict) classify(inv invariants.Invariant, known []invariants.Known, refusal string, damaged bool) {
	switch v.Status {
	case Held:
		if damaged {
			v.Status = Inconclusive
			v.Detail = joinDetail(v.Detail, "held as far as the history can be read")
			return
		}
		for _, k := range known {
			if shows(k, v.Scope) || shows(k, v.Spec) {
				v.Status, v.Boundary = Violated, history.Harness
				v.Detail = fmt.Sprintf("want the known defect of %s (%s) to show in %q, got none: it is fixed; narrow the invariant's version range",
					inv.Boundary, k.Versions, k.Scenario)
			}
		}
	case Violated:
		switch {
		case v.Boundary != inv.Boundary: // a known defect of one component excuses no other
		case len(known) > 0:
			v.Status = KnownUpstream
		case refusal != "":
			v.Detail = joinDetail(v.Detail, refusal)
		}
	case Inconclusive:
	default:
		v.Detail = joinDetail(v.Detail, fmt.Sprintf("the checker answered status %q: want Held, Violated or Inconclusive", v.Status))
		v.Status, v.Boundary = Violated, history.Harness
	}
}

// bearing returns those of the known defects that a violation may be: one with a signature has to be named by the verdict.
func bearing(known []invariants.Known, v invariants.Verdict) []invariants.Known {
	if v.Status != invariants.Violated {
		return known
	}
	return slices.DeleteFunc(slices.Clone(known), func(k invariants.Known) bool { return k.Signed && k.Scenario != v.Defect })
}

// shows reports whether scope is the scenario that shows k. The scope of a spec has the name of its suite in front.
func shows(k invariants.Known, scope string) bool {
	return k.Scenario != "" && (scope == k.Scenario || strings.HasSuffix(scope, "/"+k.Scenario))
}

func joinDetail(detail, more string) string {
	if detail == "" || more == "" {
		return detail + more
	}
	return detail + "; " + more
}

// aggregate is the worst status of the verdicts and the first detail given with it.
func aggregate(verdicts []Verdict) (Status, string) {
	for _, s := range []Status{Violated, Inconclusive, Expected, KnownUpstream, Held} {
		if i := slices.IndexFunc(verdicts, func(v Verdict) bool { return v.Status == s }); i >= 0 {
			if s == Held {
				return s, joinDetail(figures(verdicts), verdicts[i].Detail)
			}
			return s, verdicts[i].Detail
		}
	}
	return NotJudged, ""
}

// figures sums up what all verdicts of a row rest on.
func figures(verdicts []Verdict) string {
	var judged, samples int
	var worst Duration
	for _, v := range verdicts {
		judged, samples, worst = judged+v.Judged, samples+v.Samples, max(worst, v.Worst)
	}
	text := ""
	if judged > 0 {
		text = Plural(judged, "time")
	}
	if samples > 0 {
		text = joinDetail(fmt.Sprintf("worst %s of %d", time.Duration(worst).Round(time.Millisecond), samples), text)
	}
	return text
}
