package conformance

import (
	"context"

	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/history"
	"headroom/e2e/framework/run"
	"headroom/fixtures/quota"
)

func init() {
	run.Register(run.Requirement{
		ID: "registration-in-outage",
		Claim: "A driver that is registered anew while the backend does not answer, because the kubelet was restarted, is registered with its last good count. " +
			"A registration that fails removes the entry, which means no limit.",
		Source:   "kubernetes pkg/volume/csi/csi_plugin.go, RegisterPlugin",
		Boundary: history.Driver,
		Needs:    refreshed,
		Setup:    run.Setup{Nodes: []run.Node{{Limit: 4}}, Period: run.Shortest, Changes: true},
		Test:     registrationInOutage,
	})
}

func registrationInOutage(ctx context.Context, b *run.Bench) {
	node := b.Nodes[0]
	b.AwaitCount(ctx, node, 4, run.Shortest)
	b.Break(ctx, quota.Fault{Mode: quota.Refuse, Nodes: b.Nodes})
	// Down for so long that the driver cannot answer the registration from its cache.
	b.Restart(ctx, "kubelet@"+node, cluster.Terminate, b.CacheAge())
	b.WantAnswer(ctx, node, "while the backend is away", 0, 4, 4)
	b.AwaitCount(ctx, node, 4, run.Shortest)
	b.Heal(ctx)
}
