package conformance

import (
	"context"
	"fmt"

	"google.golang.org/grpc/codes"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/history"
	"headroom/e2e/framework/run"
)

func init() {
	run.Register(run.Requirement{
		ID: "limit-enforced",
		Claim: "As many volumes can be attached to a node as CSINode counts, and one more, which no scheduler would send there, is refused with code 8: " +
			"the driver keeps to what it reports.",
		Source:   "CSI spec 1.12, NodeGetInfo, max_volumes_per_node; ControllerPublishVolume errors",
		Boundary: history.Driver,
		Labels:   []string{run.LabelSmoke},
		Needs:    coded,
		Setup:    run.Setup{Nodes: []run.Node{{Limit: 3, AnyLimit: true}}, Period: run.Never},
		Test:     limitEnforced,
	})
}

// mostAttached is the largest count that the spec attaches volumes up to.
const mostAttached = 32

func limitEnforced(ctx context.Context, b *run.Bench) {
	node := b.Nodes[0]
	var count int32
	b.Await(ctx, run.Scheduled, func(ctx context.Context) error {
		got, err := b.Count(ctx, node)
		if err != nil {
			return err
		}
		if got == nil {
			return run.Blame(history.Driver, fmt.Errorf("CSINode %q count: want a number, got none, which is unlimited", node))
		}
		count = *got
		return nil
	})
	if count > mostAttached {
		b.Check(&cluster.UnsupportedError{Why: fmt.Sprintf("the driver reports %d volumes a node, and this spec attaches %d at most", count, mostAttached)})
	}
	var names []string
	defer func() {
		for _, name := range names {
			err := b.Record("delete", "volumeattachment", name, run.Administrator, func() error {
				return b.Client.StorageV1().VolumeAttachments().Delete(context.WithoutCancel(ctx), name, metav1.DeleteOptions{})
			})
			if err != nil {
				b.Problem("delete a VolumeAttachment", err)
			}
		}
	}()
	attach := func() string {
		pv := b.NewVolume(ctx).Claim.Spec.VolumeName
		a := &storagev1.VolumeAttachment{
			ObjectMeta: metav1.ObjectMeta{Name: "attach-" + pv},
			Spec:       storagev1.VolumeAttachmentSpec{Attacher: b.Driver, NodeName: node, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &pv}},
		}
		b.Check(b.Record("create", "volumeattachment", a.Name, run.Administrator, func() error {
			_, err := b.Client.StorageV1().VolumeAttachments().Create(ctx, a, metav1.CreateOptions{})
			return err
		}))
		names = append(names, a.Name)
		return a.Name
	}
	await := func(name string, check func(storagev1.VolumeAttachmentStatus) error) {
		b.Await(ctx, run.AttachAnswer, func(ctx context.Context) error {
			a, err := b.Client.StorageV1().VolumeAttachments().Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			return check(a.Status)
		})
	}
	for range count {
		attach()
	}
	for i, name := range names {
		await(name, func(s storagev1.VolumeAttachmentStatus) error {
			if s.Attached {
				return nil
			}
			return fmt.Errorf("attach %d of %d, which CSINode counts: want it attached, got %s", i+1, count, run.Describe(s.AttachError))
		})
	}
	await(attach(), func(s storagev1.VolumeAttachmentStatus) error {
		e := s.AttachError
		switch {
		case s.Attached:
			return fmt.Errorf("attach %d on a node that CSINode counts as taking %d: want code %s, got it attached: "+
				"the driver does not keep to the limit that it reports: %w", count+1, count, codes.ResourceExhausted, run.ErrPermanent)
		case e == nil || e.ErrorCode == nil || codes.Code(*e.ErrorCode) != codes.ResourceExhausted:
			return fmt.Errorf("attach %d on a node that CSINode counts as taking %d: want code %s, got %s", count+1, count, codes.ResourceExhausted, run.Describe(s.AttachError))
		}
		return nil
	})
}
