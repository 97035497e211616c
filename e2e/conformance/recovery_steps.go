package conformance

import (
	"context"

	"headroom/e2e/framework/history"
	"headroom/e2e/framework/run"
)

func init() {
	run.Register(run.Requirement{
		ID: "recovery-steps",
		Claim: "When a limit that had fallen is back, the count follows as fast as the driver's declared step and interval allow, and no faster: " +
			"a count that jumps fills a node before the next refresh can show that the limit fell again.",
		Source:   "KEP-4876, risks; the driver's declared step",
		Boundary: history.Driver,
		Needs:    refreshed,
		Setup:    run.Setup{Nodes: []run.Node{{Limit: 8}}, Period: run.Shortest, Changes: true},
		Test:     recoverySteps,
	})
}

// recoverySteps waits for the fall and the rise; that the rise is gradual is for the invariant gradual-recovery.
func recoverySteps(ctx context.Context, b *run.Bench) {
	node := b.Nodes[0]
	b.AwaitCount(ctx, node, 8, run.Shortest)
	b.SetLimit(ctx, node, 2)
	b.AwaitCount(ctx, node, 2, run.Shortest+b.Slack())
	b.SetLimit(ctx, node, 8)
	b.AwaitCount(ctx, node, 8, b.RiseWithin(2, 8))
}
