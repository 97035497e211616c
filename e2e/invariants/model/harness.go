package model

import (
	"time"

	"headroom/e2e/framework/history"
)

// beatEvery is how often a process writes a beat event.
const beatEvery = time.Second

// harness remembers when the harness itself was slow.
type harness struct {
	spans  []Span
	sorted Spans
	beats  map[string]time.Duration // source -> the last beat
}

func newHarness() harness { return harness{beats: map[string]time.Duration{}} }

// foldBeat marks the time since the process's beat before as slow when it held a gap above slack / 2, or when beats are missing.
func (h *harness) foldBeat(e history.Event, b *history.Beat, slack time.Duration) {
	gap := max(0, time.Duration(b.MaxGap))
	from := Minus(e.At, Plus(beatEvery, gap))
	if prev, ok := h.beats[e.Source]; ok {
		from = min(prev, Minus(e.At, gap))
		if Minus(e.At, max(0, prev)) > Plus(beatEvery, slack/2) {
			gap = max(gap, slack)
		}
	}
	h.beats[e.Source] = e.At
	if gap > slack/2 {
		h.spans = append(h.spans, Span{From: from, To: e.At})
	}
}

// foldProbe marks the time of a slow probe. A probe that failed says nothing about the harness: the API server may be stopped on purpose.
func (h *harness) foldProbe(e history.Event, b *history.Probe, slack time.Duration) {
	if l := time.Duration(b.Latency); e.Phase != history.Invoke && l > slack/2 {
		h.spans = append(h.spans, Span{From: Minus(e.At, l), To: e.At})
	}
}

// Slow says whether the harness was slow at some time from from to to. Ask at the end of the history: a heartbeat tells of the second before it.
func (h *harness) Slow(from, to time.Duration) bool {
	if len(h.spans) > 0 {
		h.sorted = merged(append(h.sorted, h.spans...))
		h.spans = nil
	}
	return h.sorted.Overlaps(from, to)
}
