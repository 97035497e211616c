package conformance

import (
	"context"

	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/history"
	"headroom/e2e/framework/run"
)

func init() {
	run.Register(run.Requirement{
		ID:       "driver-down-at-tick",
		Claim:    "While a registered driver does not answer the kubelet's periodic question, its count stays in CSINode; once it answers, the count follows again.",
		Source:   "KEP-4876, periodic updates; kubernetes pkg/volume/csi, updateCSIDriver",
		Boundary: history.Kubelet,
		Needs:    refreshed,
		Setup:    run.Setup{Nodes: []run.Node{{Limit: 4}}, Period: run.Shortest, Changes: true},
		Test:     driverDownAtTick,
	})
}

func driverDownAtTick(ctx context.Context, b *run.Bench) {
	node := b.Nodes[0]
	driver := "driver@" + node + "/" + b.Driver
	b.AwaitCount(ctx, node, 4, run.Shortest)
	b.Stop(ctx, driver, cluster.Kill)
	b.AwaitAsked(ctx, node, b.Asked(ctx, node), run.Shortest+b.Slack())
	b.AwaitCount(ctx, node, 4, run.Scheduled)
	b.SetLimit(ctx, node, 3)
	b.StartAgain(ctx, driver)
	b.AwaitCount(ctx, node, 3, 2*run.Shortest+b.Slack())
}
