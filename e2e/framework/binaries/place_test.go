package binaries

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"headroom/e2e/framework/cluster"
)

func TestPlaceIsFilledOnce(t *testing.T) {
	root := t.TempDir()
	var fills atomic.Int32
	fill := func(_ context.Context, dir string) error {
		fills.Add(1)
		return os.WriteFile(filepath.Join(dir, "part"), []byte("x"), 0o644)
	}
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			dir, err := Place(t.Context(), root, "part-1", func(string) {}, fill)
			if err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(filepath.Join(dir, "part")); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if fills.Load() != 1 {
		t.Errorf("want one fill, got %d", fills.Load())
	}
}

func TestPlaceThatFailsLeavesNothing(t *testing.T) {
	root := t.TempDir()
	broken := errors.New("no mirror")
	_, err := Place(t.Context(), root, "part-1", func(string) {}, func(_ context.Context, dir string) error {
		return errors.Join(os.WriteFile(filepath.Join(dir, "half"), nil, 0o644), broken)
	})
	var env *cluster.EnvironmentError
	if !errors.As(err, &env) || !errors.Is(err, broken) || !strings.Contains(err.Error(), "part-1") {
		t.Errorf("want an EnvironmentError that names the part and its cause, got %v", err)
	}
	for _, dir := range []string{"parts", "tmp"} {
		if entries, err := os.ReadDir(filepath.Join(root, dir)); err != nil || len(entries) > 0 {
			t.Errorf("%s: want it empty, got %v (error: %v)", dir, entries, err)
		}
	}
}

// TestPlaceKeepsTheRemedyOfItsMaker: who fills a part knows best what is missing; it need not be Go.
func TestPlaceKeepsTheRemedyOfItsMaker(t *testing.T) {
	_, err := Place(t.Context(), t.TempDir(), "part-1", func(string) {}, func(context.Context, string) error {
		return &cluster.EnvironmentError{Op: "make a root", Err: exec.ErrNotFound, Remedy: "install the tool"}
	})
	if err == nil || !strings.Contains(err.Error(), "remedy: install the tool") || strings.Contains(err.Error(), "install Go") {
		t.Errorf("want the maker's remedy alone, got %v", err)
	}
}
