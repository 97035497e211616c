package report

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// Row is one verdict of a report of any kind, as far as reports can be compared.
type Row struct {
	// Kind is what ID names: "requirement", "invariant", "profile", "feature" or "check".
	Kind   string `json:"kind" yaml:"kind"`
	ID     string `json:"id" yaml:"id"`
	Status Status `json:"status" yaml:"status"`
	Detail string `json:"detail,omitempty" yaml:"detail,omitempty"`
}

// Comparable is what two reports are compared by.
type Comparable struct {
	// Facts are what ran: the driver, the provider, versions of components.
	Facts map[string]string
	Rows  []Row
}

// Comparable is the report's part in a comparison.
func (r Report) Comparable() Comparable {
	c := Comparable{Facts: map[string]string{"driver": r.Driver, "provider": r.Provider, "topology": r.Topology}}
	for kind, version := range r.Versions {
		c.Facts[kind] = version
	}
	if r.Conformance != nil {
		c.Facts["driver version"], c.Facts["quota"] = r.Conformance.Version, r.Conformance.Quota
		for _, p := range r.Conformance.Profiles {
			c.Rows = append(c.Rows, Row{Kind: "profile", ID: p.Name + " core", Status: Status(p.Core.Result), Detail: p.Core.words()})
			if p.Extended != nil {
				c.Rows = append(c.Rows, Row{Kind: "profile", ID: p.Name + " extended", Status: Status(p.Extended.Result), Detail: p.Extended.words()})
			}
			for _, f := range p.SupportedFeatures {
				c.Rows = append(c.Rows, Row{Kind: "feature", ID: f, Status: Held, Detail: "put to the test"})
			}
			for _, f := range p.UnsupportedFeatures {
				c.Rows = append(c.Rows, Row{Kind: "feature", ID: f, Status: Skipped, Detail: "not put to the test"})
			}
		}
	}
	for _, q := range r.Requirements {
		c.Rows = append(c.Rows, Row{Kind: "requirement", ID: q.ID, Status: q.Status, Detail: q.Message})
	}
	for _, i := range r.Invariants {
		c.Rows = append(c.Rows, Row{Kind: "invariant", ID: i.Name, Status: i.Status, Detail: i.Detail})
	}
	return c
}

// Change is a row whose status differs between two reports; a status of "" says that the row is in the other one only.
type Change struct {
	Kind string `json:"kind" yaml:"kind"`
	ID   string `json:"id" yaml:"id"`
	From Status `json:"from" yaml:"from"`
	To   Status `json:"to" yaml:"to"`
	// Detail is the later report's, or the earlier one's where the row is gone.
	Detail string `json:"detail,omitempty" yaml:"detail,omitempty"`
}

// Fact is something about what ran that differs.
type Fact struct {
	Name string `json:"name" yaml:"name"`
	From string `json:"from" yaml:"from"`
	To   string `json:"to" yaml:"to"`
}

// Difference is what changed from one report to another.
type Difference struct {
	Facts []Fact `json:"facts,omitempty" yaml:"facts,omitempty"`
	// Worse are rows that came to less than before, Better those that came to more, Other those of which neither can be said: rows that are new and
	// fine, and rows that are gone.
	Worse  []Change `json:"worse,omitempty" yaml:"worse,omitempty"`
	Better []Change `json:"better,omitempty" yaml:"better,omitempty"`
	Other  []Change `json:"other,omitempty" yaml:"other,omitempty"`
	// Same counts the rows that came to the same.
	Same int `json:"same" yaml:"same"`
}

// ranks order statuses from worst to best. What is none of them is the worst.
var ranks = map[Status]int{
	Status(ResultFailure): 1, Status(ResultPartial): 2, Status(ResultSuccess): 5,
	Violated: 1, Inconclusive: 2, NotJudged: 3, Skipped: 3, KnownUpstream: 4, Expected: 4, Held: 5,
}

// Diff compares two reports, from the earlier to the later one. Of rows that come twice in a report, as a spec that was tried again does, the worst counts.
func Diff(from, to Comparable) Difference {
	var d Difference
	for _, name := range slices.Sorted(maps.Keys(union(from.Facts, to.Facts))) {
		if from.Facts[name] != to.Facts[name] {
			d.Facts = append(d.Facts, Fact{Name: name, From: from.Facts[name], To: to.Facts[name]})
		}
	}
	before, after := worst(from.Rows), worst(to.Rows)
	for _, key := range slices.SortedFunc(maps.Keys(union(before, after)), func(a, b [2]string) int {
		return cmp.Or(-cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1])) // requirements before invariants, as reports have them
	}) {
		was, had := before[key]
		is, has := after[key]
		c := Change{Kind: key[0], ID: key[1], From: was.Status, To: is.Status, Detail: cmp.Or(is.Detail, was.Detail)}
		switch {
		case had && has && was.Status == is.Status:
			d.Same++
		case !has, !had && ranks[is.Status] > ranks[Inconclusive], had && ranks[was.Status] == ranks[is.Status]:
			d.Other = append(d.Other, c)
		case !had, ranks[is.Status] < ranks[was.Status]:
			d.Worse = append(d.Worse, c)
		default:
			d.Better = append(d.Better, c)
		}
	}
	return d
}

// union has the keys of both.
func union[K comparable, V any](a, b map[K]V) map[K]V {
	both := maps.Clone(a)
	if both == nil {
		both = map[K]V{}
	}
	maps.Copy(both, b)
	return both
}

// worst is the worst row of each kind and id.
func worst(rows []Row) map[[2]string]Row {
	out := map[[2]string]Row{}
	for _, r := range rows {
		key := [2]string{r.Kind, r.ID}
		if other, again := out[key]; !again || ranks[r.Status] < ranks[other.Status] {
			out[key] = r
		}
	}
	return out
}

// Print writes the difference for people.
func (d Difference) Print(w io.Writer) error {
	var t table
	for _, f := range d.Facts {
		t.line("%s: %s -> %s", oneField(f.Name), oneField(cmp.Or(f.From, "none")), oneField(cmp.Or(f.To, "none")))
	}
	for _, part := range []struct {
		title   string
		changes []Change
	}{{"worse", d.Worse}, {"better", d.Better}, {"other", d.Other}} {
		if len(part.changes) == 0 {
			continue
		}
		t.line("%s:", part.title)
		for _, c := range part.changes {
			t.line("  %s %s: %s -> %s  %s", c.Kind, oneField(c.ID), absent(c.From), absent(c.To), clip(oneLine(c.Detail), lineWidth))
		}
	}
	t.line("%d worse, %d better, %d other, %d the same", len(d.Worse), len(d.Better), len(d.Other), d.Same)
	_, err := w.Write(t.out.Bytes())
	if err != nil {
		return fmt.Errorf("print difference: %w", err)
	}
	return nil
}

// absent is a status as people read it, where there may be none.
func absent(s Status) string {
	if s == "" {
		return "not in it"
	}
	return strings.TrimSpace(s.word())
}
