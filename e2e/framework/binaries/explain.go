package binaries

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"slices"
	"strings"
	"syscall"

	"headroom/e2e/framework/cluster"
)

// explain wraps err as an environment error with a remedy, when one is known; one that has a remedy already keeps it. What no source has is not the
// environment's but a wish that cannot be met. A cancelled context stays what it is: nothing is wrong.
func explain(ctx context.Context, op, root string, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", op, context.Cause(ctx))
	}
	if env := (*cluster.EnvironmentError)(nil); errors.As(err, &env) && env.Remedy != "" {
		return fmt.Errorf("%s: %w", op, err)
	}
	if none := (*absentError)(nil); errors.As(err, &none) {
		return &cluster.InputError{Err: fmt.Errorf("%s: %w", op, err), Remedy: remedy(root, err)}
	}
	return &cluster.EnvironmentError{Op: op, Err: err, Remedy: remedy(root, err)}
}

// What the go command says where its module source does not have what was asked for, and where it could not ask. When a proxy does not have a module the
// command asks the module's repository, so that both may be said: what could not be asked may have it.
var (
	saysAbsent  = []string{"unknown revision", "no matching versions", ": 404 Not Found", ": 410 Gone", ": 403 Forbidden", "toolchain not available"}
	saysUnasked = []string{"dial tcp", "no such host", "i/o timeout", "connection refused", "proxyconnect", "GOPROXY=off", "TLS handshake"}
)

// isAbsent says whether a source was asked and does not have a binary. Disk and network trouble, a wrong sum, and a build that breaks are something else.
func isAbsent(err error) bool {
	if unavailable := (*UnavailableError)(nil); errors.As(err, &unavailable) {
		return unavailable.Absent
	}
	failed := (*commandError)(nil)
	return errors.As(err, &failed) && saysAny(failed.output, saysAbsent) && !saysAny(failed.output, saysUnasked)
}

func saysAny(output string, texts []string) bool {
	return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(output, text) })
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
	case saysAny(output, saysUnasked):
		return "the go command cannot reach its module source: set GOPROXY (and HTTPS_PROXY) as your network needs, then run the command again"
	case saysAny(output, saysAbsent):
		return "choose another version, or give with --mirror a place that has its files, or set GOPROXY to one that has its module"
	case said("signal: killed"):
		return "a compiler was killed, most likely for lack of memory: free some, or set GOMAXPROCS=1, then run the command again"
	}
	return ""
}
