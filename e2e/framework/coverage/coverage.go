// Package coverage says which faults met what: how often each was injected, into what, and what went on in the cluster while it was there.
//
// Contract: it is a fold over histories; the same histories give the same coverage, in any order. A state counts once for an injection, however long it
// lasted. Coverage of several runs adds up, and no run counts twice.
//
// It judges nothing: that a fault met a state says that there was something to get wrong, not whether it was.
package coverage

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"headroom/e2e/framework/scenario"
)

// State is something that goes on where a fault acts.
type State string

// States. Those of a node are of the nodes that the fault acts on.
const (
	// Attached: the backend holds a volume attached.
	Attached State = "attached"
	// Full: as many volumes are attached as Kubernetes may use, and at least one.
	Full State = "full"
	// Over: more are attached than Kubernetes may use, since the limit fell.
	Over State = "over"
	// Starting: a pod with volumes is on the node and does not run yet.
	Starting State = "starting"
	// Pending: a pod waits, on no node, because of volume limits.
	Pending State = "pending"
	// Asking, Registering: the kubelet asks for the count, or registers the driver.
	Asking      State = "asking"
	Registering State = "registering"
	// Attaching, Detaching: the attacher publishes or unpublishes a volume.
	Attaching State = "attaching"
	Detaching State = "detaching"
	// Beside: another fault is there.
	Beside State = "beside"
)

// States lists all of them, in the order of the table.
var States = []State{Attached, Full, Over, Starting, Pending, Asking, Registering, Attaching, Detaching, Beside}

// Row is what one fault met on one class of targets.
type Row struct {
	Fault  string         `yaml:"fault"`
	Target scenario.Class `yaml:"target"`
	// Times is how often it was injected.
	Times int `yaml:"times"`
	// Met is in how many injections a state was met; those that never were are left out.
	Met map[State]int `yaml:"met,omitempty"`
}

// Coverage is what the faults of some runs met.
type Coverage struct {
	// Runs are the ids of the runs, sorted.
	Runs []string
	// Rows are sorted by fault and target.
	Rows []Row
}

// Add takes the runs of other in, but for those that are in already: it returns these, and the rows of a run cannot be told apart, so that nothing is
// added where there are any.
func (c *Coverage) Add(other Coverage) (twice []string) {
	for _, r := range other.Runs {
		if slices.Contains(c.Runs, r) {
			twice = append(twice, r)
		}
	}
	if len(twice) > 0 {
		return twice
	}
	c.Runs = slices.Sorted(slices.Values(slices.Concat(c.Runs, other.Runs)))
	for _, r := range other.Rows {
		to := c.row(r.Fault, r.Target)
		to.Times += r.Times
		for s, n := range r.Met {
			to.Met[s] += n
		}
	}
	return nil
}

// row finds a row, or makes it in its place.
func (c *Coverage) row(fault string, target scenario.Class) *Row {
	i, found := slices.BinarySearchFunc(c.Rows, Row{Fault: fault, Target: target}, func(a, b Row) int {
		return cmp.Or(strings.Compare(a.Fault, b.Fault), strings.Compare(string(a.Target), string(b.Target)))
	})
	if !found {
		c.Rows = slices.Insert(c.Rows, i, Row{Fault: fault, Target: target, Met: map[State]int{}})
	}
	if c.Rows[i].Met == nil {
		c.Rows[i].Met = map[State]int{}
	}
	return &c.Rows[i]
}

// Times is how often a fault was injected into a class of targets.
func (c *Coverage) Times(fault string, target scenario.Class) int {
	for _, r := range c.Rows {
		if r.Fault == fault && r.Target == target {
			return r.Times
		}
	}
	return 0
}

// Table draws the rows, and those of known that were never met.
func (c *Coverage) Table(known []Row) string {
	all := Coverage{Rows: slices.Clone(c.Rows)}
	for i, r := range all.Rows {
		all.Rows[i].Met = maps.Clone(r.Met)
	}
	for _, r := range known {
		all.row(r.Fault, r.Target)
	}
	var out bytes.Buffer
	w := tabwriter.NewWriter(&out, 0, 4, 2, ' ', 0)
	line := "FAULT\tTARGET\tTIMES"
	for _, s := range States {
		line += "\t" + strings.ToUpper(string(s))
	}
	lines, never := []string{line}, 0
	for _, r := range all.Rows {
		line := fmt.Sprintf("%s\t%s\t%d", r.Fault, r.Target, r.Times)
		for _, s := range States {
			line += "\t" + cmp.Or(strings.TrimPrefix(fmt.Sprint(r.Met[s]), "0"), "-")
		}
		if r.Times == 0 {
			never++
		}
		lines = append(lines, line)
	}
	_, _ = fmt.Fprintln(w, strings.Join(lines, "\n")) // into memory
	_ = w.Flush()
	fmt.Fprintf(&out, "\n%d runs; %d of %d faults and targets never met\n", len(c.Runs), never, len(all.Rows))
	return out.String()
}
