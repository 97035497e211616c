package observe

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"headroom/e2e/framework/history"
)

// metricPeriod is the time between two readings of a component's metrics; metricTimeout is what one may take.
const metricPeriod, metricTimeout = 5 * time.Second, 4 * time.Second

// Metrics reads a component's metrics every 5 s, in Prometheus' text format, and writes what changed of those named to the source "metric/<component>".
// A component that does not answer is expected: it may be stopped. It blocks until ctx ends, reads once more, and returns what went wrong with the file.
func Metrics(ctx context.Context, read func(context.Context) ([]byte, error), eventsDir, run, component string, names ...string) error {
	ticks := time.NewTicker(metricPeriod)
	defer ticks.Stop()
	return metrics(ctx, read, eventsDir, run, component, names, ticks.C)
}

func metrics(
	ctx context.Context, read func(context.Context) ([]byte, error), eventsDir, run, component string, names []string, ticks <-chan time.Time,
) error {
	out, err := history.Create(eventsDir, run, history.PrefixMetric+component)
	if err != nil {
		return fmt.Errorf("metrics of %s: %w", component, err)
	}
	s := scraper{read: read, out: out, component: component, names: names, last: map[string]history.Metric{}}
	for {
		s.scrape(ctx, false)
		select {
		case <-ctx.Done():
			s.scrape(context.WithoutCancel(ctx), true)
			return out.Close()
		case <-ticks:
		}
	}
}

// scraper remembers what it wrote last.
type scraper struct {
	read      func(context.Context) ([]byte, error)
	out       *history.Writer
	component string
	names     []string
	last      map[string]history.Metric // by name
}

// scrape writes what differs from the last reading; all of it when it is the final one.
func (s *scraper) scrape(ctx context.Context, final bool) {
	limited, cancel := context.WithTimeout(ctx, metricTimeout)
	defer cancel()
	text, err := s.read(limited)
	if ctx.Err() != nil {
		return // cut short; the final reading follows
	}
	for _, name := range s.names {
		phase, now := history.Observed, history.Metric{Name: name}
		failed, shown := err, false
		if failed == nil {
			now.Value, shown, failed = counter(bytes.NewReader(text), name, nil)
		}
		if now.Absent = failed == nil && !shown; failed != nil {
			phase, now.Error = history.Fail, failed.Error()
		}
		last, seen := s.last[name]
		same := last.Value == now.Value && last.Absent == now.Absent && (last.Error == "") == (now.Error == "")
		if s.last[name] = now; seen && !final && same {
			continue
		}
		s.out.Write(history.Event{Phase: phase, Key: s.component, Body: history.Encode(now)})
	}
}
