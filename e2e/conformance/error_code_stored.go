package conformance

import (
	"context"
	"fmt"

	"google.golang.org/grpc/codes"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"headroom/e2e/framework/history"
	"headroom/e2e/framework/run"
	"headroom/e2e/framework/versions"
)

func init() {
	run.Register(run.Requirement{
		ID:       "error-code-stored",
		Claim:    "The API server stores the errorCode of a VolumeAttachment's attachError, and refuses a negative one with 422.",
		Source:   "KEP-4876, VolumeError.errorCode; kubernetes pkg/registry/storage/volumeattachment",
		Boundary: history.APIServer,
		Labels:   []string{run.LabelSmoke},
		Needs:    []string{versions.ErrorCodeStored},
		Setup:    run.Setup{},
		Test:     errorCodeStored,
	})
}

func errorCodeStored(ctx context.Context, b *run.Bench) {
	va := newAttachment(ctx, b, "code."+b.Driver)
	defer va.remove(ctx)
	want := int32(codes.ResourceExhausted)
	b.Check(va.setCode(ctx, want))
	if e := va.attachError(ctx); e == nil || e.ErrorCode == nil || *e.ErrorCode != want {
		b.Check(fmt.Errorf("VolumeAttachment %q: want attachError with errorCode %d, got %+v", va.name, want, e))
	}
	b.WantInvalid("set errorCode -1", va.setCode(ctx, -1))
}

// attachment is a VolumeAttachment that belongs to no attacher, so that nobody else writes its status.
type attachment struct {
	*run.Bench
	name string
}

func newAttachment(ctx context.Context, b *run.Bench, name string) attachment {
	volume := "nothing"
	_, err := b.Client.StorageV1().VolumeAttachments().Create(ctx, &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: storagev1.VolumeAttachmentSpec{
			Attacher: "nobody.headroom.test", NodeName: "nowhere", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &volume},
		},
	}, metav1.CreateOptions{})
	b.Check(err)
	return attachment{Bench: b, name: name}
}

func (a attachment) remove(ctx context.Context) {
	a.Check(a.Client.StorageV1().VolumeAttachments().Delete(context.WithoutCancel(ctx), a.name, metav1.DeleteOptions{}))
}

// setCode writes an attach error with a code.
func (a attachment) setCode(ctx context.Context, code int32) error {
	va, err := a.Client.StorageV1().VolumeAttachments().Get(ctx, a.name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	va.Status.AttachError = &storagev1.VolumeError{Time: metav1.Now(), Message: "full", ErrorCode: &code}
	_, err = a.Client.StorageV1().VolumeAttachments().UpdateStatus(ctx, va, metav1.UpdateOptions{})
	return err
}

// attachError is what the API server stored.
func (a attachment) attachError(ctx context.Context) *storagev1.VolumeError {
	va, err := a.Client.StorageV1().VolumeAttachments().Get(ctx, a.name, metav1.GetOptions{})
	a.Check(err)
	return va.Status.AttachError
}
