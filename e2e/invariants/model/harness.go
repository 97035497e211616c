package model

import (
	"time"

	"headroom/e2e/framework/history"
)

// beatEvery is how often a process writes a beat event.
const beatEvery = time.Second

// harness remembers when the harness itself was slow.
type harness struct {
	spans   []Span
	sorted  Spans
	beats   map[string]heartbeat     // source -> the last beat
	probing map[string]time.Duration // by Op: probes that are not answered
	// folded and beaten count all events and all beats so far.
	folded, beaten int
}

// heartbeat is the last beat of a process, with how many events and beats had been folded by then.
type heartbeat struct {
	at             time.Duration
	folded, beaten int
}

func newHarness() harness {
	return harness{beats: map[string]heartbeat{}, probing: map[string]time.Duration{}}
}

const (
	// silentBeats is how many beats each of the other processes may be ahead of one that still runs.
	silentBeats = 100
	// silentEvents and silentFor are how many events, over how long a time, tell the same where no other process beats.
	silentEvents = 50_000
	silentFor    = 2 * time.Minute
	// probeLife is how long a probe may take.
	probeLife = 2 * time.Minute
)

// silent says whether the process has come to its end: the others have gone on for long without it.
func (m *Model) silent(b heartbeat) bool {
	return m.beaten-b.beaten > silentBeats*len(m.beats) || m.folded-b.folded > silentEvents && Minus(m.last, b.at) > silentFor
}

// foldBeat marks the time since the process's beat before as slow when it held a gap above slack / 2, or when beats are missing.
func (h *harness) foldBeat(e history.Event, b *history.Beat, slack time.Duration) {
	gap := max(0, time.Duration(b.MaxGap))
	from := Minus(e.At, Plus(beatEvery, gap))
	if b, ok := h.beats[e.Source]; ok {
		from = b.at
		if Minus(e.At, max(0, b.at)) > Plus(beatEvery, slack/2) {
			gap = max(gap, slack)
		}
	}
	h.beaten++
	h.beats[e.Source] = heartbeat{at: e.At, folded: h.folded, beaten: h.beaten}
	if gap > slack/2 {
		h.spans = append(h.spans, Span{From: from, To: e.At})
	}
}

// foldProbe marks the time of a slow probe. A probe that failed says nothing about the harness: the API server may be stopped on purpose.
func (h *harness) foldProbe(e history.Event, b *history.Probe, slack time.Duration) {
	if e.Op != "" && e.Phase == history.Invoke {
		h.probing[e.Op] = e.At
	} else {
		delete(h.probing, e.Op)
	}
	if l := time.Duration(b.Latency); e.Phase != history.Invoke && l > slack/2 {
		h.spans = append(h.spans, Span{From: Minus(e.At, l), To: e.At})
	}
}

// Slow says whether the harness was slow at some time from from to to. Ask once to is settled: a heartbeat tells of the second before it.
func (h *harness) Slow(from, to time.Duration) bool {
	if len(h.spans) > 0 {
		h.sorted = merged(append(h.sorted, h.spans...))
		h.spans = nil
	}
	return h.sorted.Overlaps(from, to)
}
