package conformance

import (
	"context"

	"headroom/e2e/framework/history"
	"headroom/e2e/framework/run"
	"headroom/e2e/framework/workload"
)

func init() {
	run.Register(run.Requirement{
		ID: "job-completes",
		Claim: "A Job whose pods share one claim completes on a node with room for one volume, and its volume is detached though its pods, which have succeeded, " +
			"are still there.",
		Source:   "kubernetes pkg/controller/volume/attachdetach, which lets go of the volumes of ended pods",
		Boundary: history.ControllerManager,
		Setup:    run.Setup{Nodes: []run.Node{{Limit: 1}}, Period: run.Shortest},
		Test:     jobCompletes,
	})
}

func jobCompletes(ctx context.Context, b *run.Bench) {
	node := b.Nodes[0]
	b.AwaitCount(ctx, node, 1, run.Shortest)
	job, err := b.Job(ctx, 4, 2, workload.Template{Selector: b.On(), Volumes: []workload.Volume{b.NewVolume(ctx)}, Command: "sleep 1; exit 0"})
	b.Check(err)
	b.Check(b.AwaitJob(ctx, job, run.PodStart+run.Detached))
	b.AwaitAttached(ctx, node, 0, run.Detached)
	b.StartPods(ctx, 1)
}
