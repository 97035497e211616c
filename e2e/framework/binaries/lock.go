package binaries

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// lockPoll is how often a held lock is tried again: a blocking flock could not be cancelled.
const lockPoll = 200 * time.Millisecond

// acquire takes the lock, calling wait once when someone else holds it. The kernel releases it when its holder dies, however it dies.
func acquire(ctx context.Context, path string, wait func(holder string)) (unlock func(), waited bool, err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, false, err
	}
	poll := time.NewTicker(lockPoll)
	defer poll.Stop()
	for {
		unlock, free, err := try(path)
		if err != nil || free {
			return unlock, waited, err
		}
		if !waited {
			waited = true
			wait(holder(path))
		}
		select {
		case <-ctx.Done():
			return nil, true, fmt.Errorf("wait for lock %q: %w", path, context.Cause(ctx))
		case <-poll.C:
		}
	}
}

// try takes the lock if it is free. Go opens files close-on-exec, so children never hold it.
func try(path string) (unlock func(), free bool, err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, false, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, unix.EINTR) {
			return nil, false, nil
		}
		return nil, false, fmt.Errorf("lock %q: %w", path, err)
	}
	// The number is for messages only; a failure to write it changes nothing.
	f.Truncate(0)
	fmt.Fprintf(f, "%d\n", os.Getpid())
	return func() { f.Close() }, true, nil
}

// holder says who holds a lock, as far as known: " (pid 123)" or nothing.
func holder(path string) string {
	text, err := os.ReadFile(path)
	if pid := strings.TrimSpace(string(text)); err == nil && pid != "" {
		return " (pid " + pid + ")"
	}
	return ""
}
