package versions

import (
	"slices"
	"strings"
	"testing"
)

// TestFeatures is the table of KEP-4876 by release: what each component does at its default, and with the gate set.
func TestFeatures(t *testing.T) {
	for _, c := range []struct {
		feature, version, gate string
		works                  bool
		text                   string
	}{
		{PeriodStored, "v1.32.13", "", false, "no period can be set: kube-apiserver v1.32.13 drops nodeAllocatableUpdatePeriodSeconds (from v1.33 on)"},
		{PeriodStored, "v1.33.13", "", false, "no period can be set: kube-apiserver v1.33.13 drops nodeAllocatableUpdatePeriodSeconds (gate off)"},
		{PeriodStored, "v1.33.13", "true", true, "kube-apiserver v1.33.13 stores nodeAllocatableUpdatePeriodSeconds of at least 10"},
		{PeriodStored, "v1.34.4", "", false, ""},
		{PeriodStored, "v1.35.4", "", true, ""},
		{PeriodStored, "v1.35.4", "false", false, ""},
		{PeriodStored, "v1.36.3", "false", true, ""}, // locked: such a component exits
		{CountMutable, "v1.32.13", "true", false, ""},
		{CountMutable, "v1.34.4", "true", true, ""},
		{ErrorCodeStored, "v1.34.4", "", false, "reactive path dead: kube-apiserver v1.34.4 drops errorCode (gate off)"},
		{ErrorCodeStored, "v1.37.2", "", true, ""},
		{PeriodicRefresh, "v1.34.4", "", false, "counts go stale: kubelet v1.34.4 asks a driver at its registration only (gate off)"},
		{PeriodicRefresh, "v1.33.13", "true", true, ""},
		{PodRejection, "v1.33.13", "true", false, "pods wait for ever on a full node: kubelet v1.33.13 rejects none (from v1.34 on)"},
		{PodRejection, "v1.34.4", "true", true, ""},
		{PodRejection, "v1.35.4", "", true, "kubelet v1.35.4 rejects a pod that waits on a full node for 2m3s"},
		{ErrorCodeSet, "v4.11.0", "", false, "reactive path dead: csi-attacher v4.11.0 does not set errorCode (gate off)"},
		{ErrorCodeSet, "v4.11.0", "true", true, "csi-attacher v4.11.0 sets errorCode"},
		{ErrorCodeSet, "v4.12.0", "", true, ""},
		{ErrorCodeSet, "v4.12.0", "false", false, ""}, // not locked
		{ErrorCodeSet, "v4.13.0", "", true, ""},
		// Releases without a row: the newest one before them counts.
		{PeriodicRefresh, "v1.31.0", "true", false, ""},
		{PeriodicRefresh, "v1.35.9", "", true, ""},
		{PeriodicRefresh, "v1.38.0-beta.0", "", true, ""},
		{ErrorCodeSet, "v4.9.0", "true", false, ""},
		{ErrorCodeSet, "v4.10.0", "", false, ""},
		{ErrorCodeSet, "v4.10.0", "true", true, ""},
		{ErrorCodeSet, "v5.0.0", "", true, ""},
		{PeriodicRefresh, "nonsense", "true", false, ""},
	} {
		f, known := Embedded().Feature(c.feature)
		if !known {
			t.Errorf("no feature %q", c.feature)
			continue
		}
		a := Embedded().Apply(f, Version(c.version), c.gate)
		if a.Works != c.works || c.text != "" && a.Text() != c.text {
			t.Errorf("%s of %s %s, gate %q: want %t, %q, got %t, %q", c.feature, f.Component, c.version, c.gate, c.works, c.text, a.Works, a.Text())
		}
	}
}

