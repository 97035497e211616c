package coverage

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"headroom/e2e/framework/scenario"
	"headroom/e2e/framework/strict"
)

// Identity of a coverage file.
const (
	APIVersion = "headroom/v1alpha1"
	Kind       = "Coverage"
)

// document is the file.
type document struct {
	APIVersion string   `yaml:"apiVersion"`
	Kind       string   `yaml:"kind"`
	Runs       []string `yaml:"runs"`
	Rows       []Row    `yaml:"rows"`
}

// Encode writes the coverage as a file that Read reads back to the same.
func (c Coverage) Encode() ([]byte, error) {
	d := document{APIVersion: APIVersion, Kind: Kind, Runs: append([]string{}, c.Runs...), Rows: append([]Row{}, c.Rows...)}
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if err := enc.Encode(d); err != nil {
		return nil, fmt.Errorf("encode coverage: %w", err)
	}
	return out.Bytes(), enc.Close()
}

// Read reads a file of Encode. The error lists everything that is wrong, each with file, line, field and remedy.
func Read(file string, data []byte) (Coverage, error) {
	var d document
	f := strict.Decode(file, data, &d)
	if err := f.Err(); err != nil {
		return Coverage{}, err
	}
	for _, head := range []struct{ field, want, got string }{{"apiVersion", APIVersion, d.APIVersion}, {"kind", Kind, d.Kind}} {
		if head.got != head.want {
			f.Fail(head.field, "write "+head.want+", or name a file of headroom coverage", "want %q, got %q", head.want, head.got)
		}
	}
	c := Coverage{Runs: slices.Compact(slices.Sorted(slices.Values(d.Runs)))}
	if len(c.Runs) < len(d.Runs) {
		f.Fail("runs", "remove it", "a run is in it twice")
	}
	for i, r := range d.Rows {
		at := strict.At("rows", i)
		if !slices.Contains(scenario.Classes, r.Target) {
			f.Fail(at+".target", "correct it", "unknown target %q; known: %v", r.Target, scenario.Classes)
		}
		if r.Times < 0 {
			f.Fail(at+".times", "write 0 or more", "%d times", r.Times)
		}
		for _, s := range slices.Sorted(maps.Keys(r.Met)) {
			if n := r.Met[s]; !slices.Contains(States, s) {
				f.Fail(strict.Join(at+".met", string(s)), "remove it", "unknown state %q; known: %v", s, States)
			} else if n < 0 || n > r.Times {
				f.Fail(strict.Join(at+".met", string(s)), "correct it", "met %d times in %d injections", n, r.Times)
			}
		}
		to := c.row(r.Fault, r.Target)
		if to.Times > 0 || strings.TrimSpace(r.Fault) == "" {
			f.Fail(at, "join the two", "fault %q on %s is in it twice, or has no name", r.Fault, r.Target)
		}
		to.Times += r.Times
		for s, n := range r.Met {
			to.Met[s] += n
		}
	}
	return c, f.Err()
}
