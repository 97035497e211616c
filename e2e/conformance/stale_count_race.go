package conformance

import (
	"context"
	"fmt"

	"google.golang.org/grpc/codes"
	storagev1 "k8s.io/api/storage/v1"

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
		Setup:    run.Setup{Nodes: []run.Node{{Limit: 3}}, Period: run.Never},
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
	b.AwaitAttachError(ctx, node, func(va storagev1.VolumeAttachment) error {
		e := va.Status.AttachError
		if e == nil || e.ErrorCode == nil || codes.Code(*e.ErrorCode) != codes.ResourceExhausted {
			return fmt.Errorf("VolumeAttachment of node %q: want errorCode %v, got %v", node, codes.ResourceExhausted, describe(e))
		}
		return nil
	})
	state, err := b.Quota.State(ctx)
	b.Check(err)
	if got := state.Nodes[node].Quota.Attached; got != 2 {
		b.Check(fmt.Errorf("backend of node %q: want 2 volumes attached, got %d", node, got))
	}
}

func describe(e *storagev1.VolumeError) string {
	switch {
	case e == nil:
		return "no error"
	case e.ErrorCode == nil:
		return fmt.Sprintf("no code with message %q", e.Message)
	}
	return fmt.Sprintf("%v with message %q", codes.Code(*e.ErrorCode), e.Message)
}
