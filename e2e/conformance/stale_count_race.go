package conformance

import (
	"context"
	"fmt"

	"google.golang.org/grpc/codes"

	"headroom/e2e/framework/history"
	"headroom/e2e/framework/run"
)

func init() {
	run.Register(run.Requirement{
		ID: "stale-count-race",
		Claim: "The count is a hint: between a drop and the next refresh the scheduler still sees room and places a pod; " +
			"attach checks again, refuses with RESOURCE_EXHAUSTED, and the backend never holds more than its limit.",
		Source:   "KEP-4876, motivation; CSI spec 1.12, ControllerPublishVolume errors",
		Boundary: history.Driver,
		Labels:   []string{run.LabelSmoke},
		Needs:    coded,
		Setup:    run.Setup{Nodes: []run.Node{{Limit: 3}}, Period: run.Never, Changes: true},
		Test:     staleCountRace,
	})
}

func staleCountRace(ctx context.Context, b *run.Bench) {
	node := b.Nodes[0]
	b.AwaitCount(ctx, node, 3, run.Scheduled)
	b.StartPods(ctx, 2)
	b.SetLimit(ctx, node, 2) // and no refresh for an hour
	raced, err := b.Pod(ctx, b.On(), b.NewVolume(ctx))
	b.Check(err)
	b.AwaitScheduled(ctx, raced)
	b.AwaitAttachCode(ctx, node, "full", codes.ResourceExhausted)
	got, err := b.Attached(ctx, node)
	b.Check(err)
	if got != 2 {
		b.Check(fmt.Errorf("backend of node %q: want 2 volumes attached, got %d", node, got))
	}
}
