package conformance

import (
	"context"
	"fmt"

	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/history"
	"headroom/e2e/framework/run"
	"headroom/e2e/framework/versions"
)

func init() {
	run.Register(run.Requirement{
		ID: "count-stays",
		Claim: "A kubelet without the feature asks a driver at its registration only: with a period set, or without, the count stays as it was when the " +
			"backend's limit falls, until the driver is registered anew.",
		Source:   "KEP-4876, version skew; kubernetes pkg/volume/csi/csi_plugin.go",
		Boundary: history.Kubelet,
		Labels:   []string{run.LabelSmoke},
		Lacks:    []string{versions.PeriodicRefresh},
		Setup:    run.Setup{Nodes: []run.Node{{Limit: 4}}, Period: run.Shortest, Changes: true},
		Test:     countStays,
	})
}

func countStays(ctx context.Context, b *run.Bench) {
	node := b.Nodes[0]
	b.AwaitCount(ctx, node, 4, run.Scheduled)
	before := b.Asked(ctx, node)
	b.SetLimit(ctx, node, 3)
	b.Elapse(ctx, 2*run.Shortest+b.Slack())
	if got := b.Asked(ctx, node); got != before {
		b.Check(fmt.Errorf("NodeGetInfo of node %q over two periods: want no call, got %d", node, got-before))
	}
	b.AwaitCount(ctx, node, 4, run.Scheduled)
	b.Restart(ctx, "kubelet@"+node, cluster.Terminate, 0) // which registers the driver anew
	b.AwaitCount(ctx, node, 3, run.PodStart)
}
