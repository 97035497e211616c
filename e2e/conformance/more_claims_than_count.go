package conformance

import (
	"context"

	"headroom/e2e/framework/history"
	"headroom/e2e/framework/run"
)

func init() {
	run.Register(run.Requirement{
		ID:       "more-claims-than-count",
		Claim:    "A pod with more claims than any node's count stays Pending though all nodes are empty, and keeps no smaller pod from running.",
		Source:   "kubernetes pkg/scheduler/framework/plugins/nodevolumelimits, Filter",
		Boundary: history.Scheduler,
		Setup:    run.Setup{Nodes: []run.Node{{Limit: 1}, {Limit: 2}}, Period: run.Shortest},
		Test:     moreClaimsThanCount,
	})
}

func moreClaimsThanCount(ctx context.Context, b *run.Bench) {
	b.AwaitCount(ctx, b.Nodes[0], 1, run.Shortest)
	b.AwaitCount(ctx, b.Nodes[1], 2, run.Shortest)
	large := b.WaitingPod(ctx, 3)
	b.StartPods(ctx, 2)
	b.AwaitUnschedulable(ctx, large, run.MaxVolumes)
}
