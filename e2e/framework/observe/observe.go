// Package observe holds the writers of a run's history that watch from outside: the API server's watches, its audit log, a heartbeat of each
// process of the harness, and a probe of the API server.
//
// Contract: Watch, Beat and Probe write while the run goes on, Audit converts a finished log afterwards, all to one file per source below the
// run's events directory. What may have been missed is recorded as a gap event in the source that missed it; what cannot be known is recorded
// as unknown. An API server that is down, restarted or replaced is expected: nothing here gives up on it, and nothing here counts as a fault of
// the product.
//
// It does not judge, does not change objects of the cluster, and does not see CSI calls or the quota backend (drivers/gate and fixtures/quota
// write those).
package observe

import "headroom/e2e/framework/history"

// ScopeKey is the label or annotation that says which spec or step an object belongs to. An object without it has the scope of its namespace.
const ScopeKey = "headroom.dev/scope"

// gap is the event for "this source may have lost something here".
func gap(reason string) history.Event {
	return history.Event{Phase: history.Gap, Body: history.Encode(history.GapReason{Reason: reason})}
}
