package mutants

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"headroom/e2e/framework/plan"
	"headroom/e2e/framework/report"
	"headroom/e2e/framework/strict"
)

// Identity of a file of results.
const (
	APIVersion = "headroom/v1alpha1"
	Kind       = "MutantPlays"
)

// Results are plays, sorted by driver, versions, faults and seed.
type Results struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string `yaml:"kind"`
	Rows       []Row  `yaml:"rows"`
}

// Row is one play of a plan that told something.
type Row struct {
	Driver string   `yaml:"driver"`
	Faults []string `yaml:"faults"`
	Seed   int64    `yaml:"seed"`
	// Plan is plan.Version, Digest that of the plan.
	Plan       int    `yaml:"plan"`
	Digest     string `yaml:"digest"`
	Kubernetes string `yaml:"kubernetes"`
	Attacher   string `yaml:"attacher"`
	// Root is what became of the root of the persona, a report.Status; the control has none.
	Root string `yaml:"root,omitempty"`
	// Violated are the invariants that were, the root among them; what is known upstream is not.
	Violated []string `yaml:"violated,omitempty"`
	// Cut says at which step the play ended, where it did not come to its end.
	Cut string `yaml:"cut,omitempty"`
}

// maxCut is how much of a failure a row keeps, in bytes.
const maxCut = 160

// RowOf is what a play of a plan came to; false where it told nothing: the environment failed, or there is no report, and the root was not violated for all
// that.
func (l Line) RowOf(p Plan, r report.Report) (Row, bool) {
	row := Row{
		Driver: l.Name(), Faults: p.Faults, Seed: p.Seed, Plan: plan.Version, Digest: p.Digest, Kubernetes: p.Kubernetes, Attacher: p.Attacher,
	}
	if l.Persona != nil {
		row.Root = string(report.NotJudged)
	}
	for _, i := range r.Invariants {
		if i.Status == report.Violated {
			row.Violated = append(row.Violated, i.Name)
		}
		if i.Name == l.Root() {
			row.Root = string(i.Status)
		}
	}
	slices.Sort(row.Violated)
	for _, q := range r.Requirements {
		if q.Status == report.Violated && strings.HasPrefix(q.Message, "step ") { // and not what the plan expects of invariants
			row.Cut, _, _ = strings.Cut(q.Message[:min(len(q.Message), maxCut)], "\n")
		}
	}
	switch report.ExitCode(r) {
	case report.ExitHeld, report.ExitInconclusive:
		return row, true
	case report.ExitViolated: // a violation is proved, whatever else went wrong; that the root was not violated is not
		return row, row.Caught() || len(r.Environment) == 0
	}
	return row, false
}

// Caught says whether the root was violated.
func (r Row) Caught() bool { return r.Root == string(report.Violated) }

// Of is the play of a plan; false where it was not played.
func (r Results) Of(p Plan) (Row, bool) {
	i := slices.IndexFunc(r.Rows, func(o Row) bool {
		return o.Driver == p.Driver && o.Digest == p.Digest && o.Kubernetes == p.Kubernetes && o.Attacher == p.Attacher
	})
	if i < 0 {
		return Row{}, false
	}
	return r.Rows[i], true
}

// Add adds a play in place of an older one of the same seed; those of plans that the seed stands for no longer go.
func (r *Results) Add(n Row) {
	r.Rows = slices.DeleteFunc(r.Rows, func(o Row) bool {
		return o.Driver == n.Driver && o.Seed == n.Seed && slices.Equal(o.Faults, n.Faults) &&
			(o.Digest != n.Digest || o.Kubernetes == n.Kubernetes && o.Attacher == n.Attacher)
	})
	r.Rows = append(r.Rows, n)
	slices.SortFunc(r.Rows, func(a, b Row) int {
		return cmp.Or(strings.Compare(a.Driver, b.Driver), strings.Compare(a.Kubernetes, b.Kubernetes), strings.Compare(a.Attacher, b.Attacher),
			slices.Compare(a.Faults, b.Faults), cmp.Compare(a.Seed, b.Seed))
	})
}

// Encode writes the results as a file that Read reads back to the same.
func (r Results) Encode() ([]byte, error) {
	r.APIVersion, r.Kind, r.Rows = APIVersion, Kind, append([]Row{}, r.Rows...)
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if err := enc.Encode(r); err != nil {
		return nil, fmt.Errorf("encode the plays of mutants: %w", err)
	}
	return out.Bytes(), enc.Close()
}

// statuses are what can become of a root.
var statuses = []report.Status{report.Held, report.Violated, report.Inconclusive, report.NotJudged, report.KnownUpstream}

// Read reads a file of Encode. The error lists everything that is wrong, each with file, line, field and remedy.
func Read(file string, data []byte) (Results, error) {
	var r Results
	f := strict.Decode(file, data, &r)
	if err := f.Err(); err != nil {
		return Results{}, err
	}
	f.Identity(r.APIVersion, APIVersion, r.Kind, Kind, "a file of headroom mutants --results")
	for i, row := range r.Rows {
		at := strict.At("rows", i)
		if row.Seed < 1 {
			f.Fail(at+".seed", "remove the row, so that it is played again", "want 1 or more, got %d", row.Seed)
		}
		control := row.Driver == Control
		if control != (row.Root == "") || !control && !slices.Contains(statuses, report.Status(row.Root)) {
			f.Fail(at+".root", "remove the row, so that it is played again", "want what became of the root, one of %v, and nothing for %s, got %q", statuses, Control, row.Root)
		}
		again := func(o Row) bool {
			return o.Driver == row.Driver && o.Digest == row.Digest && o.Kubernetes == row.Kubernetes && o.Attacher == row.Attacher
		}
		if slices.ContainsFunc(r.Rows[:i], again) {
			f.Fail(at+".digest", "remove one of the two", "plan %s of driver %q is there already", row.Digest, row.Driver)
		}
	}
	return r, f.Err()
}
