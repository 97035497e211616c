package kind

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"
)

// lifelineSocket is held open by the cluster's maker for as long as that lives.
func (s shape) lifelineSocket() string { return filepath.Join(s.dir(), "life.sock") }

// AwaitEnd returns when the cluster's maker is gone or has destroyed the cluster, for a process that attached to it.
func (c *Cluster) AwaitEnd() {
	conn, err := dialUnix(context.Background(), c.lifelineSocket())
	if err != nil {
		return
	}
	// The maker says nothing; the read returns when it is gone.
	_, _ = conn.Read(make([]byte, 1))
	_ = conn.Close()
}

// dialUnix reaches a socket of any path length: its address holds 107 bytes, a path through an open directory always fits.
func dialUnix(ctx context.Context, path string) (net.Conn, error) {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return new(net.Dialer).DialContext(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path)))
}

// listenUnix listens on a socket of any path length.
func listenUnix(path string) (net.Listener, error) {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	l, err := net.Listen("unix", fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path)))
	if u, ok := l.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(false) // its name holds for as long as dir is open
	}
	return l, err
}

// holdLifeline keeps the connections of those who want to know when this process is gone.
func (c *Cluster) holdLifeline() {
	var held []net.Conn
	for {
		conn, err := c.lifeline.Accept()
		if err != nil {
			for _, conn := range held {
				_ = conn.Close() // that it closes is all it says
			}
			return
		}
		held = append(held, conn)
	}
}

// pollInterval is the time between two looks at the cluster.
const pollInterval = 200 * time.Millisecond

// poll calls f until it returns nil, or ctx ends.
func poll(ctx context.Context, what string, f func() error) error {
	began := time.Now()
	var last error
	for {
		err := f()
		if err == nil {
			return nil
		}
		if final := (*permanent)(nil); errors.As(err, &final) {
			return final.error
		}
		if ctx.Err() == nil || last == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w (waited %.1fs: %w)", what, last, time.Since(began).Seconds(), context.Cause(ctx))
		case <-time.After(pollInterval):
		}
	}
}

// permanent is an error that no waiting changes.
type permanent struct{ error }

func (e *permanent) Unwrap() error { return e.error }
