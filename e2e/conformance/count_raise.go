package conformance

import (
	"context"

	"headroom/e2e/framework/history"
	"headroom/e2e/framework/run"
)

func init() {
	run.Register(run.Requirement{
		ID:       "count-raise",
		Claim:    "When the backend's limit rises, CSINode follows, as fast as the driver's declared step allows, and a pod that waited for room is placed.",
		Source:   "KEP-4876, periodic updates; kubernetes pkg/scheduler/framework/plugins/nodevolumelimits, QueueingHint",
		Boundary: history.Kubelet,
		Needs:    refreshed,
		Setup:    run.Setup{Nodes: []run.Node{{Limit: 2}}, Period: run.Shortest, Changes: true},
		Test:     countRaise,
	})
}

func countRaise(ctx context.Context, b *run.Bench) {
	node := b.Nodes[0]
	b.AwaitCount(ctx, node, 2, run.Shortest)
	b.StartPods(ctx, 2)
	waiting, err := b.Pod(ctx, b.On(), b.NewVolume(ctx))
	b.Check(err)
	b.AwaitUnschedulable(ctx, waiting, "exceed max volume count")
	b.SetLimit(ctx, node, 5)
	b.AwaitCount(ctx, node, 5, b.RiseWithin(2, 5))
	b.Check(b.AwaitRunning(ctx, waiting, run.PodStart))
}
