package run

import (
	"context"

	"headroom/e2e/framework/history"
	"headroom/e2e/framework/observe"
)

// metered is a cluster that shows what its components count of themselves.
type metered interface {
	Metrics(ctx context.Context, component string) ([]byte, error)
}

const scheduler = "kube-scheduler"

// readMetrics records what the scheduler counts, until the function that it returns is called, which the cluster must outlive.
func (s *Session) readMetrics() (stop func()) {
	m, ok := s.Cluster.(metered)
	if !ok {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		read := func(ctx context.Context) ([]byte, error) { return m.Metrics(ctx, scheduler) }
		s.Problem("read the scheduler's metrics", observe.Metrics(ctx, read, s.events(), s.Header.Run, scheduler, history.MetricFlushed))
	}()
	return func() {
		cancel()
		<-done
	}
}
