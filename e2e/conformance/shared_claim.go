package conformance

import (
	"context"

	"headroom/e2e/framework/history"
	"headroom/e2e/framework/run"
	"headroom/e2e/framework/workload"
)

func init() {
	run.Register(run.Requirement{
		ID:       "shared-claim",
		Claim:    "Two pods that use one claim run beside each other on a node with room for a single volume: it counts once, and is attached once until the last pod has gone.",
		Source:   "kubernetes pkg/scheduler/framework/plugins/nodevolumelimits, Filter; KEP-4876",
		Boundary: history.Scheduler,
		Setup:    run.Setup{Nodes: []run.Node{{Limit: 1}}, Period: run.Shortest},
		Test:     sharedClaim,
	})
}

func sharedClaim(ctx context.Context, b *run.Bench) {
	node := b.Nodes[0]
	b.AwaitCount(ctx, node, 1, run.Shortest)
	shared := workload.Template{Selector: b.On(), Volumes: []workload.Volume{b.NewVolume(ctx)}}
	first, second := b.StartPod(ctx, shared), b.StartPod(ctx, shared)
	b.AwaitAttached(ctx, node, 1, run.Scheduled)
	waiting := b.WaitingPod(ctx, 1)
	b.Check(b.DeletePod(ctx, first.Name))
	b.StillRunning(ctx, second)
	b.Check(b.DeletePod(ctx, second.Name))
	b.Check(b.AwaitRunning(ctx, waiting, run.Detached+run.Requeued+run.PodStart))
}
