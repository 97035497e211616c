package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/cluster/kind/engine"
)

// A command that holds a cluster in the foreground registers itself in a file, so that `headroom down` finds it.

// holder is the content of such a file. A process id alone may have been given to another process since; with its start time it is unique.
type holder struct {
	PID       int    `json:"pid"`
	StartTime string `json:"startTime"` // field 22 of /proc/<pid>/stat
	RunDir    string `json:"runDir"`
}

// registry is the directory of the files, one for each user.
func registry() (string, error) {
	state := os.Getenv("XDG_STATE_HOME")
	if state == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", cluster.Environment("find the state directory", err)
		}
		state = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(state, "headroom", "clusters"), nil
}

// register makes this process known as the holder of a cluster; release takes it back.
func register(runDir string) (release func(), err error) {
	dir, err := registry()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, cluster.Environment("register the cluster", err)
	}
	start, err := startTime(os.Getpid())
	if err != nil {
		return nil, cluster.Environment("register the cluster", err)
	}
	b, err := json.Marshal(holder{PID: os.Getpid(), StartTime: start, RunDir: runDir})
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, strconv.Itoa(os.Getpid())+".json")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		return nil, cluster.Environment("register the cluster", err)
	}
	return func() { _ = os.Remove(path) }, nil // a file that stays is recognised as stale
}

// startTime is when a process started, in clock ticks since boot.
func startTime(pid int) (string, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", err
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 20 {
		return "", fmt.Errorf("/proc/%d/stat: want 22 fields", pid)
	}
	return fields[19], nil
}

func downCommand() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "down [RUN-DIR...]",
		Short: "End running clusters: those of the run directories given, or all of yours",
		RunE: func(cmd *cobra.Command, args []string) error {
			if all && len(args) > 0 {
				return usageError{fmt.Errorf("--all and run directories %q: want one or the other", args)}
			}
			holders, err := running()
			if err != nil {
				return err
			}
			wanted, err := choose(holders, args)
			if err != nil {
				return err
			}
			if len(wanted) == 0 {
				say(cmd.OutOrStdout(), "no cluster of yours is running\n")
			}
			var errs []error
			for _, h := range wanted {
				if err := end(cmd.Context(), h); err != nil {
					errs = append(errs, err)
					continue
				}
				say(cmd.OutOrStdout(), "ended %s\n", h.RunDir)
			}
			if all {
				errs = append(errs, sweep(cmd))
			}
			return cluster.Environment("end clusters", errors.Join(errs...))
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "end all of yours, and remove what runs that were killed left in the container engine")
	return cmd
}

// sweep removes what killed runs left of kind clusters. Without an engine there can be none.
func sweep(cmd *cobra.Command) error {
	if err := engine.Check(cmd.Context()); err != nil {
		say(cmd.ErrOrStderr(), "no container engine answers: whatever is left in one stays; `make down` starts the one of our own and looks there\n")
		return nil
	}
	removed, err := engine.Sweep(cmd.Context())
	for _, what := range removed {
		say(cmd.OutOrStdout(), "removed %s\n", what)
	}
	return err
}

// running reads the registry and drops what is stale.
func running() ([]holder, error) {
	dir, err := registry()
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, cluster.Environment("read the registry of clusters", err)
	}
	var out []holder
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		var h holder
		b, err := os.ReadFile(path)
		if err == nil {
			err = json.Unmarshal(b, &h)
		}
		if start, alive := startTime(h.PID); err != nil || alive != nil || start != h.StartTime {
			if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, cluster.Environment("tidy the registry of clusters", err)
			}
			continue
		}
		out = append(out, h)
	}
	return out, nil
}

// choose picks the holders of the run directories named; all when none is.
func choose(holders []holder, dirs []string) ([]holder, error) {
	if len(dirs) == 0 {
		return holders, nil
	}
	var out []holder
	for _, dir := range dirs {
		abs, err := filepath.Abs(dir)
		if err != nil {
			return nil, usageError{err}
		}
		before := len(out)
		for _, h := range holders {
			if h.RunDir == abs {
				out = append(out, h)
			}
		}
		if len(out) == before {
			return nil, usageError{fmt.Errorf("no cluster of yours runs in %q", dir)}
		}
	}
	return out, nil
}

// end asks a holder to end and waits; one that does not is killed, which ends its cluster as well.
func end(ctx context.Context, h holder) error {
	for _, step := range []struct {
		signal syscall.Signal
		wait   time.Duration
	}{{syscall.SIGTERM, 30 * time.Second}, {syscall.SIGKILL, 10 * time.Second}} {
		if err := syscall.Kill(h.PID, step.signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("end the cluster in %s (process %d): %w", h.RunDir, h.PID, err)
		}
		for deadline := time.Now().Add(step.wait); time.Now().Before(deadline); {
			if start, err := startTime(h.PID); err != nil || start != h.StartTime {
				return nil
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(50 * time.Millisecond):
			}
		}
	}
	return fmt.Errorf("end the cluster in %s: process %d outlives SIGKILL", h.RunDir, h.PID)
}
