package binaries

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"strings"
	"syscall"

	"headroom/e2e/framework/cluster"
)

// explain wraps err as an environment error with a remedy, when one is known; one that has a remedy already keeps it. A cancelled context stays what it
// is: nothing is wrong.
func explain(ctx context.Context, op, root string, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", op, context.Cause(ctx))
	}
	if env := (*cluster.EnvironmentError)(nil); errors.As(err, &env) && env.Remedy != "" {
		return fmt.Errorf("%s: %w", op, err)
	}
	return &cluster.EnvironmentError{Op: op, Err: err, Remedy: remedy(root, err)}
}

func remedy(root string, err error) string {
	output := ""
	if failed := (*commandError)(nil); errors.As(err, &failed) {
		output = failed.output
	}
	said := func(text string) bool { return strings.Contains(output, text) }
	var unavailable *UnavailableError
	var checksum *ChecksumError
	switch {
	case errors.Is(err, errNotCached):
		return "bring them here with `headroom binaries fetch` on a machine that has a network or Go, or use --binaries auto"
	case errors.As(err, &checksum):
		return "do not use the file: find out who changed it, or give another --mirror, or use --binaries build"
	case errors.Is(err, exec.ErrNotFound):
		return "install Go and put it on PATH (see https://go.dev/doc/install), then run the command again"
	case errors.As(err, &unavailable) && output == "":
		return "put the file and its .sha256 there, or use --binaries auto, which builds what cannot be had; behind a proxy set HTTPS_PROXY"
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), said("no space left on device"), said("disk quota exceeded"):
		return "free some space, or set HEADROOM_CACHE (now " + root + ") and GOCACHE to directories on a larger disk: a first build needs about 6 GB"
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS), errors.Is(err, syscall.ENOTDIR):
		return "make " + root + " writable, or set HEADROOM_CACHE to a directory that is"
	case said("permission denied"):
		return "make the directories that `go env GOCACHE GOMODCACHE` names writable"
	case said("requires go >="):
		return "install the Go release that the message names, or let the go command fetch it: GOTOOLCHAIN=auto"
	case said("SECURITY ERROR"), said("checksum mismatch"):
		return "do not switch the verification off: find out who changed the module, then `go clean -modcache` and build again"
	case said("dial tcp"), said("no such host"), said("i/o timeout"), said("connection refused"), said("proxyconnect"), said("GOPROXY=off"):
		return "the go command cannot reach its module source: set GOPROXY (and HTTPS_PROXY) as your network needs, then run the command again"
	case said("signal: killed"):
		return "a compiler was killed, most likely for lack of memory: free some, or set GOMAXPROCS=1, then run the command again"
	}
	return ""
}
