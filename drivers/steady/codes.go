package steady

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"headroom/e2e/framework/history"
	"headroom/fixtures/quota"
)

// byReason is the code of each reason of the backend, from the error table of ControllerPublishVolume in the CSI specification and, where it
// is silent (unreachable, throttled, wrong zone), from specification 1.13. RESOURCE_EXHAUSTED is for a full node and nothing else: the
// kubelet takes it as proof that its count is wrong and fails the pod.
var byReason = map[string]codes.Code{
	history.ReasonFull:              codes.ResourceExhausted,
	history.ReasonNoSuchVolume:      codes.NotFound,
	history.ReasonNoSuchNode:        codes.NotFound,
	history.ReasonAttachedElsewhere: codes.FailedPrecondition,
	history.ReasonWrongZone:         codes.FailedPrecondition,
	history.ReasonIncompatible:      codes.AlreadyExists,
	history.ReasonBadRequest:        codes.InvalidArgument,
	history.ReasonForbidden:         codes.PermissionDenied,
	history.ReasonUnauthenticated:   codes.Unauthenticated,
	history.ReasonThrottled:         codes.Unavailable,
	history.ReasonUnavailable:       codes.Unavailable,
}

// CodeOf is the code of an error of the backend during a call with ctx. An error that the backend did not answer itself (no connection, an
// answer that makes no sense) is UNAVAILABLE: whether the call took effect is not known, and asking again is right.
func CodeOf(ctx context.Context, err error) codes.Code {
	var refusal *quota.Error
	if errors.As(err, &refusal) {
		if code, known := byReason[refusal.Reason]; known {
			return code
		}
		if refusal.Status >= 500 {
			return codes.Unavailable
		}
		return codes.Internal
	}
	switch ctx.Err() {
	case context.DeadlineExceeded:
		return codes.DeadlineExceeded
	case context.Canceled:
		return codes.Canceled
	}
	return codes.Unavailable
}

// reasonOf is the backend's reason in err, or "".
func reasonOf(err error) string {
	var refusal *quota.Error
	if errors.As(err, &refusal) {
		return refusal.Reason
	}
	return ""
}

func invalid(format string, args ...any) error {
	return status.Errorf(codes.InvalidArgument, format, args...)
}
