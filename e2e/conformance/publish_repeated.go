package conformance

import (
	"context"
	"fmt"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"headroom/e2e/framework/history"
	"headroom/e2e/framework/run"
)

func init() {
	run.Register(run.Requirement{
		ID: "publish-repeated",
		Claim: "A volume that is published again to the node that has it, as after an answer that got lost, takes no second slot: " +
			"a node with room for two volumes takes both, though one of them was published twice.",
		Source:   "CSI spec 1.12, ControllerPublishVolume: idempotent",
		Boundary: history.Driver,
		Setup:    run.Setup{Nodes: []run.Node{{Limit: 2}}, Period: run.Shortest},
		Test:     publishRepeated,
	})
}

// publishRepeated makes a second VolumeAttachment of the same volume and node, which the attacher publishes like the first.
func publishRepeated(ctx context.Context, b *run.Bench) {
	node := b.Nodes[0]
	b.AwaitCount(ctx, node, 2, run.Shortest)
	pod := b.StartPods(ctx, 1)[0]
	first, err := b.Attachments(ctx)
	b.Check(err)
	if len(first) != 1 {
		b.Check(fmt.Errorf("VolumeAttachments of driver %q: want 1, got %d", b.Driver, len(first)))
	}
	again := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: b.Scope + "-again"}, Spec: first[0].Spec}
	b.Check(b.Record("create", "volumeattachment", again.Name, run.Administrator, func() error {
		_, err := b.Client.StorageV1().VolumeAttachments().Create(ctx, again, metav1.CreateOptions{})
		return err
	}))
	// Nobody else knows of it, and the bench is not gone while it is there.
	defer func() {
		err := b.Record("delete", "volumeattachment", again.Name, run.Administrator, func() error {
			return b.Client.StorageV1().VolumeAttachments().Delete(context.WithoutCancel(ctx), again.Name, metav1.DeleteOptions{})
		})
		if err != nil {
			b.Problem("delete the second VolumeAttachment", err)
		}
	}()
	b.Await(ctx, run.AttachAnswer, func(ctx context.Context) error {
		va, err := b.Client.StorageV1().VolumeAttachments().Get(ctx, again.Name, metav1.GetOptions{})
		if err == nil && !va.Status.Attached {
			err = fmt.Errorf("VolumeAttachment %q: want it attached, got %+v", again.Name, va.Status)
		}
		return err
	})
	second, err := b.Pod(ctx, b.On(), b.NewVolume(ctx))
	b.Check(err)
	b.Check(b.AwaitRunning(ctx, second, run.PodStart))
	got, err := b.Attached(ctx, node)
	b.Check(err)
	if got != 2 {
		b.Check(fmt.Errorf("backend of node %q: want 2 slots taken by 2 volumes, got %d", node, got))
	}
	b.Check(b.DeletePod(ctx, pod.Name)) // before its volume is taken away
}
