package conformance

import (
	"context"
	"fmt"

	"headroom/e2e/framework/history"
	"headroom/e2e/framework/run"
	"headroom/e2e/framework/versions"
)

func init() {
	run.Register(run.Requirement{
		ID: "error-code-absent",
		Claim: "Where the attacher does not set errorCode, or the API server does not keep it, an attach that fails for lack of room leaves a message and no " +
			"code: the pod waits on the full node, and nobody is told why.",
		Source:   "KEP-4876, reactive updates; external-attacher pkg/features, MutableCSINodeAllocatableCount; kubernetes-sigs/aws-ebs-csi-driver #2826",
		Boundary: history.Attacher,
		Labels:   []string{run.LabelSmoke},
		Lacks:    coded,
		Setup:    run.Setup{Nodes: []run.Node{{Limit: 3}}, Period: run.Never, Changes: true},
		Test:     func(ctx context.Context, b *run.Bench) { waitWithoutCode(ctx, b) },
	})
	run.Register(run.Requirement{
		ID: "pod-not-rejected",
		Claim: "Where one part of the reactive path is missing, a pod that waits on a full node is not rejected when the kubelet's wait ends, and the count " +
			"stays as it was.",
		Source:   "KEP-4876, reactive updates; kubernetes pkg/kubelet/volumemanager/volume_manager.go, WaitForAttachAndMount",
		Boundary: history.Kubelet,
		Labels:   []string{run.LabelSlow},
		Lacks:    append([]string{versions.PodRejection}, coded...),
		Setup:    run.Setup{Nodes: []run.Node{{Limit: 3}}, Period: run.Never, Changes: true},
		Test:     podNotRejected,
	})
}

// fillSilently lets every slot of the node be taken outside Kubernetes, places a pod there, and waits until its attach has failed.
func fillSilently(ctx context.Context, b *run.Bench) run.Pod {
	node := b.Nodes[0]
	b.AwaitCount(ctx, node, 3, run.Scheduled)
	b.SetForeign(ctx, node, 3) // nobody tells Kubernetes
	pod, err := b.Pod(ctx, b.On(), b.NewVolume(ctx))
	b.Check(err)
	b.AwaitScheduled(ctx, pod)
	awaitAttachError(ctx, b, node)
	return pod
}

// awaitAttachError waits until an attach of the bench's driver has failed.
func awaitAttachError(ctx context.Context, b *run.Bench, node string) {
	b.Await(ctx, run.AttachAnswer, func(ctx context.Context) error {
		all, err := b.Attachments(ctx)
		for _, va := range all {
			if va.Status.AttachError != nil {
				return nil
			}
		}
		if err == nil {
			err = fmt.Errorf("node %q: want a VolumeAttachment with an attachError, got none of %d", node, len(all))
		}
		return err
	})
}

func waitWithoutCode(ctx context.Context, b *run.Bench) {
	pod := fillSilently(ctx, b)
	all, err := b.Attachments(ctx)
	b.Check(err)
	for _, va := range all {
		if e := va.Status.AttachError; e != nil && (e.Message == "" || e.ErrorCode != nil) {
			b.Check(fmt.Errorf("VolumeAttachment %q: want attachError with a message and no errorCode, got %+v", va.Name, e))
		}
	}
	b.StillPending(ctx, pod)
}

func podNotRejected(ctx context.Context, b *run.Bench) {
	pod := fillSilently(ctx, b)
	b.Elapse(ctx, run.Rejection+b.Slack())
	b.StillPending(ctx, pod)
}
