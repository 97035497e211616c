package conformance

import (
	"context"

	"google.golang.org/grpc/codes"

	"headroom/e2e/framework/history"
	"headroom/e2e/framework/run"
)

func init() {
	run.Register(run.Requirement{
		ID: "reactive-refresh",
		Claim: "A pod that cannot attach for lack of room is rejected with reason VolumeAttachmentLimitExceeded when the kubelet's wait ends, " +
			"CSINode is refreshed at that moment, and a pod made afterwards goes to the node that has room.",
		Source:   "KEP-4876, reactive updates; kubernetes pkg/kubelet/volumemanager/volume_manager.go, WaitForAttachAndMount",
		Boundary: history.Kubelet,
		Labels:   []string{run.LabelSlow},
		Needs:    rejected,
		Setup:    run.Setup{Nodes: []run.Node{{Limit: 3}, {Limit: 3}}, Period: run.Never, Changes: true},
		Test:     reactiveRefresh,
	})
}

func reactiveRefresh(ctx context.Context, b *run.Bench) {
	full, free := b.Nodes[0], b.Nodes[1]
	for _, node := range b.Nodes {
		b.AwaitCount(ctx, node, 3, run.Scheduled)
	}
	b.SetForeign(ctx, full, 3) // nobody tells Kubernetes
	rejected, err := b.Pod(ctx, b.On(0), b.NewVolume(ctx))
	b.Check(err)
	b.AwaitAttachCode(ctx, full, "full", codes.ResourceExhausted)
	b.Check(b.AwaitFailed(ctx, rejected, run.RejectionReason, run.Rejection+b.Slack()))
	// No room at all is reported as 1, because 0 would mean unlimited.
	b.AwaitCount(ctx, full, 1, run.Scheduled)
	b.AwaitCount(ctx, free, 3, run.Scheduled)
	next, err := b.Pod(ctx, b.On(), b.NewVolume(ctx), b.NewVolume(ctx))
	b.Check(err)
	b.Check(b.AwaitRunning(ctx, next, run.PodStart))
}
