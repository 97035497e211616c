package conformance

import (
	"context"

	"headroom/e2e/framework/history"
	"headroom/e2e/framework/run"
	"headroom/fixtures/quota"
)

func init() {
	run.Register(run.Requirement{
		ID:       "attach-outage",
		Claim:    "A pod whose volume cannot be attached while the backend is away runs once the backend is back, and the node's count, which nothing was wrong with, stays.",
		Source:   "kubernetes-csi external-attacher, which tries again from 1 s on, doubling to 5 min",
		Boundary: history.Attacher,
		Setup:    run.Setup{Nodes: []run.Node{{Limit: 3}}, Period: run.Shortest, Changes: true},
		Test:     attachOutage,
	})
}

func attachOutage(ctx context.Context, b *run.Bench) {
	node := b.Nodes[0]
	b.AwaitCount(ctx, node, 3, run.Shortest)
	breakAttach(ctx, b, node, quota.Refuse)
	pod, err := b.Pod(ctx, b.On(), b.NewVolume(ctx))
	b.Check(err)
	b.AwaitScheduled(ctx, pod)
	awaitAttachError(ctx, b, node)
	b.StillPending(ctx, pod)
	b.Heal(ctx)
	b.Check(b.AwaitRunning(ctx, pod, run.PodStart))
	b.AwaitCount(ctx, node, 3, run.Scheduled)
}
