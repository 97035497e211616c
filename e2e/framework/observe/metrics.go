package observe

import (
	"context"
	"fmt"
	"strconv"
	"strings"
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
	s := scraper{read: read, out: out, names: names, last: map[string]history.Metric{}}
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
	read  func(context.Context) ([]byte, error)
	out   *history.Writer
	names []string
	last  map[string]history.Metric
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
		phase, now := history.Observed, history.Metric{}
		if err != nil {
			phase, now.Error = history.Fail, err.Error()
		} else {
			value, ok := sum(string(text), name)
			now.Value, now.Absent = value, !ok
		}
		last, seen := s.last[name]
		if s.last[name] = now; seen && !final && (last == now || last.Error != "" && now.Error != "") {
			continue
		}
		s.out.Write(history.Event{Phase: phase, Key: name, Body: history.Encode(now)})
	}
}

// sum adds up the samples of a metric in Prometheus' text format; false when there is none.
func sum(text, name string) (total float64, found bool) {
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(line, name)
		if !ok {
			continue
		}
		if strings.HasPrefix(rest, "{") {
			_, rest, _ = strings.Cut(rest, "} ") // label values may hold braces, but not of these metrics
		} else if !strings.HasPrefix(rest, " ") {
			continue // a longer name
		}
		value, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
		if v, err := strconv.ParseFloat(value, 64); err == nil {
			total, found = total+v, true
		}
	}
	return total, found
}
