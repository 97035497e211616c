package conformance

import (
	"context"

	"headroom/e2e/framework/history"
	"headroom/e2e/framework/run"
)

func init() {
	run.Register(run.Requirement{
		ID:       "detach-frees-room",
		Claim:    "On a full node a pod waits until another one has gone and its volume is detached, and is then placed without the scheduler's 5 minute flush.",
		Source:   "kubernetes pkg/scheduler/framework/plugins/nodevolumelimits, QueueingHint on the end of a VolumeAttachment",
		Boundary: history.Scheduler,
		Setup:    run.Setup{Nodes: []run.Node{{Limit: 2}}, Period: run.Shortest},
		Test:     detachFreesRoom,
	})
}

func detachFreesRoom(ctx context.Context, b *run.Bench) {
	b.AwaitCount(ctx, b.Nodes[0], 2, run.Shortest)
	running := b.StartPods(ctx, 2)
	waiting := b.WaitingPod(ctx, 1)
	b.Check(b.DeletePod(ctx, running[0].Name))
	b.Check(b.AwaitRunning(ctx, waiting, run.Detached+run.Requeued+run.PodStart))
	b.StillRunning(ctx, running[1])
}
