package conformance

import (
	"context"

	"headroom/e2e/framework/history"
	"headroom/e2e/framework/run"
)

func init() {
	run.Register(run.Requirement{
		ID: "foreign-attachments",
		Claim: "Slots of a node that are taken outside Kubernetes are taken off the count within one period, and the count stays there: " +
			"no later refresh brings the old one back.",
		Source:   "KEP-4876, motivation; kubernetes-sigs/aws-ebs-csi-driver #2939",
		Boundary: history.Driver,
		Needs:    refreshed,
		Setup:    run.Setup{Nodes: []run.Node{{Limit: 5}}, Period: run.Shortest, Changes: true},
		Test:     foreignAttachments,
	})
}

func foreignAttachments(ctx context.Context, b *run.Bench) {
	node := b.Nodes[0]
	b.AwaitCount(ctx, node, 5, run.Shortest)
	b.SetForeign(ctx, node, 2)
	b.AwaitCount(ctx, node, 3, run.Shortest+b.Slack())
	b.WantAnswer(ctx, node, "after the count fell", 0, 3, 3)
	b.AwaitCount(ctx, node, 3, run.Scheduled)
}
