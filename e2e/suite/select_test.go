package suite

import (
	"slices"
	"strings"
	"testing"

	"headroom/drivers/personas"
	"headroom/e2e/framework/history"
	"headroom/e2e/framework/run"
	"headroom/e2e/framework/versions"
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

func TestApplicable(t *testing.T) {
	old := map[string]string{"kube-apiserver": "v1.36.3", "kubelet": "v1.34.4", "csi-attacher": "v4.12.0"}
	now := map[string]string{"kube-apiserver": "v1.36.3", "kubelet": "v1.36.3", "csi-attacher": "v4.12.0"}
	ids := []string{"count-drop", "count-stays", "period-dropped"}
	for _, tt := range []struct {
		ran  map[string]string
		want string
	}{{old, "count-drop count-stays"}, {now, "count-drop"}} {
		got, err := Applicable(ids, tt.ran)
		slices.Sort(got)
		if err != nil || strings.Join(got, " ") != tt.want {
			t.Errorf("%v: want %q, got %q, %v", tt.ran, tt.want, got, err)
		}
	}
	_, err := Applicable([]string{"count-stays"}, now)
	if err == nil || !strings.Contains(err.Error(), "count-stays: kubelet v1.36.3 asks drivers again each period") {
		t.Errorf("none is left: got %v", err)
	}
}

// TestInapplicable tells of each requirement of the matrix whether it applies: where one about the feature does not, one about its absence does.
func TestInapplicable(t *testing.T) {
	pairs := map[string]string{"period-bounds": "period-dropped", "error-code-stored": "error-code-dropped", "count-drop": "count-stays", "stale-count-race": "error-code-absent"}
	table := versions.Embedded()
	for _, c := range table.Supported(table.Kubernetes) {
		h := history.Header{Versions: c.Ran(), Provider: "local"}
		applies := map[string]bool{}
		for _, r := range run.Requirements() {
			applies[r.ID] = r.Inapplicable(h) == ""
		}
		for with, without := range pairs {
			if applies[with] && applies[without] || !applies[with] && !applies[without] {
				t.Errorf("%s: %s applies: %t, %s applies: %t", c, with, applies[with], without, applies[without])
			}
		}
	}
}
