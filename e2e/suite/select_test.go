package suite

import (
	"slices"
	"strings"
	"testing"

	"headroom/drivers/personas"
	"headroom/e2e/framework/run"
)

func TestSelect(t *testing.T) {
	for _, tt := range []struct {
		focus, labels string
		with, without string // one id each that must be chosen and left out
		bad           string // part of the error
	}{
		{"", "", "attach-classes", "aligned-periods", ""},
		{"", "!slow", "count-drop", "aligned-periods", ""},
		{"", "!slow", "count-drop", "attach-classes", ""},
		{"", "slow || smoke", "attach-classes", "aligned-periods", ""},
		{"", "long", "aligned-periods", "count-drop", ""},
		{"", "!slow || long", "aligned-periods", "attach-classes", ""},
		{"^count-", "", "count-raise", "throttled", ""},
		{"aligned-periods", "long", "aligned-periods", "count-drop", ""},
		{"aligned-periods", "", "aligned-periods", "count-drop", ""},
		{"^aligned-periods|^count-", "", "count-drop", "aligned-periods", ""},
		{"aligned-periods", "smoke", "", "", "no spec matches"},
		{"[", "", "", "", "--focus"},
		{"", "&&", "", "", "--label-filter"},
		{"", "!slow) || (long", "", "", "--label-filter"},
	} {
		got, err := Select(tt.focus, tt.labels)
		if tt.bad != "" {
			if err == nil || !strings.Contains(err.Error(), tt.bad) {
				t.Errorf("%q, %q: want an error with %q, got %v, error %v", tt.focus, tt.labels, tt.bad, got, err)
			}
			continue
		}
		if err != nil || !slices.Contains(got, tt.with) || slices.Contains(got, tt.without) {
			t.Errorf("%q, %q: want %q chosen and %q not, got %v, error %v", tt.focus, tt.labels, tt.with, tt.without, got, err)
		}
	}
}

// TestPersonasTryWhatExists finds a spec that a persona names and nobody registers.
func TestPersonasTryWhatExists(t *testing.T) {
	for _, name := range personas.Names() {
		p, err := personas.Find(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range p.Try {
			if !slices.ContainsFunc(run.Requirements(), func(r run.Requirement) bool { return r.ID == id }) {
				t.Errorf("persona %s: no spec %q to try", name, id)
			}
		}
	}
}
