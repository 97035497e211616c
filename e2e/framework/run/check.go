package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"headroom/e2e/framework/history"
)

// Failure ends a spec's test; the suite catches it.
type Failure struct{ Err error }

// Check ends the test when err is not nil. An error of the environment leaves the requirement open, any other violates it.
func (b *Bench) Check(err error) {
	if err != nil {
		panic(Failure{Err: err})
	}
}

// blamed is a failure that is another boundary's than the requirement's own.
type blamed struct {
	boundary history.Boundary
	error
}

func (e blamed) Unwrap() error { return e.error }

// Blame marks err, when it is not nil, as the failure of a boundary other than the requirement's.
func Blame(boundary history.Boundary, err error) error {
	if err == nil {
		return nil
	}
	return blamed{boundary: boundary, error: err}
}

// Count reads allocatable.count of the bench's driver on a node; nil when it is absent, or the driver's whole entry is.
func (b *Bench) Count(ctx context.Context, node string) (*int32, error) {
	n, err := b.Client.StorageV1().CSINodes().Get(ctx, node, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read CSINode %q: %w", node, err)
	}
	for _, d := range n.Spec.Drivers {
		if d.Name == b.Driver && d.Allocatable != nil {
			return d.Allocatable.Count, nil
		}
	}
	return nil, nil
}

// AwaitCount waits until a node's count is want.
func (b *Bench) AwaitCount(ctx context.Context, node string, want int32, within time.Duration) {
	b.Check(b.await(ctx, within, func(ctx context.Context) error {
		got, err := b.Count(ctx, node)
		if err != nil {
			return err
		}
		if got == nil {
			return fmt.Errorf("CSINode %q count: want %d, got none, which is unlimited", node, want)
		}
		if *got != want {
			return fmt.Errorf("CSINode %q count: want %d, got %d", node, want, *got)
		}
		return nil
	}))
}

// Await waits until f returns nil.
func (b *Bench) Await(ctx context.Context, within time.Duration, f func(context.Context) error) {
	b.Check(b.await(ctx, within, f))
}

// pollInterval is the time between two looks at a cluster in this process.
const pollInterval = 100 * time.Millisecond

func (b *Bench) await(ctx context.Context, within time.Duration, f func(context.Context) error) error {
	began := time.Now()
	within = b.Session.Stretch(within)
	limited, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	var last error
	for {
		err := f(limited)
		if err == nil {
			return nil
		}
		if limited.Err() == nil || last == nil {
			last = err
		}
		if permanent(err) {
			return fmt.Errorf("%w (after %.1fs; it will not change)", err, time.Since(began).Seconds())
		}
		select {
		case <-limited.Done():
			return fmt.Errorf("%w (waited %.1fs of %s)", last, time.Since(began).Seconds(), within)
		case <-time.After(pollInterval):
		}
	}
}

// ErrPermanent marks an answer that no waiting changes.
var ErrPermanent = errors.New("permanent")

func permanent(err error) bool {
	return errors.Is(err, ErrPermanent) || apierrors.IsForbidden(err) || apierrors.IsInvalid(err)
}