func TestRulesOfARun(t *testing.T) {
	ran := map[string]string{
		"kube-apiserver": "v1.36.3", "kubelet": "v1.34.4", "csi-attacher": "v4.12.0", "csi-attacher/" + MutableCSINodeAllocatableCount: "false", "etcd": "v3.6.16",
	}
	var got []string
	for _, a := range Embedded().Rules(ran) {
		got = append(got, a.Name+map[bool]string{true: " works", false: " fails"}[a.Works])
	}
	want := []string{"period-stored works", "count-mutable works", "error-code-stored works", "periodic-refresh fails", "pod-rejection fails", "error-code-set fails"}
	if !slices.Equal(got, want) {
		t.Errorf("want %q, got %q", want, got)
	}
	delete(ran, "kubelet")
	if n := len(Embedded().Rules(ran)); n != 4 {
		t.Errorf("of a component that did not run there is no rule: want 4, got %d", n)
	}
	if a := Embedded().Works(PeriodicRefresh, ran); a.Works || !strings.Contains(a.Text(), "it did not run") {
		t.Errorf("a kubelet that did not run: got %+v", a)
	}
	if a := Embedded().Works("no-such-feature", ran); a.Works || !strings.Contains(a.Text(), `no feature "no-such-feature"`) {
		t.Errorf("an unknown feature: got %q", a.Text())
	}
}

func TestFind(t *testing.T) {
	for _, c := range []struct {
		in   string
		want Version
		err  string
	}{
		{"1.36", "v1.36.3", ""}, {"v1.36", "v1.36.3", ""}, {"1.36.3", "v1.36.3", ""}, {"v1.32.13", "v1.32.13", ""}, {"preview", "v1.38.0-beta.0", ""}, {"1.38", "v1.38.0-beta.0", ""},
		{"1.40", "", `kubernetes minor release "1.40" is not known; known: v1.32.13`},
		{"1.36.4", "", `kubernetes version "v1.36.4" is not known; known: v1.32.13`},
		{"latest", "", `version "latest": want MAJOR.MINOR.PATCH, such as v1.36.3 or 1.36`},
		{"", "", "want MAJOR.MINOR.PATCH"},
	} {
		r, err := Embedded().Find(c.in)
		if r.Version != c.want || (c.err == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%q: want %q, error %q, got %q, %v", c.in, c.want, c.err, r.Version, err)
		}
	}
	if _, err := (Table{}).Find("preview"); err == nil || !strings.Contains(err.Error(), "no pre-release of kubernetes is known") {
		t.Errorf("preview of a table without one: got %v", err)
	}
	for _, c := range []struct {
		in   string
		want Version
		err  string
	}{
		{"4.12", "v4.12.0", ""}, {"v4.11.0", "v4.11.0", ""},
		{"4.10", "", `external-attacher version "v4.10" is not known; known: v4.11.0`},
		{"new", "", `external-attacher version "new": want`},
	} {
		a, err := Embedded().FindAttacher(c.in)
		if a.Version != c.want || (c.err == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("attacher %q: want %q, error %q, got %q, %v", c.in, c.want, c.err, a.Version, err)
		}
	}
}

func TestSilentCombinations(t *testing.T) {
	for _, c := range []struct {
		server, kubelet Version
		want            string
	}{
		{"v1.36.3", "v1.34.4", "silent: kube-apiserver v1.36.3 stores a period, and kubelet v1.34.4 does not act on it (gate off)"},
		{"v1.35.4", "v1.32.13", "silent: kube-apiserver v1.35.4 stores a period, and kubelet v1.32.13 does not act on it (from v1.33 on)"},
		{"v1.36.3", "v1.35.4", ""},
		{"v1.34.4", "v1.34.4", ""}, // no period can be set, which is seen at once
	} {
		ran := Combination{APIServer: c.server, Kubelet: c.kubelet}.Ran()
		if got := Embedded().Silent(ran); got != c.want {
			t.Errorf("%s with %s: want %q, got %q", c.server, c.kubelet, c.want, got)
		}
	}
}

// TestPreviewsAreAskedFor: a range without an end leaves pre-releases out, one that ends at a pre-release has it.
func TestPreviewsAreAskedFor(t *testing.T) {
	last := func(to Version) Version {
		rows := Embedded().Between("v1.36.3", to)
		return rows[len(rows)-1].Version
	}
	if got := last(""); got != "v1.37.2" {
		t.Errorf("without an end: want v1.37.2, got %s", got)
	}
	if got := last("v1.38.0-beta.0"); got != "v1.38.0-beta.0" {
		t.Errorf("up to the pre-release: got %s", got)
	}
}
