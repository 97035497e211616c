package conformance

import (
	"context"

	"headroom/e2e/framework/history"
	"headroom/e2e/framework/run"
	"headroom/e2e/framework/workload"
)

func init() {
	run.Register(run.Requirement{
		ID: "statefulset-restart",
		Claim: "A StatefulSet that fills its node comes back after all its pods were deleted: each gets its own volume again, " +
			"though the volumes of the old pods count until they are detached.",
		Source:   "kubernetes pkg/scheduler/framework/plugins/nodevolumelimits, which counts a lingering VolumeAttachment of the pod's own volume too",
		Boundary: history.Scheduler,
		Setup:    run.Setup{Nodes: []run.Node{{Limit: 2}}, Period: run.Shortest},
		Test:     statefulSetRestart,
	})
}

func statefulSetRestart(ctx context.Context, b *run.Bench) {
	node := b.Nodes[0]
	b.AwaitCount(ctx, node, 2, run.Shortest)
	set, err := b.StatefulSet(ctx, 2, workload.Template{Selector: b.On()})
	b.Check(err)
	b.Check(b.AwaitStatefulSet(ctx, set, run.PodStart))
	b.AwaitAttached(ctx, node, 2, run.Scheduled)
	b.DeleteAllPods(ctx)
	b.Check(b.AwaitStatefulSet(ctx, set, run.Detached+run.Requeued+run.PodStart))
	b.AwaitAttached(ctx, node, 2, run.Scheduled)
}
