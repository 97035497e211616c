package report

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"headroom/e2e/framework/history"
)

// defaultSlack is used where a header gives none.
const defaultSlack = 2 * time.Second

// harness collects what the harness measured of itself: gaps, and intervals slower than half the slack.
type harness struct {
	limit time.Duration
	out   Harness
	slow  map[string]int           // the latest slow interval of each source
	beats map[string]time.Duration // the latest heartbeat of each source
}

func newHarness(h history.Header) *harness {
	slack := cmp.Or(time.Duration(h.Params.Slack), defaultSlack)
	c := &harness{limit: slack / 2, slow: map[string]int{}, beats: map[string]time.Duration{}}
	for _, source := range slices.Sorted(maps.Keys(h.Missing)) {
		c.out.Gaps = append(c.out.Gaps, Gap{Source: source, Reason: h.Missing[source]})
	}
	return c
}

// observe returns the wall clock at e where e tells it.
func (c *harness) observe(e history.Event, clock *clock) (wall time.Time) {
	if source := e.GapSource(); source != "" {
		var g history.GapReason
		if e.Decode(&g) != nil || g.Reason == "" {
			g.Reason = "no reason given"
		}
		c.out.Gaps = append(c.out.Gaps, Gap{Source: source, At: clock.since(e.At), Reason: g.Reason})
		return wall
	}
	switch {
	case strings.HasPrefix(e.Source, history.PrefixBeat):
		var b history.Beat
		if e.Decode(&b) != nil || b.Wall.IsZero() {
			return wall
		}
		if gap := time.Duration(b.MaxGap); gap > c.limit {
			from := e.At - gap
			if last, ok := c.beats[e.Source]; ok {
				from = min(from, last)
			}
			c.add(e.Source, clock.since(from), clock.since(e.At), gap)
		}
		c.beats[e.Source] = e.At
		return b.Wall
	case e.Source == history.SourceProbe && e.Phase != history.Invoke:
		var p history.Probe
		if e.Decode(&p) == nil && time.Duration(p.Latency) > c.limit {
			c.add(e.Source, clock.since(e.At-time.Duration(p.Latency)), clock.since(e.At), time.Duration(p.Latency))
		}
	}
	return wall
}

// add joins intervals of a source that touch within a second, the distance between two measurements.
func (c *harness) add(source string, from, to Duration, worst time.Duration) {
	if i, ok := c.slow[source]; ok && from <= c.out.Slow[i].To+Duration(time.Second) {
		s := &c.out.Slow[i]
		s.From, s.To, s.Worst = min(s.From, from), max(s.To, to), max(s.Worst, round(worst))
		return
	}
	c.slow[source] = len(c.out.Slow)
	c.out.Slow = append(c.out.Slow, Slow{Source: source, From: from, To: to, Worst: round(worst)})
}
