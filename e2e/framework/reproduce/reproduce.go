// Package reproduce keeps how often scenarios showed what they expect: of how many plays, and with which versions.
//
// Contract: a row belongs to a scenario as it was when it was played; what is said about it in words may change, and any other change makes its rows
// stale, so that figures are never those of another scenario. Plays are only ever added.
//
// It plays nothing and judges nothing: what a play showed is its report's to say.
package reproduce

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"headroom/e2e/framework/history"
	"headroom/e2e/framework/report"
	"headroom/e2e/framework/scenario"
	"headroom/e2e/framework/strict"
)

// Identity of a file of results.
const (
	APIVersion = "headroom/v1alpha1"
	Kind       = "Reproductions"
)

// Results are rows, sorted by scenario, versions and digest.
type Results struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string `yaml:"kind"`
	Rows       []Row  `yaml:"rows"`
}

// Row is what became of the plays of one scenario with the same versions.
type Row struct {
	Scenario string `yaml:"scenario"`
	// Digest is that of the scenario, see Digest.
	Digest     string `yaml:"digest"`
	Kubernetes string `yaml:"kubernetes"`
	Attacher   string `yaml:"attacher"`
	// Reproduced counts the plays that showed all that the scenario expects, Played all that told whether they did.
	Reproduced int `yaml:"reproduced"`
	Played     int `yaml:"played"`
	// Untold counts plays that told nothing: the environment failed, or the record has gaps.
	Untold int `yaml:"untold,omitempty"`
	// Longest is the longest play, without the cluster's start.
	Longest history.Duration `yaml:"longest"`
	// Faults are those of a play that showed all that the scenario expects, in order.
	Faults []Fault `yaml:"faults,omitempty"`
}

// Digest stands for what a scenario does and expects.
func Digest(s *scenario.Scenario) (string, error) {
	c := *s
	c.Metadata.Name, c.Metadata.Doc, c.Metadata.Source, c.Metadata.Labels = "", "", "", nil
	text, err := c.Encode()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return fmt.Sprintf("%x", sum[:6]), nil
}

// Of makes the row of one play. It counts as untold where the report has no row of the scenario, or an inconclusive one.
func Of(s *scenario.Scenario, r report.Report, spec string) (Row, error) {
	digest, err := Digest(s)
	if err != nil {
		return Row{}, err
	}
	row := Row{
		Scenario: s.Metadata.Name, Digest: digest, Kubernetes: string(s.Topology.Release()), Attacher: string(s.Topology.Version("csi-attacher")), Untold: 1,
	}
	for _, q := range r.Requirements {
		if q.ID != spec || q.Status != report.Held && q.Status != report.Violated {
			continue
		}
		row.Untold, row.Played, row.Longest = 0, 1, history.Duration(time.Duration(q.Elapsed).Round(time.Second))
		if q.Status == report.Held {
			row.Reproduced = 1
		}
	}
	return row, nil
}

// Add adds plays; rows of the same scenario as it was before it changed go.
func (r *Results) Add(n Row) {
	r.Rows = slices.DeleteFunc(r.Rows, func(o Row) bool { return o.Scenario == n.Scenario && o.Digest != n.Digest })
	for i := range r.Rows {
		if o := &r.Rows[i]; o.Scenario == n.Scenario && o.Kubernetes == n.Kubernetes && o.Attacher == n.Attacher {
			o.Reproduced, o.Played, o.Untold, o.Longest = o.Reproduced+n.Reproduced, o.Played+n.Played, o.Untold+n.Untold, max(o.Longest, n.Longest)
			if n.Reproduced > 0 {
				o.Faults = longest(o.Faults, n.Faults)
			}
			return
		}
	}
	r.Rows = append(r.Rows, n)
	slices.SortFunc(r.Rows, func(a, b Row) int {
		return cmp.Or(strings.Compare(a.Scenario, b.Scenario), strings.Compare(a.Kubernetes, b.Kubernetes), strings.Compare(a.Attacher, b.Attacher))
	})
}

// Current are the rows of a scenario as it is; stale ones are not among them.
func (r Results) Current(s *scenario.Scenario) ([]Row, error) {
	digest, err := Digest(s)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(r.Rows), func(o Row) bool { return o.Scenario != s.Metadata.Name || o.Digest != digest }), nil
}

// String is "3 of 3", with what told nothing.
func (r Row) String() string {
	text := fmt.Sprintf("%d of %d", r.Reproduced, r.Played)
	if r.Untold > 0 {
		text += fmt.Sprintf(" (%d more told nothing)", r.Untold)
	}
	return text
}

// Encode writes the results as a file that Read reads back to the same.
func (r Results) Encode() ([]byte, error) {
	r.APIVersion, r.Kind = APIVersion, Kind
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if err := enc.Encode(r); err != nil {
		return nil, fmt.Errorf("encode results: %w", err)
	}
	return out.Bytes(), enc.Close()
}

// Read reads a file of Encode. The error lists everything that is wrong, each with file, line, field and remedy.
func Read(file string, data []byte) (Results, error) {
	var r Results
	f := strict.Decode(file, data, &r)
	if err := f.Err(); err != nil {
		return Results{}, err
	}
	f.Identity(r.APIVersion, APIVersion, r.Kind, Kind, "a file of headroom replay --results")
	for i, row := range r.Rows {
		at := strict.At("rows", i)
		if row.Reproduced < 0 || row.Reproduced > row.Played || row.Untold < 0 {
			f.Fail(at+".reproduced", "correct it", "%d of %d plays, %d untold", row.Reproduced, row.Played, row.Untold)
		}
	}
	return r, f.Err()
}
