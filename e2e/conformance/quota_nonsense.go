package conformance

import (
	"context"

	"headroom/e2e/framework/history"
	"headroom/e2e/framework/run"
	"headroom/fixtures/quota"
)

func init() {
	run.Register(run.Requirement{
		ID: "quota-nonsense",
		Claim: "A quota that cannot be true does not become a count: one that is absurdly high, or older than one that the driver knows already, " +
			"leaves the count as it is, and a negative one never means no limit.",
		Source:   "CSI spec 1.12, NodeGetInfo max_volumes_per_node; kubernetes-sigs/aws-ebs-csi-driver #1361",
		Boundary: history.Driver,
		Needs:    refreshed,
		Setup:    run.Setup{Nodes: []run.Node{{Limit: 5}}, Period: run.Shortest, Changes: true},
		Test:     quotaNonsense,
	})
}

func quotaNonsense(ctx context.Context, b *run.Bench) {
	node := b.Nodes[0]
	b.AwaitCount(ctx, node, 5, run.Shortest)
	b.SetLimit(ctx, node, 3)
	b.AwaitCount(ctx, node, 3, run.Shortest+b.Slack())
	for _, n := range []struct {
		mode  quota.Mode
		when  string
		least int64
	}{
		{quota.Huge, "while the backend names a limit of 2^40", 3},
		{quota.Stale, "while the backend names the limit of before", 3},
		{quota.Negative, "while the backend names a limit of -1", 1}, // which may as well mean that there is no room
	} {
		b.Break(ctx, quota.Fault{Mode: n.mode, Nodes: b.Nodes})
		b.WantAnswer(ctx, node, n.when, b.CacheAge(), n.least, 3)
	}
	b.Heal(ctx)
}
