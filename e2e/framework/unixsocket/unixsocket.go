// Package unixsocket listens on Unix sockets whose paths outlive the processes that served them.
//
// Contract: what is at the path and no socket is never removed. The listener removes its socket when it is closed, whoever has the path by then.
package unixsocket

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
)

// MaxPath is what sockaddr_un holds on Linux, in bytes, without the closing zero.
const MaxPath = 107

// Listen makes the socket in place of one that nobody serves any more. A socket in use is an error.
func Listen(path string) (net.Listener, error) {
	return listen(path, func() error {
		c, err := net.Dial("unix", path)
		if err != nil {
			return nil // its process is dead
		}
		return errors.Join(errors.New("somebody serves it already"), c.Close())
	})
}

// Replace makes the socket in place of any that is there, as an instance does that takes over while the former one still serves.
func Replace(path string) (net.Listener, error) {
	return listen(path, func() error { return nil })
}

// listen makes the socket; mayGo says why one that is there must stay.
func listen(path string, mayGo func() error) (net.Listener, error) {
	if len(path) > MaxPath {
		return nil, fmt.Errorf("listen on %q: path has %d bytes, want at most %d: use a shorter directory", path, len(path), MaxPath)
	}
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("listen on %q: %w", path, err)
	case info.Mode().Type() != fs.ModeSocket:
		return nil, fmt.Errorf("listen on %q: want a socket or nothing there, got %s", path, info.Mode().Type())
	default:
		if err := mayGo(); err != nil {
			return nil, fmt.Errorf("listen on %q: %w", path, err)
		}
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("listen on %q: remove the former socket: %w", path, err)
		}
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen on %q: %w", path, err)
	}
	return l, nil
}
