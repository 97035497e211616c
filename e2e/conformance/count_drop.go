// Package conformance holds the requirements, one per file: what it claims first, then the spec.
//
// A spec states liveness, by waiting; that nothing bad happened meanwhile is for the invariants, which read the history.
package conformance

import (
	"context"

	"headroom/e2e/framework/history"
	"headroom/e2e/framework/run"
)

func init() {
	run.Register(run.Requirement{
		ID:       "count-drop",
		Claim:    "When the backend's limit falls, CSINode shows it within one period, volumes that are attached stay, and no further pod is placed.",
		Source:   "KEP-4876, periodic updates",
		Boundary: history.Kubelet,
		Labels:   []string{run.LabelSmoke},
		Needs:    refreshed,
		Setup:    run.Setup{Nodes: []run.Node{{Limit: 4}}, Period: run.Shortest, Changes: true},
		Test:     countDrop,
	})
}

func countDrop(ctx context.Context, b *run.Bench) {
	node := b.Nodes[0]
	b.AwaitCount(ctx, node, 4, run.Shortest)
	running := b.StartPods(ctx, 2)
	b.SetLimit(ctx, node, 2)
	b.AwaitCount(ctx, node, 2, run.Shortest+b.Slack())
	late, err := b.Pod(ctx, b.On(), b.NewVolume(ctx))
	b.Check(err)
	b.AwaitUnschedulable(ctx, late, "exceed max volume count")
	for _, pod := range running {
		b.StillRunning(ctx, pod)
	}
}
