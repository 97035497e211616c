package invariants

import (
	"errors"
	"iter"
	"strings"
	"testing"

	"headroom/e2e/framework/history"
)

// numbered yields events with the numbers 1 to n, then last, and counts those that were asked for.
func numbered(n int, last error, read *int) iter.Seq2[history.Event, error] {
	return func(yield func(history.Event, error) bool) {
		for i := range n {
			*read = i + 1
			if !yield(history.Event{Source: "probe", Seq: uint64(i + 1)}, nil) {
				return
			}
		}
		if last != nil {
			yield(history.Event{}, last)
		}
	}
}

func TestAheadKeepsOrderAndError(t *testing.T) {
	for _, n := range []int{0, 1, batch - 1, batch, batch + 1, 10*batch + 3} {
		var read, got int
		var end error
		want := errors.New("torn")
		for d := range ahead(numbered(n, want, &read), func(e history.Event) (any, error) { return e.Seq, nil }) {
			if d.err != nil {
				end = d.err
				continue
			}
			if got++; d.Seq != uint64(got) || d.body != d.Seq {
				t.Fatalf("%d events: want event %d with its body, got %d with %v", n, got, d.Seq, d.body)
			}
		}
		if got != n || !errors.Is(end, want) {
			t.Errorf("want %d events and then %v, got %d and %v", n, want, got, end)
		}
	}
}

func TestAheadStopsReading(t *testing.T) {
	var read int
	for range ahead(numbered(1_000_000, nil, &read), func(history.Event) (any, error) { return nil, nil }) {
		break
	}
	// No reader is left: else the race detector, or the number read a moment later, would tell.
	if at := read; at > (batches+3)*batch {
		t.Errorf("want a few batches read, got %d events", at)
	}
}

func TestAheadPanics(t *testing.T) {
	defer func() {
		if p := recover(); p != "the source broke" {
			t.Errorf("want the source's panic, got %v", p)
		}
	}()
	for range ahead(func(func(history.Event, error) bool) { panic("the source broke") }, nil) {
		t.Error("want no event")
	}
}

// TestAheadLosesWhatPanics wants one event lost, and the next one judged.
func TestAheadLosesWhatPanics(t *testing.T) {
	var read, sound int
	for d := range ahead(numbered(2, nil, &read), func(e history.Event) (any, error) {
		if e.Seq == 1 {
			panic("no such type")
		}
		return e.Seq, nil
	}) {
		switch {
		case d.Seq == 2 && d.bodyErr == nil:
			sound++
		case d.Seq != 1 || d.bodyErr == nil || !strings.Contains(d.bodyErr.Error(), "probe#1: decoding its body panicked: no such type"):
			t.Errorf("want the event's name and the panic, got %+v", d)
		}
	}
	if sound != 1 {
		t.Errorf("want one sound event, got %d", sound)
	}
}
