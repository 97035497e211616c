package binaries

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// Source makes executables.
type Source interface {
	// Name is recorded beside each binary: "build".
	Name() string
	// Offers says whether the source may have c at all.
	Offers(c Component) bool
	// Words are for progress, as in "building" and "built".
	Words() (doing, done string)
	// Inputs lists all that decides the bytes of c's executable, each as "name=value", in an order that does not change. It needs no network.
	Inputs(ctx context.Context, c Component) ([]string, error)
	// Fetch writes c's executable to file. Everything else that it writes goes below scratch, which is removed afterwards. When ctx ends, so
	// do all processes that it started.
	Fetch(ctx context.Context, c Component, file, scratch string) error
}

// saysWithin is generous: it is a program of 100 MB on a machine that is busy building.
const saysWithin = 2 * time.Minute

// says runs the executable and returns an error unless it gives the version that c should have.
func says(ctx context.Context, c Component, file, scratch string) error {
	ctx, cancel := context.WithTimeout(ctx, saysWithin)
	defer cancel()
	asks := c.Asks
	if len(asks) == 0 {
		asks = []string{"--version"}
	}
	question := c.Name + " " + strings.Join(asks, " ")
	cmd := exec.CommandContext(ctx, file, asks...)
	cmd.Dir = scratch
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + scratch} // ETCD_* and the like must not matter.
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w; it printed %q", question, err, tail(string(out), 5))
	}
	lines, line := strings.Split(strings.TrimSpace(string(out)), "\n"), ""
	if c.Line < len(lines) {
		line = lines[c.Line]
	}
	words := strings.Fields(line)
	if len(words) == 0 || words[len(words)-1] != c.Says {
		return fmt.Errorf("%s: want line %d to end in %q, got %q", question, c.Line+1, c.Says, line)
	}
	return nil
}

// tail returns the last n lines of text.
func tail(text string, n int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(lines[max(len(lines)-n, 0):], "\n")
}
