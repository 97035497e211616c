package report

import (
	"bytes"
	"strings"
	"testing"

	"headroom/e2e/framework/history"
)

// TestRulesOfOldVersions: what the versions that ran lack is said above the rows, and which part lacks it.
func TestRulesOfOldVersions(t *testing.T) {
	h := history.Header{Versions: map[string]string{
		"kube-apiserver": "v1.36.3", "kubelet": "v1.34.4", "csi-attacher": "v4.11.0", "kube-scheduler": "v1.36.3",
	}}
	r := Build(Input{Header: h, Events: func(func(history.Event, error) bool) {}})
	works := map[string]bool{}
	for _, rule := range r.Rules {
		works[rule.Feature+" "+string(rule.Boundary)] = rule.Works
	}
	want := map[string]bool{
		"period-stored kube-apiserver": true, "count-mutable kube-apiserver": true, "error-code-stored kube-apiserver": true,
		"periodic-refresh kubelet": false, "pod-rejection kubelet": false, "error-code-set external-attacher": false,
	}
	for name, w := range want {
		if got, is := works[name]; !is || got != w {
			t.Errorf("%s: want %t, got %t (there: %t); all: %v", name, w, got, is, works)
		}
	}
	var out bytes.Buffer
	if err := Table(&out, r, Options{}); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	for _, line := range []string{
		"external-attacher: reactive path dead: csi-attacher v4.11.0 does not set errorCode (gate off)\n",
		"kubelet: counts go stale: kubelet v1.34.4 asks a driver at its registration only (gate off)\n",
	} {
		if !strings.Contains(text, line) {
			t.Errorf("want %q in:\n%s", line, text)
		}
	}
	if strings.Contains(text, "stores nodeAllocatable") {
		t.Errorf("want only what does not work in the table, got:\n%s", text)
	}
}
