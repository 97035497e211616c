package stoprules

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"headroom/e2e/framework/report/signals"
)

func count(n int32) *int32 { return &n }

// names are the rules that are broken.
func names(all []Broken) string {
	var out []string
	for _, b := range all {
		out = append(out, b.Name)
	}
	return strings.Join(out, " ")
}

var watched = Bounds{UpdateDelay: 60 * time.Second, Period: 10 * time.Second}

// busy is what a healthy cluster shows in a busy minute: quotas change, one of them out of reach for a while, attaches are refused for lack of room, one
// meets a restart, a pod waits.
func busy() signals.Signals {
	return signals.Signals{
		HistorySeconds: 60,
		UpdateDelay:    signals.Delay{Samples: 6, P50Seconds: 12, P99Seconds: 48, MaxSeconds: 48, Superseded: 3, Open: 1, OldestOpenSeconds: 31},
		CountChanges:   signals.Changes{Changes: 14, PerMinute: 14, Unasked: 1},
		PendingReasons: []signals.Reason{{Reason: "attach failed: ResourceExhausted", Pods: 9}, {Reason: "exceed max volume count", Pods: 2}},
		AttachFailures: []signals.Failures{{Code: 8, Name: "ResourceExhausted", Calls: 40}, {Code: 14, Name: "Unavailable", Calls: 12}, {Code: 13, Name: "Internal", Calls: 1}},
		CSINodeWrites:  []signals.Writes{{Writer: "system:node:n1", Writes: 10}, {Writer: "headroom-admin", Writes: 100}},
		Volumes:        []signals.Volumes{{Node: "n1", Driver: "d", Attached: 6, Count: count(6), FullSeconds: 50, OverSeconds: 8}},
	}
}

// TestEachRuleBreaks degrades the busy minute in one way each.
func TestEachRuleBreaks(t *testing.T) {
	seen := map[string]bool{}
	for name, c := range map[string]struct {
		degrade func(*signals.Signals)
		bounds  Bounds
		want    string
	}{
		"busy":                             {func(*signals.Signals) {}, watched, ""},
		"nothing at all":                   {func(s *signals.Signals) { *s = signals.Signals{} }, Bounds{}, ""},
		"a change took too long":           {func(s *signals.Signals) { s.UpdateDelay.MaxSeconds = 60.5 }, watched, "count-is-stale"},
		"a change is on its way too long":  {func(s *signals.Signals) { s.UpdateDelay.OldestOpenSeconds = 61 }, watched, "count-is-stale"},
		"where no change can arrive":       {func(s *signals.Signals) { s.UpdateDelay.OldestOpenSeconds = 600 }, Bounds{Period: 10 * time.Second}, ""},
		"counts move":                      {func(s *signals.Signals) { s.CountChanges.Unasked = 2 }, watched, "count-moves-unasked"},
		"a value comes back":               {func(s *signals.Signals) { s.CountChanges.RolledBack = 1 }, watched, "values-roll-back"},
		"values come back, again":          {func(s *signals.Signals) { s.CountChanges.Unasked, s.CountChanges.RolledBack = 2, 2 }, watched, "count-moves-unasked values-roll-back"},
		"three pods wait":                  {func(s *signals.Signals) { s.PendingReasons[1].Pods = 3 }, watched, "pods-wait"},
		"a pod is rejected":                {func(s *signals.Signals) { s.PendingReasons[0].Reason = "rejected: VolumeAttachmentLimitExceeded" }, watched, "pods-wait"},
		"attaches fail for reasons untold": {func(s *signals.Signals) { s.AttachFailures[2].Calls = 2 }, watched, "attach-fails-without-class"},
		"attaches fail for reasons unknown": {func(s *signals.Signals) {
			s.AttachFailures[2] = signals.Failures{Code: 2, Name: "Unknown", Calls: 2}
		}, watched, "attach-fails-without-class"},
		"a kubelet writes at each tick":   {func(s *signals.Signals) { s.CSINodeWrites[0].Writes = 11 }, watched, "writes-too-often"},
		"a kubelet writes without period": {func(s *signals.Signals) { s.CSINodeWrites[0].Writes = 5 }, Bounds{}, "writes-too-often"},
		"no count":                        {func(s *signals.Signals) { s.Volumes[0].Count = nil }, watched, "no-count"},
		"too many attached, for long":     {func(s *signals.Signals) { s.Volumes[0].OverSeconds = 61 }, watched, "above-count"},
	} {
		t.Run(name, func(t *testing.T) {
			s := busy()
			c.degrade(&s)
			got := Check(s, c.bounds)
			if names(got) != c.want {
				t.Errorf("want %q broken, got %+v", c.want, got)
			}
			for _, b := range got {
				seen[b.Name] = true
				if !strings.HasPrefix(b.Detail, "want ") || !strings.Contains(b.Detail, ", got ") {
					t.Errorf("%s: want a detail that says want and got, got %q", b.Name, b.Detail)
				}
			}
		})
	}
	six := map[string]bool{}
	for _, r := range Rules {
		if !seen[r.Name] || r.Doc == "" {
			t.Errorf("rule %q: want a doc, and a case that breaks it", r.Name)
		}
		six[r.Signal] = true
	}
	for _, l := range (signals.Signals{}).Lines() {
		if !six[l.Name] {
			t.Errorf("signal %q: want a rule that reads it; there are rules for %s", l.Name, fmt.Sprint(six))
		}
	}
}
