package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/history"
)

// deathInterval is the time between two looks at whether the spec processes live.
const deathInterval = 200 * time.Millisecond

// part is what a process that joined the run has written so far.
type part struct {
	pid    int // 0 while its open record is not whole
	closed bool
	begun  []string // ids of specs
}

// AwaitDeath returns an error once a process that joined the run has ended without closing its history, as only one that crashed or was killed
// does, or when that cannot be found out; nil when ctx ends. Ginkgo notices such a death only after the last spec.
func (s *Session) AwaitDeath(ctx context.Context) error {
	tick := time.NewTicker(deathInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		sources, err := s.specSources()
		if err != nil {
			return err
		}
		for _, source := range sources {
			if err := s.died(source); err != nil {
				return err
			}
		}
	}
}

// died is an error when the process that writes source is gone and has not closed it.
func (s *Session) died(source string) error {
	p, err := s.part(source)
	if err != nil || p.closed || p.pid == 0 || p.pid == os.Getpid() {
		return err
	}
	// A number that was given away again hides a death here; the missing close record still shows at the end.
	if err := syscall.Kill(p.pid, 0); !errors.Is(err, syscall.ESRCH) {
		return nil
	}
	if p, err = s.part(source); err != nil || p.closed { // it may have ended in good order since
		return err
	}
	return fmt.Errorf("spec process %s (process %d) died without a farewell; its output is in logs/specs.log",
		strings.TrimPrefix(source, history.PrefixSpec), p.pid)
}

// Complete is an error when not all of procs spec processes joined the run, or some of the specs were begun by none of them: a process that cannot
// join skips what Ginkgo hands it, and nothing else tells of that.
func (s *Session) Complete(procs int, specs []string) error {
	left, joined, err := s.unbegun(specs)
	if err != nil {
		return err
	}
	var errs []error
	if joined < procs {
		errs = append(errs, fmt.Errorf("want %d spec processes, got %d: the others ended before they joined the run; see logs/specs.log", procs, joined))
	}
	if len(left) > 0 {
		errs = append(errs, fmt.Errorf("never begun: %s; see logs/specs.log", strings.Join(left, ", ")))
	}
	return errors.Join(errs...)
}

// unbegun returns those of specs that no process has begun, and how many processes joined the run.
func (s *Session) unbegun(specs []string) (left []string, joined int, err error) {
	sources, err := s.specSources()
	if err != nil {
		return nil, 0, err
	}
	left = slices.Clone(specs)
	for _, source := range sources {
		p, err := s.part(source)
		if err != nil {
			return nil, 0, err
		}
		if p.pid != os.Getpid() {
			joined++
		}
		left = slices.DeleteFunc(left, func(id string) bool { return slices.Contains(p.begun, id) })
	}
	return left, joined, nil
}

// specSources are the sources of the processes that joined the run so far.
func (s *Session) specSources() ([]string, error) {
	files, err := filepath.Glob(filepath.Join(s.events(), filepath.FromSlash(history.PrefixSpec)+"*.jsonl"))
	if err != nil {
		return nil, err
	}
	for i, f := range files {
		files[i] = history.PrefixSpec + strings.TrimSuffix(filepath.Base(f), ".jsonl")
	}
	return files, nil
}

func (s *Session) part(source string) (p part, err error) {
	_, err = history.Count(s.events(), source, func(e history.Event) bool {
		switch {
		case e.Key == history.KeyOpen:
			var open struct {
				PID int `json:"pid"`
			}
			if e.Decode(&open) == nil {
				p.pid = open.PID
			}
		case e.Key == history.KeyClose:
			p.closed = true
		case e.Phase == history.Invoke:
			p.begun = append(p.begun, e.Key)
		}
		return true
	})
	return p, err
}

// unlessGone makes a spec's failure one of the environment when the cluster is gone: whatever fails then says nothing about the product.
func (s *Session) unlessGone(failure error) error {
	if failure == nil || s.Cluster == nil {
		return failure
	}
	if err := s.Cluster.Answers(context.Background()); err != nil {
		return &cluster.EnvironmentError{Op: "run the cluster", Err: fmt.Errorf("%w; the spec then failed: %v", err, failure)}
	}
	return failure
}
