package policy

import (
	"testing"
	"time"

	"headroom/e2e/framework/history"
)

// TestStaleReadIsNoAnswer lets the backend fall back to an older generation, as a replica that lags does.
func TestStaleReadIsNoAnswer(t *testing.T) {
	older, newer := history.Quota{Generation: 1, Limit: 8}, history.Quota{Generation: 2, Limit: 3}
	bubble(t, older, func(r *rig) {
		r.want(8)
		r.up(newer)
		time.Sleep(3 * time.Second)
		r.want(3)
		r.up(older)
		time.Sleep(3 * time.Second)
		r.want(3)
		if !r.policy.Failing() {
			t.Error("want the stale answer to count as a failure")
		}
		r.start() // the generation outlives the process
		time.Sleep(13 * time.Second)
		r.want(3)
		r.up(newer)
		time.Sleep(3 * time.Second)
		r.want(3)
	})
}

// TestBackendThatCountsAnew shows that a backend which lost its count is believed once the last good value has expired.
func TestBackendThatCountsAnew(t *testing.T) {
	bubble(t, history.Quota{Generation: 9, Limit: 3}, func(r *rig) {
		r.want(3)
		r.up(history.Quota{Generation: 1, Limit: 5})
		time.Sleep(29 * time.Second)
		r.want(3)
		time.Sleep(2 * time.Second)
		r.want(1) // expired, with nothing attached
		time.Sleep(13 * time.Second)
		r.want(3)
		time.Sleep(10 * time.Second)
		r.want(5)
	})
}
