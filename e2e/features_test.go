package e2e

import (
	"slices"
	"testing"

	"headroom/e2e/framework/history"
	"headroom/e2e/framework/report"
	"headroom/e2e/framework/run"
	"headroom/e2e/invariants"
)

// TestFeatures: a row that no feature has says nothing of a driver's conformance, and a feature's row that there is not could never pass.
func TestFeatures(t *testing.T) {
	ofDrivers := map[string]bool{}
	known := map[string]bool{}
	for _, r := range run.Requirements() {
		known[r.ID] = true
		ofDrivers[r.ID] = r.Boundary == history.Driver
	}
	for _, i := range invariants.All() {
		known[i.Name] = true
		ofDrivers[i.Name] = i.Boundary == history.Driver
	}
	seen := map[string]string{}
	for _, f := range report.Features {
		for _, row := range slices.Concat(f.Requirements, f.Invariants) {
			if !known[row] {
				t.Errorf("feature %s: there is no requirement or invariant %q", f.Name, row)
			}
			if other := seen[row]; other != "" {
				t.Errorf("%q is in features %s and %s", row, other, f.Name)
			}
			seen[row] = f.Name
		}
	}
	for row, of := range ofDrivers {
		if of && seen[row] == "" {
			t.Errorf("%q is on drivers, and in no feature", row)
		}
	}
}
