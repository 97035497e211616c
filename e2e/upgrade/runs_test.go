package upgrade

import (
	"path/filepath"
	"testing"
	"time"

	"headroom/e2e/framework/history"
	"headroom/e2e/framework/report/signals"
	"headroom/e2e/framework/stoprules"
)

// TestRecordedRuns reads the signals of recorded runs (fixtures/runs) as a bake reads them, every 2 s: three drivers that degrade in different ways are
// stopped, and the reference driver is not, while its quota changes, its nodes are full and attaches are refused.
func TestRecordedRuns(t *testing.T) {
	for name, want := range map[string]string{
		"all-internal": "attach-fails-without-class", "negative": "no-count", "unlimited-on-outage": "no-count",
		"steady": "", "waiting": "", "stale-count": "",
	} {
		t.Run(name, func(t *testing.T) {
			got, at := decideOverRun(t, filepath.Join("..", "..", "fixtures", "runs", name+".jsonl"))
			if got != want {
				t.Errorf("want it stopped by %q, got %q at %s", want, got, at)
			}
			if want != "" && (at < bakeLook || at > time.Minute) {
				t.Errorf("want it stopped soon, got it at %s", at)
			}
		})
	}
}

// decideOverRun returns the rule that stops a recorded run, "" for none, and when.
func decideOverRun(t *testing.T, path string) (rule string, at time.Duration) {
	t.Helper()
	r, err := history.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	bounds := stoprules.Bounds{UpdateDelay: 74 * time.Second, Period: Period}
	c := signals.New(r.Header())
	var d decider
	var from, next time.Duration // the window begins once a node has registered its driver, as a bake does
	for e, err := range r.All() {
		if err != nil {
			t.Fatal(err)
		}
		var n history.CSINode
		if from == 0 && e.Source == "api/csinodes" && e.Decode(&n) == nil && len(n.Drivers) > 0 && n.Drivers[0].Count != nil {
			from, next = e.At+1, e.At+bakeLook
		}
		for from > 0 && e.At >= next {
			if got := d.decide(look{bounds, c.Since(from)}); got.stop {
				return got.broken.Name, next - from
			}
			next += bakeLook
		}
		c.Observe(e)
	}
	return "", 0
}
