package chaos

import (
	"context"
	"errors"
	"time"
)

// toggle does one thing and its opposite by turns, the one at once, until it is healed, which does the opposite a last time. What failed on the way is the
// healing's error: a flap that stopped is not the fault that was asked for.
func toggle(ctx context.Context, every time.Duration, there, back func(context.Context) error) (Heal, error) {
	if err := there(ctx); err != nil {
		return nil, err
	}
	flapping, stop := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan error, 1)
	go func() {
		for next, other := back, there; ; next, other = other, next {
			select {
			case <-flapping.Done():
				done <- nil
				return
			case <-time.After(every):
			}
			if err := next(flapping); err != nil && flapping.Err() == nil {
				done <- err
				return
			}
		}
	}()
	return func(ctx context.Context) error {
		stop()
		return errors.Join(<-done, back(ctx))
	}, nil
}
