package sidecar

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"headroom/drivers"
)

// routes lead to the drivers of all nodes, where each serves the controller calls for its own node: its socket is at <node><suffix> in a directory that all
// of them share.
type routes struct{ dir, suffix string }

// to is where the driver of a node listens; of any node whose driver does when node is empty. "" where nobody can be.
func (r routes) to(node string) string {
	if node == "" {
		return r.any()
	}
	if node != filepath.Base(node) {
		return "" // it is the caller's text, and no node is called so
	}
	return "unix://" + filepath.Join(r.dir, node+r.suffix)
}

// any is where a driver listens. One that is gone may have left its socket.
func (r routes) any() string {
	entries, err := os.ReadDir(r.dir)
	if err != nil {
		return ""
	}
	_, below, _ := strings.Cut(r.suffix, "/") // what of it is no part of an entry's name
	for _, e := range entries {
		path := filepath.Join(r.dir, e.Name(), below)
		if conn, err := net.Dial("unix", path); err == nil {
			_ = conn.Close() // it was only to see
			return "unix://" + path
		}
	}
	return ""
}

// checkLimit bounds one look at whether a driver is ready.
const checkLimit = 5 * time.Second

// await returns once a driver is ready, in the way and within the time that its definition says, with the path of its socket.
func await(ctx context.Context, find func() string, start drivers.Start, scale float64) (path string, err error) {
	within := start.Within(scale)
	var last error
	bounded, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for bounded.Err() == nil {
		if endpoint := find(); endpoint != "" {
			path = strings.TrimPrefix(endpoint, "unix://")
			limited, cancel := context.WithTimeout(bounded, time.Duration(float64(checkLimit)*scale))
			err := start.Check(limited, path)
			cancel()
			if err == nil {
				return path, nil
			}
			if bounded.Err() == nil || last == nil {
				last = err
			}
		}
		select {
		case <-bounded.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
	if err := ctx.Err(); err != nil {
		return "", err
	}
	if last == nil {
		last = errors.New("it does not listen")
	}
	return "", strangerError{fmt.Errorf("not ready after %s (startLimit; under a debugger, --timeout-scale): %w", within, last)}
}

// strangerError is a driver that is not what was to be started, or not in time.
type strangerError struct{ error }

func (e strangerError) Unwrap() error { return e.error }

// identify waits until the driver is ready, and looks who it is.
func (o options) identify(ctx context.Context, find func() string, start drivers.Start, wanted []drivers.Wanted) error {
	path, err := await(ctx, find, start, o.scale)
	if err != nil {
		return err
	}
	if err := drivers.Identify(ctx, path, o.name, wanted, o.scale); err != nil && ctx.Err() == nil {
		return strangerError{fmt.Errorf("driver %q: %w", o.name, err)}
	}
	return ctx.Err()
}
