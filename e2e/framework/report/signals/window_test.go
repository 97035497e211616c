package signals

import (
	"reflect"
	"testing"
	"time"

	"headroom/e2e/framework/history"
)

// TestSinceLeavesOutWhatWasBefore has each signal twice: before the window, and in it.
func TestSinceLeavesOutWhatWasBefore(t *testing.T) {
	s := newScript()
	s.quota(0, 5, 0)
	s.count(1, 1, 5)
	s.quota(10, 8, 0)
	s.count(12, 2, 8) // arrived before
	attaches := func(at float64, op string) {
		s.add(at, "csi/controller/d", history.Invoke, history.Event{Op: op, Key: "ControllerPublishVolume"}, history.CSICall{Side: history.ClientSide, Driver: "d", Volume: "v"})
		s.add(at, "csi/controller/d", history.Fail, history.Event{Op: op, Key: "ControllerPublishVolume"}, history.CSICall{Side: history.ClientSide, Driver: "d", Volume: "v", Code: 13})
	}
	writes := func(at float64) {
		s.add(at, "audit", history.OK, history.Event{Key: "csinodes/n1"}, history.Audit{User: "system:node:n1", Verb: "update", Resource: "csinodes", Name: "n1", Status: 200})
	}
	waits := func(at float64, uid string) {
		s.add(at, "api/pods", history.Observed, history.Event{Key: "ns/" + uid}, history.Pod{
			Object: history.Object{Type: "MODIFIED", UID: uid}, PodPhase: "Pending", Unschedulable: "0/1 nodes are available: 1 node(s) exceed max volume count.",
		})
	}
	attaches(13, "a")
	writes(14)
	waits(15, "p")
	s.attachment(16, "va", "ADDED", true)
	s.quota(18, 6, 0) // on its way when the window begins
	s.count(22, 3, 6)
	attaches(23, "b")
	writes(24)
	waits(25, "q")
	s.quota(26, 7, 0)
	s.count(30, 4, 6)

	got := s.c.Since(20 * time.Second)
	want := Signals{
		HistorySeconds: 10,
		UpdateDelay:    Delay{Samples: 1, P50Seconds: 4, P99Seconds: 4, MaxSeconds: 4, Open: 1, OldestOpenSeconds: 4},
		CountChanges:   Changes{Changes: 1, PerMinute: 6},
		PendingReasons: []Reason{{"exceed max volume count", 1}},
		AttachFailures: []Failures{{Code: 13, Name: "Internal", Calls: 1}},
		CSINodeWrites:  []Writes{{Writer: "system:node:n1", Writes: 1, PerSecond: 0.1}},
		Volumes:        []Volumes{{Node: "n1", Driver: "d", Attached: 1, Count: got.Volumes[0].Count, MostAttached: 1}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("want %+v,\n got %+v", want, got)
	}
	if all := s.c.Finish(); all.CountChanges.Changes != 2 || all.UpdateDelay.Samples != 2 || all.AttachFailures[0].Calls != 2 || all.CSINodeWrites[0].Writes != 2 {
		t.Errorf("the whole history: want everything twice, got %+v", all)
	}
}

func TestUnaskedChanges(t *testing.T) {
	for name, tc := range map[string]struct {
		write            func(*script)
		unasked, rolledB int
	}{
		"asked for":           {func(s *script) { s.quota(5, 8, 0); s.count(9, 2, 8) }, 0, 0},
		"out of the blue":     {func(s *script) { s.count(9, 2, 3) }, 1, 0},
		"and back":            {func(s *script) { s.count(9, 2, 3); s.count(19, 3, 5) }, 1, 0},
		"again and again":     {func(s *script) { s.count(9, 2, 3); s.count(19, 3, 5); s.count(29, 4, 4) }, 2, 0},
		"to an older truth":   {func(s *script) { s.quota(5, 8, 0); s.count(9, 2, 8); s.count(19, 3, 5) }, 1, 1},
		"to none":             {func(s *script) { s.count(9, 2, 0) }, 1, 0},
		"answered too late":   {func(s *script) { s.quota(5, 8, 0); s.quota(6, 5, 0); s.count(9, 2, 8) }, 0, 0},
		"registered anew":     {func(s *script) { s.count(9, 2, -1); s.count(10, 3, 2) }, 0, 0},
		"never was the truth": {func(s *script) { s.quota(5, 8, 0); s.count(9, 2, 7); s.count(19, 3, 6) }, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript()
			s.quota(0, 5, 0)
			s.count(1, 1, 5)
			tc.write(s)
			if got := s.c.Finish().CountChanges; got.Unasked != tc.unasked || got.RolledBack != tc.rolledB {
				t.Errorf("want %d unasked, %d rolled back, got %+v", tc.unasked, tc.rolledB, got)
			}
		})
	}
}
