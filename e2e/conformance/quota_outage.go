package conformance

import (
	"context"
	"time"

	"headroom/e2e/framework/history"
	"headroom/e2e/framework/run"
	"headroom/fixtures/quota"
)

func init() {
	for _, o := range outages {
		run.Register(run.Requirement{
			ID: "quota-outage-" + o.name,
			Claim: "While the backend " + o.does + ", the driver reports the last good value for its declared life and then no more than what is attached: " +
				"a finite count throughout. After the outage the count comes back.",
			Source:   "CSI spec 1.12, NodeGetInfo: max_volumes_per_node 0 means no limit, so an unknown quota must not become one",
			Boundary: history.Driver,
			Needs:    refreshed,
			Setup:    run.Setup{Nodes: []run.Node{{Limit: 6}}, Period: run.Shortest, Changes: true},
			Test:     func(ctx context.Context, b *run.Bench) { quotaOutage(ctx, b, o.fault) },
		})
	}
}

// outages are the ways in which a backend fails that a driver meets differently: a connection that breaks, no answer at all, and an answer that is wrong.
var outages = []struct {
	name, does string
	fault      quota.Fault
}{
	{name: "refuse", does: "resets connections", fault: quota.Fault{Mode: quota.Refuse}},
	{name: "hang", does: "does not answer", fault: quota.Fault{Mode: quota.Hang}},
	{name: "garbage", does: "answers nonsense", fault: quota.Fault{Mode: quota.Garbage}},
}

func quotaOutage(ctx context.Context, b *run.Bench, fault quota.Fault) {
	const limit, used = 6, 2
	node := b.Nodes[0]
	b.AwaitCount(ctx, node, limit, run.Shortest)
	b.StartPods(ctx, used)
	life := time.Duration(b.Header.Params.Driver.LastGoodLife)
	fault.Nodes = b.Nodes
	b.Break(ctx, fault)
	// The last good value may be reported for its life, counted from when it was asked for; then the kubelet needs a period to see the next one.
	b.AwaitCount(ctx, node, used, life+2*run.Shortest+b.Slack())
	b.Heal(ctx)
	b.AwaitCount(ctx, node, limit, b.RiseWithin(used, limit))
}
