package conformance

import (
	"context"
	"math"
	"time"

	"headroom/e2e/framework/history"
	"headroom/e2e/framework/run"
)

func init() {
	run.Register(run.Requirement{
		ID: "period-changes",
		Claim: "A period that is changed, unset, set to the longest that a kubelet can count, and set again takes effect each time within one new period, " +
			"and no ticker of an earlier period goes on.",
		Source:   "KEP-4876, nodeAllocatableUpdatePeriodSeconds; kubernetes pkg/volume/csi/csi_node_updater.go",
		Boundary: history.Kubelet,
		Labels:   []string{run.LabelSlow},
		Needs:    refreshed,
		Setup:    run.Setup{Nodes: []run.Node{{Limit: 4}}, Period: run.Shortest, Changes: true},
		Test:     periodChanges,
	})
}

func periodChanges(ctx context.Context, b *run.Bench) {
	node := b.Nodes[0]
	b.AwaitCount(ctx, node, 4, run.Shortest)
	set := func(period time.Duration) {
		seconds := int64(period / time.Second)
		b.SetPeriod(ctx, &seconds)
	}
	const second = 12 * time.Second
	set(second)
	before := b.Asked(ctx, node)
	b.AwaitAsked(ctx, node, before, second+b.Slack())
	b.SetPeriod(ctx, nil)
	b.Elapse(ctx, 2*second+2*b.Slack())
	set(math.MaxInt64)
	b.Elapse(ctx, 30*time.Second+b.Slack())
	b.SetLimit(ctx, node, 3)
	set(run.Shortest)
	b.AwaitCount(ctx, node, 3, run.Shortest+b.Slack())
}
