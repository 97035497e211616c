package conformance

import (
	"context"

	"headroom/e2e/framework/history"
	"headroom/e2e/framework/run"
	"headroom/e2e/framework/workload"
)

func init() {
	run.Register(run.Requirement{
		ID:       "several-claims",
		Claim:    "A pod with two claims takes two places: with one place left it waits while a pod with one claim is placed, and it runs once two places are free.",
		Source:   "kubernetes pkg/scheduler/framework/plugins/nodevolumelimits, Filter",
		Boundary: history.Scheduler,
		Setup:    run.Setup{Nodes: []run.Node{{Limit: 3}}, Period: run.Shortest},
		Test:     severalClaims,
	})
}

func severalClaims(ctx context.Context, b *run.Bench) {
	b.AwaitCount(ctx, b.Nodes[0], 3, run.Shortest)
	first := b.StartPod(ctx, workload.Template{Selector: b.On(), Volumes: []workload.Volume{b.NewVolume(ctx), b.NewVolume(ctx)}})
	waiting := b.WaitingPod(ctx, 2)
	small := b.StartPods(ctx, 1)[0]
	b.AwaitAttached(ctx, b.Nodes[0], 3, run.Scheduled)
	b.Check(b.DeletePod(ctx, first.Name))
	b.Check(b.AwaitRunning(ctx, waiting, run.Detached+run.Requeued+run.PodStart))
	b.StillRunning(ctx, small)
}
