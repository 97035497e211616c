package run

import (
	"strings"
	"testing"

	"headroom/e2e/framework/history"
	"headroom/e2e/framework/scenario"
)

// TestSetupOnDrivers shows which benches are not for which drivers.
func TestSetupOnDrivers(t *testing.T) {
	none, started, whatever := Setup{}, Setup{Nodes: []Node{{Limit: 3}}}, Setup{Nodes: []Node{{Limit: 3, AnyLimit: true}}}
	changed, released := Setup{Nodes: []Node{{Limit: 3}}, Changes: true}, Setup{Nodes: []Node{{Limit: 3}}, Changes: true, Releases: true}
	for _, c := range []struct {
		limit    string
		releases bool
		// fits are the setups that fit, in the order none, started, whatever, changed, released; reason is in what is said of the others.
		fits   [5]bool
		reason string
	}{
		{"", true, [5]bool{true, true, true, true, true}, ""},
		{"", false, [5]bool{true, true, true, true, false}, "${RELEASE}"},
		{history.LimitGate, false, [5]bool{true, true, true, true, false}, "${RELEASE}"},
		{history.LimitStart, true, [5]bool{true, true, true, false, false}, "does not change while it runs"},
		{"fixed", true, [5]bool{true, false, true, false, false}, "${LIMIT}"},
		{"own", true, [5]bool{true, false, true, false, false}, "limit: own"},
	} {
		for i, s := range []Setup{none, started, whatever, changed, released} {
			why := s.inapplicable(history.DriverParams{Limit: c.limit, Releases: c.releases})
			if (why == "") != c.fits[i] || why != "" && !strings.Contains(why, c.reason) {
				t.Errorf("limit %q, releases %t, setup %d: want fits=%t and %q, got %q", c.limit, c.releases, i, c.fits[i], c.reason, why)
			}
		}
	}
	r := Requirement{Setup: changed}
	if why := r.Inapplicable(history.Header{Params: history.Params{Driver: history.DriverParams{Limit: history.LimitStart}}}); why == "" {
		t.Error("a requirement on a limit that changes: want it not to apply to one that does not")
	}
}

// TestScenariosThatChangeLimits shows what a scenario asks of the driver.
func TestScenariosThatChangeLimits(t *testing.T) {
	limit := int64(3)
	for name, c := range map[string]struct {
		step scenario.Step
		want bool
	}{
		"quota":         {scenario.Step{Quota: &scenario.Quota{Limit: &limit}}, true},
		"quota fault":   {scenario.Step{Fault: &scenario.Fault{Name: "quota-outage"}}, true},
		"another fault": {scenario.Step{Fault: &scenario.Fault{Name: "component-kill"}}, false},
		"pods":          {scenario.Step{Pods: &scenario.Pods{}}, false},
	} {
		if got := setupOf(&scenario.Scenario{Steps: []scenario.Step{c.step}}).Changes; got != c.want {
			t.Errorf("%s: want changes=%t, got %t", name, c.want, got)
		}
	}
}
