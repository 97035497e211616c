package conformance

import (
	"context"
	"fmt"

	"google.golang.org/grpc/codes"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"headroom/e2e/framework/history"
	"headroom/e2e/framework/run"
)

func init() {
	run.Register(run.Requirement{
		ID:       "error-code-stored",
		Claim:    "The API server stores the errorCode of a VolumeAttachment's attachError, and refuses a negative one with 422.",
		Source:   "KEP-4876, VolumeError.errorCode; kubernetes pkg/registry/storage/volumeattachment",
		Boundary: history.APIServer,
		Labels:   []string{run.LabelSmoke},
		Setup:    run.Setup{},
		Test:     errorCodeStored,
	})
}

func errorCodeStored(ctx context.Context, b *run.Bench) {
	attachments := b.Client.StorageV1().VolumeAttachments()
	volume := "nothing"
	made, err := attachments.Create(ctx, &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: "code." + b.Driver},
		Spec: storagev1.VolumeAttachmentSpec{
			Attacher: "nobody.headroom.test", NodeName: "nowhere", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &volume},
		},
	}, metav1.CreateOptions{})
	b.Check(err)
	defer func() { b.Check(attachments.Delete(context.WithoutCancel(ctx), made.Name, metav1.DeleteOptions{})) }()
	set := func(code int32) error {
		va, err := attachments.Get(ctx, made.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		va.Status.AttachError = &storagev1.VolumeError{Time: metav1.Now(), Message: "full", ErrorCode: &code}
		_, err = attachments.UpdateStatus(ctx, va, metav1.UpdateOptions{})
		return err
	}
	want := int32(codes.ResourceExhausted)
	b.Check(set(want))
	va, err := attachments.Get(ctx, made.Name, metav1.GetOptions{})
	b.Check(err)
	if e := va.Status.AttachError; e == nil || e.ErrorCode == nil || *e.ErrorCode != want {
		b.Check(fmt.Errorf("VolumeAttachment %q: want attachError with errorCode %d, got %+v", made.Name, want, e))
	}
	b.WantInvalid("set errorCode -1", set(-1))
}
