package invariants

import (
	"slices"

	"headroom/e2e/framework/history"
	"headroom/e2e/invariants/model"
)

// shared is a tally for each boundary, of a claim that is on several.
type shared map[history.Boundary]tally

func (t shared) of(b history.Boundary) tally {
	if t[b] == nil {
		t[b] = tally{}
	}
	return t[b]
}

// verdicts joins them, in the order given. What held of a subject goes without saying where another boundary did not hold for the same subject.
func (t shared) verdicts(m *model.Model, order ...history.Boundary) []Verdict {
	var out []Verdict
	for _, b := range order {
		out = append(out, t[b].verdicts(m, b)...)
	}
	return slices.DeleteFunc(slices.Clone(out), func(v Verdict) bool {
		return v.Status == Held && slices.ContainsFunc(out, func(o Verdict) bool { return o.Status != Held && o.Status != "" && o.Subject == v.Subject })
	})
}
