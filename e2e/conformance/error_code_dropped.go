package conformance

import (
	"context"
	"fmt"

	"google.golang.org/grpc/codes"

	"headroom/e2e/framework/history"
	"headroom/e2e/framework/run"
	"headroom/e2e/framework/versions"
)

func init() {
	run.Register(run.Requirement{
		ID:       "error-code-dropped",
		Claim:    "An API server without the feature drops the errorCode of a VolumeAttachment's attachError and keeps its message: no kubelet can react to it.",
		Source:   "KEP-4876, version skew; kubernetes pkg/registry/storage/volumeattachment, PrepareForUpdate",
		Boundary: history.APIServer,
		Labels:   []string{run.LabelSmoke},
		Lacks:    []string{versions.ErrorCodeStored},
		Setup:    run.Setup{},
		Test:     errorCodeDropped,
	})
}

func errorCodeDropped(ctx context.Context, b *run.Bench) {
	va := newAttachment(ctx, b, "dropped."+b.Driver)
	defer va.remove(ctx)
	b.Check(va.setCode(ctx, int32(codes.ResourceExhausted)))
	if e := va.attachError(ctx); e == nil || e.Message == "" || e.ErrorCode != nil {
		b.Check(fmt.Errorf("VolumeAttachment %q: want attachError with a message and no errorCode, got %+v", va.name, e))
	}
}
