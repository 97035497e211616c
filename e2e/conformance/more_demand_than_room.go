package conformance

import (
	"context"

	"headroom/e2e/framework/history"
	"headroom/e2e/framework/run"
)

func init() {
	run.Register(run.Requirement{
		ID:       "more-demand-than-room",
		Claim:    "When more pods come than all nodes have room for, as many run as there is room, the others wait, and a place that appears on one node is given to one of them.",
		Source:   "KEP-4876, motivation; kubernetes pkg/scheduler/framework/plugins/nodevolumelimits",
		Boundary: history.Scheduler,
		Needs:    refreshed,
		Setup:    run.Setup{Nodes: []run.Node{{Limit: 2}, {Limit: 3}}, Period: run.Shortest, Changes: true},
		Test:     moreDemandThanRoom,
	})
}

func moreDemandThanRoom(ctx context.Context, b *run.Bench) {
	const room, demand = 5, 8
	b.AwaitCount(ctx, b.Nodes[0], 2, run.Shortest)
	b.AwaitCount(ctx, b.Nodes[1], 3, run.Shortest)
	for range demand {
		_, err := b.Pod(ctx, b.On(), b.NewVolume(ctx))
		b.Check(err)
	}
	b.AwaitPods(ctx, room, demand-room, run.PodStart)
	b.SetLimit(ctx, b.Nodes[0], 3)
	b.AwaitPods(ctx, room+1, demand-room-1, b.RiseWithin(2, 3)+run.Requeued+run.PodStart)
	b.AwaitAttached(ctx, b.Nodes[0], 3, run.Scheduled)
	b.AwaitAttached(ctx, b.Nodes[1], 3, run.Scheduled)
}
