package personatest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"headroom/e2e/framework/report"
)

// matrix shows which driver broke which invariant.
type matrix struct {
	mu   sync.Mutex
	rows []matrixRow
}

type matrixRow struct {
	expectation
	cells map[string]rune // by invariant
	specs []string        // that were violated
}

// add takes in a run.
func (m *matrix) add(want expectation, r report.Report) {
	row := matrixRow{expectation: want, cells: map[string]rune{}}
	for _, i := range r.Invariants {
		row.cells[i.Name] = want.cell(i.Name, i.Status)
	}
	for _, q := range r.Requirements {
		if q.Status == report.Violated {
			row.specs = append(row.specs, q.ID)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rows = append(m.rows, row)
}

// cell is one invariant's letter in a row.
func (e expectation) cell(name string, s report.Status) rune {
	switch {
	case s == report.Violated && name == e.root:
		return 'R'
	case name == e.root:
		return '-'
	case s == report.Violated && slices.Contains(e.mayAlso, name):
		return 'a'
	case s == report.Violated:
		return 'X'
	case s == report.Held:
		return '.'
	case s == report.Inconclusive:
		return '?'
	}
	return ' '
}

// String renders the matrix with a column for each invariant that any row judged, numbered, and a legend.
func (m *matrix) String() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	slices.SortFunc(m.rows, func(a, b matrixRow) int { return strings.Compare(a.driver, b.driver) })
	var names []string
	for _, r := range m.rows {
		for name, cell := range r.cells {
			if cell != ' ' && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	var out strings.Builder
	fmt.Fprintf(&out, "%-30s", "DRIVER")
	for i := range names {
		fmt.Fprintf(&out, "%3d", i+1)
	}
	out.WriteString("  SPECS VIOLATED\n")
	for _, r := range m.rows {
		fmt.Fprintf(&out, "%-30s", r.driver)
		for _, name := range names {
			cell, judged := r.cells[name]
			if !judged {
				cell = ' '
			}
			fmt.Fprintf(&out, "%3c", cell)
		}
		fmt.Fprintf(&out, "  %s\n", strings.Join(r.specs, " "))
	}
	out.WriteString("R the mistake's own invariant, caught; - not caught; a broke with it, as declared; X a false alarm; . held; ? inconclusive\n")
	for i, name := range names {
		fmt.Fprintf(&out, "%3d %s\n", i+1, name)
	}
	return out.String()
}

func TestMatrix(t *testing.T) {
	run := func(specs map[string]report.Status, invariants map[string]report.Status) (r report.Report) {
		for id, s := range specs {
			r.Requirements = append(r.Requirements, report.Requirement{ID: id, Status: s})
		}
		for name, s := range invariants {
			r.Invariants = append(r.Invariants, report.InvariantResult{Name: name, Status: s})
		}
		return r
	}
	var m matrix
	m.add(expectation{driver: "steady"}, run(nil, map[string]report.Status{"root": report.Held, "also": report.Inconclusive, "never": report.NotJudged}))
	m.add(expectation{driver: "missed", root: "root"}, run(nil, map[string]report.Status{"root": report.Held, "also": report.Violated}))
	m.add(expectation{driver: "caught", root: "root", mayAlso: []string{"also"}},
		run(map[string]report.Status{"count-drop": report.Violated, "count-raise": report.Held}, map[string]report.Status{"root": report.Violated, "also": report.Violated}))
	want := []string{
		"DRIVER                          1  2  SPECS VIOLATED",
		"caught                          a  R  count-drop",
		"missed                          X  -  ",
		"steady                          ?  .  ",
	}
	got := m.String()
	if !strings.HasPrefix(got, strings.Join(want, "\n")+"\n") || !strings.HasSuffix(got, "  1 also\n  2 root\n") {
		t.Errorf("want the matrix to begin\n%s\ngot\n%s", strings.Join(want, "\n"), got)
	}
}
