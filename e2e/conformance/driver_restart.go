package conformance

import (
	"context"

	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/history"
	"headroom/e2e/framework/run"
)

func init() {
	run.Register(run.Requirement{
		ID: "driver-restart",
		Claim: "A driver that is killed and started again while its volumes are attached reports the same total as before: neither what is left of it, " +
			"nor no limit; and pods that use its volumes go on running.",
		Source:   "CSI spec 1.12, NodeGetInfo max_volumes_per_node; kubernetes-sigs/aws-ebs-csi-driver #1808",
		Boundary: history.Driver,
		Needs:    refreshed,
		Setup:    run.Setup{Nodes: []run.Node{{Limit: 4}}, Period: run.Shortest},
		Test:     driverRestart,
	})
}

func driverRestart(ctx context.Context, b *run.Bench) {
	node := b.Nodes[0]
	b.AwaitCount(ctx, node, 4, run.Shortest)
	running := b.StartPods(ctx, 2)
	b.Restart(ctx, b.DriverOn(node), cluster.Kill, 0)
	// What was known before the restart may be remembered for as long as the driver declares.
	b.WantAnswer(ctx, node, "after the restart", b.CacheAge(), 4, 4)
	b.AwaitCount(ctx, node, 4, run.Shortest)
	for _, pod := range running {
		b.StillRunning(ctx, pod)
	}
}
