package observe

import (
	"strings"
	"testing"
)

const kubeletMetrics = `# HELP kubelet_admission_rejections_total [ALPHA] Cumulative number of admissions rejected
# TYPE kubelet_admission_rejections_total counter
kubelet_admission_rejections_total{reason="Other"} 3
kubelet_admission_rejections_total{reason="VolumeAttachmentLimitExceeded"} 2
kubelet_admission_rejections_total_seconds{reason="VolumeAttachmentLimitExceeded"} 9

up 1
odd{a="x, y}",b="say \"no\""} 4 1700000000000
odd{a="x",b="no"} 5e1
`

func TestCounter(t *testing.T) {
	for _, c := range []struct {
		name, text, metric string
		labels             map[string]string
		want               float64
		fails              string
	}{
		{"one label", kubeletMetrics, "kubelet_admission_rejections_total", map[string]string{"reason": "VolumeAttachmentLimitExceeded"}, 2, ""},
		{"summed", kubeletMetrics, "kubelet_admission_rejections_total", nil, 5, ""},
		{"not counted yet", kubeletMetrics, "kubelet_admission_rejections_total", map[string]string{"reason": "Evicted"}, 0, ""},
		{"no labels", kubeletMetrics, "up", nil, 1, ""},
		{"quotes, braces and a time", kubeletMetrics, "odd", map[string]string{"a": "x, y}", "b": `say "no"`}, 4, ""},
		{"no metrics", "\n# HELP x\n", "up", nil, 0, "got none"},
		{"another page", "<html>", "up", nil, 0, "line 1"},
		{"a part of the name", kubeletMetrics, "kubelet_admission", nil, 0, ""},
		{"no value", "up{} ", "up", nil, 0, "line 1"},
		{"no number", "x 1\nup many", "up", nil, 0, `line 2: "up many": value: want a number`},
		{"broken labels", `up{a} 1`, "up", nil, 0, "want labels"},
		{"unclosed label", `up{a="x} 1`, "up", nil, 0, "want labels"},
	} {
		got, err := Counter(strings.NewReader(c.text), c.metric, c.labels)
		switch {
		case c.fails == "" && (err != nil || got != c.want):
			t.Errorf("%s: want %g, got %g, %v", c.name, c.want, got, err)
		case c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails)):
			t.Errorf("%s: want an error with %q, got %g, %v", c.name, c.fails, got, err)
		}
	}
}
