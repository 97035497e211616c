package conformance

import (
	"context"

	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/history"
	"headroom/e2e/framework/run"
)

func init() {
	run.Register(run.Requirement{
		ID: "kubelet-restart",
		Claim: "A kubelet that is killed and started again keeps the driver's count in CSINode and the pods that run, registers the driver anew, and goes on " +
			"asking it every period.",
		Source:   "KEP-4876, periodic updates; kubernetes pkg/volume/csi, RegisterPlugin",
		Boundary: history.Kubelet,
		Needs:    refreshed,
		Setup:    run.Setup{Nodes: []run.Node{{Limit: 4}}, Period: run.Shortest, Changes: true},
		Test:     kubeletRestart,
	})
}

func kubeletRestart(ctx context.Context, b *run.Bench) {
	node := b.Nodes[0]
	b.AwaitCount(ctx, node, 4, run.Shortest)
	pod := b.StartPods(ctx, 1)[0]
	b.Stop(ctx, "kubelet@"+node, cluster.Kill)
	before := b.Asked(ctx, node)
	b.StartAgain(ctx, "kubelet@"+node)
	b.AwaitCount(ctx, node, 4, run.Scheduled)
	b.AwaitAsked(ctx, node, before, run.PodStart) // in the registration
	b.AwaitAsked(ctx, node, before+1, run.Shortest+b.Slack())
	b.StillRunning(ctx, pod)
	b.SetLimit(ctx, node, 3)
	b.AwaitCount(ctx, node, 3, run.Shortest+b.Slack())
}
