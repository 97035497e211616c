package report

import (
	"headroom/e2e/framework/history"
	"headroom/e2e/framework/versions"
)

// rulesOf says what the versions in a header do.
func rulesOf(h history.Header) []Rule {
	var all []Rule
	for _, a := range versions.Embedded().Rules(h.Versions) {
		all = append(all, Rule{Feature: a.Name, Boundary: boundaryOf(a.Component), Works: a.Works, Text: a.Text()})
	}
	return all
}

// boundaryOf is the boundary whose component a kind is.
func boundaryOf(kind string) history.Boundary {
	for boundary, k := range kinds {
		if k == kind {
			return boundary
		}
	}
	return ""
}

// rules prints what the versions that ran do not do: what is wrong with them, and why requirements did not apply.
func (t *table) rules(r Report) {
	some := false
	for _, rule := range r.Rules {
		if !rule.Works {
			some = true
			t.paragraph("", string(rule.Boundary)+": "+oneLine(rule.Text))
		}
	}
	if some {
		t.line("")
	}
}
