package kind

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"headroom/e2e/framework/cluster"
)

// TestPoll: it ends with success, with what no waiting changes, and with its context, whose end says less than what was seen before.
func TestPoll(t *testing.T) {
	notYet, never := errors.New("not yet"), errors.New("never")
	for what, c := range map[string]struct {
		looks []error // the context ends with the last one
		want  error
		calls int
	}{
		"at once":          {[]error{nil, notYet}, nil, 1},
		"later":            {[]error{notYet, nil, notYet}, nil, 2},
		"never":            {[]error{notYet, &permanent{never}, nil}, never, 2},
		"never, wrapped":   {[]error{fmt.Errorf("look: %w", &permanent{never}), nil}, never, 1},
		"never, with more": {[]error{errors.Join(notYet, &permanent{never}), nil}, never, 1},
		"given up":         {[]error{notYet, context.Canceled}, notYet, 2},
		"given up before":  {[]error{notYet}, notYet, 1},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		calls := 0
		err := poll(ctx, "it", func() error {
			if calls++; calls >= len(c.looks) {
				cancel()
			}
			return c.looks[min(calls, len(c.looks))-1]
		})
		cancel()
		if !errors.Is(err, c.want) || calls != c.calls {
			t.Errorf("%s: want %v after %d looks, got %v after %d", what, c.want, c.calls, err, calls)
		}
		if final := (*permanent)(nil); errors.As(err, &final) {
			t.Errorf("%s: want what was wrong itself, got %v", what, err)
		}
	}
}

// TestDestroyIsItsMakers: a process that only attached to a cluster takes nothing of it away.
func TestDestroyIsItsMakers(t *testing.T) {
	c := pool(t)
	asked := falseDocker(t, "true")
	if err := os.WriteFile(c.kubeconfig(), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := c.Destroy(t.Context()); err == nil || !strings.Contains(err.Error(), "attached") || errors.As(err, new(*cluster.EnvironmentError)) {
		t.Errorf("want an error that says why, got %v", err)
	}
	if b, err := os.ReadFile(asked); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("want the engine not asked, got %q (error: %v)", b, err)
	}
	if _, err := os.Stat(c.kubeconfig()); err != nil {
		t.Errorf("want the kubeconfig left, got %v", err)
	}
}
