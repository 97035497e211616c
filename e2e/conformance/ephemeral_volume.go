package conformance

import (
	"context"

	"headroom/e2e/framework/history"
	"headroom/e2e/framework/run"
	"headroom/e2e/framework/workload"
)

func init() {
	run.Register(run.Requirement{
		ID: "ephemeral-volume",
		Claim: "Generic ephemeral volumes count as any others do: a pod with two fills a node with room for two, another pod waits, " +
			"and is placed when the first has gone and its volumes are detached.",
		Source:   "kubernetes pkg/scheduler/framework/plugins/nodevolumelimits, filterAttachableVolumes",
		Boundary: history.Scheduler,
		Setup:    run.Setup{Nodes: []run.Node{{Limit: 2}}, Period: run.Shortest},
		Test:     ephemeralVolume,
	})
}

func ephemeralVolume(ctx context.Context, b *run.Bench) {
	node := b.Nodes[0]
	b.AwaitCount(ctx, node, 2, run.Shortest)
	first := b.StartPod(ctx, workload.Template{Selector: b.On(), Ephemeral: 2})
	b.AwaitAttached(ctx, node, 2, run.Scheduled)
	// The one that waits has a claim: pods with nothing but ephemeral volumes are not requeued by a detach (detach-requeues, known upstream).
	waiting := b.WaitingPod(ctx, 1)
	b.Check(b.DeletePod(ctx, first.Name))
	b.Check(b.AwaitRunning(ctx, waiting, run.Detached+run.Requeued+run.PodStart))
	b.AwaitAttached(ctx, node, 1, run.Detached)
}
