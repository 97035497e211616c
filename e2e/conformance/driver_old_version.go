package conformance

import (
	"context"

	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/history"
	"headroom/e2e/framework/run"
)

func init() {
	run.Register(run.Requirement{
		ID: "driver-old-version",
		Claim: "An older release of the driver that comes back after a newer one was killed, as from a rollout that failed half-way, does not bring back " +
			"the count of its own time.",
		Source:   "KEP-4876: the kubelet writes what whichever instance answers; kubernetes #126921",
		Boundary: history.Driver,
		Needs:    refreshed,
		Setup:    run.Setup{Nodes: []run.Node{{Limit: 6}}, Period: run.Shortest, Changes: true, Releases: true},
		Test:     driverOldVersion,
	})
}

func driverOldVersion(ctx context.Context, b *run.Bench) {
	node := b.Nodes[0]
	b.AwaitCount(ctx, node, 6, run.Shortest)
	b.Replace(ctx, node, cluster.Terminate, 2)
	b.SetLimit(ctx, node, 3)
	b.AwaitCount(ctx, node, 3, run.Shortest+b.Slack())
	b.Replace(ctx, node, cluster.Kill, 1)
	b.WantAnswer(ctx, node, "from the older release", 0, 3, 3)
	b.AwaitCount(ctx, node, 3, run.Scheduled)
}
