package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/history"
	"headroom/e2e/framework/observe"
	"headroom/e2e/framework/report"
)

// syncTimeout bounds the wait for the watches to have seen everything.
const syncTimeout = 15 * time.Second

// AuditLog is where the API server's audit log lies in a run directory.
func AuditLog(dir string) string { return filepath.Join(dir, "logs", "audit.log") }

// Done is closed when the cluster has ended by itself; nil where that cannot be known.
func (s *Session) Done() <-chan struct{} {
	if s.Cluster == nil {
		return nil
	}
	return s.Cluster.Done()
}

// Finish ends the run and judges it: it heals what is still broken, waits until the observers have seen everything, destroys the cluster, merges the
// history, checks it, and writes the reports. It works on a broken run too; what it could not do is in the report as an environment problem. The
// error is for a run that cannot be judged at all.
func (s *Session) Finish(ctx context.Context) (report.Report, error) {
	ctx = context.WithoutCancel(ctx)
	s.quiesce(ctx)
	s.Phase("collect")
	if err := s.collect(ctx); err != nil {
		return report.Report{}, cluster.Environment("collect the history", err)
	}
	return s.check()
}

// End ends a run that has nothing to judge: the cluster goes, the history stays.
func (s *Session) End(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	s.Phase("collect")
	return cluster.Environment("collect the history", s.collect(ctx))
}

// alive says whether the cluster still runs.
func (s *Session) alive() bool {
	select {
	case <-s.Done():
		return false
	default:
		return true
	}
}

func (s *Session) quiesce(ctx context.Context) {
	if !s.alive() {
		s.Problem("run the cluster", errEnded)
		return
	}
	s.Phase("heal")
	s.Problem("heal the quota backend", s.Quota.Heal(ctx))
	s.Phase("quiesce")
	sync, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	s.Problem("catch up with the watches", s.owner.watches.Sync(sync, 0))
}

// collect closes every history, ends the cluster, and merges.
func (s *Session) collect(ctx context.Context) error {
	s.owner.stopMetrics()
	s.Problem("close the watches", s.owner.watches.Close())
	if s.alive() {
		s.Problem("collect logs", s.Cluster.Collect(ctx, filepath.Join(s.Dir, "logs")))
	}
	s.Problem("destroy the cluster", s.Cluster.Destroy(ctx))
	s.Problem("close this process's histories", errors.Join(s.Close(), s.owner.phases.Close(), s.owner.faults.Close(), s.owner.scenarios.Close()))
	pairs, err := observe.ClockPairs(s.events())
	if err != nil {
		return err
	}
	s.Problem("read the audit log", observe.Audit(AuditLog(s.Dir), s.events(), s.Header.Run, pairs))
	s.unpublish()
	return history.Merge(s.events(), s.Header, filepath.Join(s.Dir, report.FileHistory))
}

// unpublish removes what only a living run has.
func (s *Session) unpublish() {
	for _, name := range []string{fileSession, report.FileKubeconfig} {
		if err := os.Remove(filepath.Join(s.Dir, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			s.Problem("tidy the run directory", err)
		}
	}
}

func (s *Session) check() (report.Report, error) {
	run, err := report.OpenRun(s.Dir, false)
	if err != nil {
		return report.Report{}, err
	}
	defer run.Close()
	r, err := run.Judge(s.problems)
	if err != nil {
		return report.Report{}, err
	}
	return r, errors.Join(report.Write(s.Dir, r), report.WriteEvidence(s.Dir, r, run.Events()))
}

// abandon takes a session away that did not come up.
func (s *Session) abandon(ctx context.Context) error {
	var errs []error
	if s.owner.stopMetrics != nil {
		s.owner.stopMetrics()
	}
	if s.owner.watches != nil {
		errs = append(errs, s.owner.watches.Close())
	}
	if s.Cluster != nil {
		errs = append(errs, s.Cluster.Destroy(ctx))
	}
	errs = append(errs, s.Close(), s.owner.phases.Close(), s.owner.faults.Close(), s.owner.scenarios.Close())
	s.unpublish()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("take the run away: %w", err)
	}
	return nil
}
