package conformance

import (
	"context"

	"headroom/e2e/framework/history"
	"headroom/e2e/framework/run"
	"headroom/e2e/framework/workload"
)

func init() {
	run.Register(run.Requirement{
		ID: "deployment-rollout",
		Claim: "A rollout whose new pods, each with a volume of its own, fill the node to its limit beside the old ones ends, " +
			"and the volumes of the old pods are detached.",
		Source:   "KEP-4876, motivation; kubernetes pkg/controller/volume/attachdetach",
		Boundary: history.Scheduler,
		Setup:    run.Setup{Nodes: []run.Node{{Limit: 4}}, Period: run.Shortest},
		Test:     deploymentRollout,
	})
}

func deploymentRollout(ctx context.Context, b *run.Bench) {
	const replicas = 2
	node := b.Nodes[0]
	b.AwaitCount(ctx, node, 2*replicas, run.Shortest)
	d, err := b.Deployment(ctx, replicas, workload.Template{Selector: b.On(), Ephemeral: 1})
	b.Check(err)
	b.Check(b.AwaitDeployment(ctx, d, run.PodStart))
	b.AwaitAttached(ctx, node, replicas, run.Scheduled)
	b.Check(b.RollOut(ctx, d))
	b.Check(b.AwaitDeployment(ctx, d, run.PodStart))
	b.AwaitAttached(ctx, node, replicas, run.Detached)
}
