package conformance

import (
	"context"
	"slices"

	"google.golang.org/grpc/codes"

	"headroom/e2e/framework/history"
	"headroom/e2e/framework/run"
	"headroom/fixtures/quota"
)

func init() {
	run.Register(run.Requirement{
		ID: "throttled",
		Claim: "While the backend throttles, the count stays as it was and an attach fails with a code that does not claim a full node; " +
			"when it no longer does, the pod that waited runs where it was placed.",
		Source:   "CSI spec 1.13, ControllerPublishVolume errors; kubernetes-sigs/gcp-compute-persistent-disk-csi-driver #298",
		Boundary: history.Driver,
		Needs:    slices.Concat(refreshed, coded),
		Setup:    run.Setup{Nodes: []run.Node{{Limit: 3}}, Period: run.Shortest, Changes: true},
		Test:     throttled,
	})
}

func throttled(ctx context.Context, b *run.Bench) {
	node := b.Nodes[0]
	b.AwaitCount(ctx, node, 3, run.Shortest)
	b.Break(ctx, quota.Fault{Mode: quota.Throttle, Nodes: b.Nodes})
	pod, err := b.Pod(ctx, b.On(), b.NewVolume(ctx))
	b.Check(err)
	b.AwaitScheduled(ctx, pod)
	b.AwaitAttachCode(ctx, node, "throttled", codes.Unavailable, codes.DeadlineExceeded, codes.Aborted, codes.Internal)
	b.WantAnswer(ctx, node, "while the backend throttles", 0, 3, 3)
	b.Heal(ctx)
	b.Check(b.AwaitRunning(ctx, pod, run.PodStart))
}
