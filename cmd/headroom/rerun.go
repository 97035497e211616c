package main

import (
	"fmt"
	"slices"
	"strings"

	"headroom/drivers"
	"headroom/e2e/framework/report"
	"headroom/e2e/suite"
)

// rerun is what to run again of an earlier run.
type rerun struct {
	// specs failed or stayed open there, or an invariant was violated while they ran.
	specs []string
	// driver is the one that was under test.
	driver string
}

// failedIn judges the run in dir again, from its history, and says what to run once more. That nothing failed is an error, and so is a spec that
// this program does not have.
func failedIn(dir string) (rerun, error) {
	r, err := judged(dir)
	if err != nil {
		return rerun{}, err
	}
	broken := map[string]bool{}
	for _, i := range r.Invariants {
		for _, v := range i.Verdicts {
			broken[v.Spec] = broken[v.Spec] || v.Status == report.Violated
		}
	}
	out := rerun{driver: r.Driver}
	for _, q := range r.Requirements {
		if (q.Status != report.Held && q.Status != report.Skipped || broken[q.ID]) && !slices.Contains(out.specs, q.ID) {
			out.specs = append(out.specs, q.ID)
		}
	}
	known, err := suite.Select("", "")
	if err != nil {
		return rerun{}, err
	}
	for _, id := range out.specs {
		if !slices.Contains(known, id) {
			return rerun{}, usageError{fmt.Errorf("--rerun-failed %s: spec %q failed there, and this version has none of that id; there are: %s", dir, id, strings.Join(known, ", "))}
		}
	}
	if len(out.specs) == 0 {
		return rerun{}, usageError{fmt.Errorf("--rerun-failed %s: no spec of run %s failed or was inconclusive, so there is none to run again", dir, r.Run)}
	}
	return out, nil
}

// among keeps those of chosen that are to be run again.
func (r rerun) among(chosen []string) ([]string, error) {
	left := slices.DeleteFunc(slices.Clone(chosen), func(id string) bool { return !slices.Contains(r.specs, id) })
	if len(left) == 0 {
		return nil, usageError{fmt.Errorf("--rerun-failed: %s failed there, none of which --focus and --label-filter choose", strings.Join(r.specs, ", "))}
	}
	return left, nil
}

// known is an error when the driver of the earlier run was given by a file: its name does not lead there.
func (r rerun) known() error {
	if _, err := drivers.Load(r.driver); err != nil || strings.Contains(r.driver, "/") {
		return usageError{fmt.Errorf("--rerun-failed: the driver of that run was %q, which is no built-in one: give its file with --driver", r.driver)}
	}
	return nil
}
