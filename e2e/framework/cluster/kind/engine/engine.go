// Package engine speaks to the container engine that kind uses, through the `docker` command, which finds the engine as it always does (DOCKER_HOST,
// contexts).
//
// Contract: a command that fails returns what it said; when ctx ends, so does the command. Check finds what makes an engine useless for node
// containers before anything is started. The package knows nothing of kind or Kubernetes.
package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"time"

	"headroom/e2e/framework/cluster"
)

// failed is a command that the engine refused.
type failed struct {
	command string
	said    string
	err     error
}

func (e *failed) Error() string {
	return fmt.Sprintf("docker %s: %v: %s", e.command, e.err, e.said)
}

func (e *failed) Unwrap() error { return e.err }

// Run runs a docker command and returns what it prints, without the last line's end.
func Run(ctx context.Context, args ...string) (string, error) { return Feed(ctx, nil, args...) }

// Feed is Run with an input.
func Feed(ctx context.Context, in io.Reader, args ...string) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, "docker", args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, &stdout, &stderr
	// Ctrl-C reaches the runner first. A command of a runner that was killed must not go on making things.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = 10 * time.Second
	// The death signal comes when the starting thread ends, so it must last as long as the command.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		said := strings.TrimSpace(stderr.String())
		if said == "" {
			said = lastLines(stdout.String())
		}
		return "", &failed{command: summary(args), said: said, err: err}
	}
	return strings.TrimRight(stdout.String(), "\n"), nil
}

// Lines is Run for commands that print one thing a line.
func Lines(ctx context.Context, args ...string) ([]string, error) {
	out, err := Run(ctx, args...)
	if err != nil || out == "" {
		return nil, err
	}
	return strings.Split(out, "\n"), nil
}

// summary shortens a command for messages: scripts given to a shell can be long.
func summary(args []string) string {
	s := strings.Join(args, " ")
	if first, _, cut := strings.Cut(s, "\n"); cut {
		s = first + " ..."
	}
	return s
}

// lastLines keeps the end of what a command printed.
func lastLines(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[max(0, len(lines)-15):], "\n")
}

// HasImage says whether the engine holds the image; one that is named with its digest, whether it came with that digest.
func HasImage(ctx context.Context, ref string) (bool, error) {
	_, err := Run(ctx, "image", "inspect", "--format", "{{.Id}}", ref)
	if said := (*failed)(nil); errors.As(err, &said) && strings.Contains(strings.ToLower(said.said), "no such image") {
		return false, nil
	}
	return err == nil, err
}

// ErrNoRegistry is part of the error of a pull that no registry answered.
var ErrNoRegistry = errors.New("no registry answers")

// unanswered is what the engine says then: its first question failed, or the way to it did.
var unanswered = regexp.MustCompile(`/v2/": |failed to do request: |no such host|connection refused|network is unreachable|no route to host|i/o timeout|Client\.Timeout exceeded`)

// Pull gets an image from its registry.
func Pull(ctx context.Context, ref string) error {
	_, err := Run(ctx, "pull", "--quiet", ref)
	if said := (*failed)(nil); errors.As(err, &said) && unanswered.MatchString(said.said) {
		return fmt.Errorf("%w: %w", ErrNoRegistry, err)
	}
	return err
}

// answerWithin bounds the wait for the engine's first answer.
const answerWithin = 20 * time.Second

// Check says why the engine cannot serve, with what to do; nil when it answers.
func Check(ctx context.Context) error {
	const op = "use a container engine"
	if _, err := exec.LookPath("docker"); err != nil {
		return &cluster.EnvironmentError{Op: op, Err: err, Remedy: "install Docker's command, or run with --provider local, which needs no engine"}
	}
	limited, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	if _, err := Run(limited, "version", "--format", "{{.Server.Version}}"); err != nil {
		return &cluster.EnvironmentError{Op: op, Err: err, Remedy: "start a Docker daemon, or set DOCKER_HOST to one that runs; " +
			"`scripts/docker-private.sh` makes one of its own (make e2e-kind does); or run with --provider local"}
	}
	return nil
}

// CheckPrivileged says why the engine cannot run node containers, which are privileged; image is any image that it holds with a shell in it.
func CheckPrivileged(ctx context.Context, image string) error {
	owner, err := Owner()
	if err == nil {
		_, err = Run(ctx, "run", "--rm", "--privileged", "--network", "none", "--entrypoint", "/bin/sh", "--label", owner, image, "-c", "true")
	}
	if err == nil {
		return nil
	}
	remedy := "let the engine run privileged containers, or run with --provider local"
	if said := (*failed)(nil); errors.As(err, &said) && strings.Contains(said.said, "unable to apply caps") {
		remedy = "this machine lacks a capability that a privileged container gets (compare CapBnd in /proc/self/status); " +
			"run under `scripts/docker-private.sh` with DOCKER_PRIVATE=1, whose runtime drops what is lacking"
	}
	return &cluster.EnvironmentError{Op: "run a privileged container", Err: err, Remedy: remedy}
}
