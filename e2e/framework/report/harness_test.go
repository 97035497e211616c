package report

import (
	"reflect"
	"testing"
	"time"

	"headroom/e2e/framework/history"
)

func TestSlowIntervals(t *testing.T) {
	s := newScript() // a heartbeat at 0
	beat := func(at, gap float64) {
		s.add(at, "beat/runner", history.Observed, "", history.Beat{Wall: wall, MaxGap: history.Duration(gap * float64(time.Second))})
	}
	probe := func(at, latency float64) {
		s.add(at, history.SourceProbe, history.OK, "", history.Probe{Latency: history.Duration(latency * float64(time.Second))})
	}
	beat(1, 0.1)
	beat(3, 1.9) // since 1
	probe(4, 1.0)
	beat(5, 1.5) // touches the one before
	beat(6, 0.1)
	beat(9, 1.001)
	probe(10, 1.5)
	s.add(11, "beat/runner", history.Observed, history.KeyClose, nil)
	sec := func(f float64) Duration { return Duration(f * float64(time.Second)) }
	// The quiet second from 5 to 6 is no more than the distance between two measurements.
	want := []Slow{
		{Source: "beat/runner", From: sec(1), To: sec(9), Worst: sec(1.9)},
		{Source: "probe", From: sec(8.5), To: sec(10), Worst: sec(1.5)},
	}
	if got := Build(Input{Header: header(), Events: s.all()}).Harness.Slow; !reflect.DeepEqual(got, want) {
		t.Errorf("want %v, got %v", want, got)
	}
}

func TestIntervalsApartStayApart(t *testing.T) {
	s := newScript()
	for _, at := range []float64{1, 2, 4, 5, 6, 8} {
		gap := 100 * time.Millisecond
		if at == 4 || at == 8 {
			gap = 1100 * time.Millisecond
		}
		s.add(at, "beat/runner", history.Observed, "", history.Beat{Wall: wall, MaxGap: history.Duration(gap)})
	}
	if got := Build(Input{Header: header(), Events: s.all()}).Harness.Slow; len(got) != 2 {
		t.Errorf("want two intervals, 2 to 4 and 6 to 8, got %v", got)
	}
}

// TestGapOfAnEmptyFile has a gap event without a time, which sorts before everything else.
func TestGapOfAnEmptyFile(t *testing.T) {
	s := newScript()
	s.spec(1, 2, "a", history.OK, history.Spec{})
	gap := history.Event{Source: history.SourceMerge, Seq: 1, Phase: history.Gap, Key: "csi/n1", Body: history.Encode(history.GapReason{Reason: "no open record"})}
	s.events = append([]history.Event{gap}, s.events...)
	r := Build(Input{Header: header(), Events: s.all()})
	if r.Elapsed != Duration(2*time.Second) || !r.Started.Equal(wall) || r.Requirements[0].Started != Duration(time.Second) {
		t.Errorf("want 2s since %s, got %s since %s, the spec at %s", wall, r.Elapsed, r.Started, r.Requirements[0].Started)
	}
	if want := []Gap{{Source: "csi/n1", Reason: "no open record"}}; !reflect.DeepEqual(r.Harness.Gaps, want) {
		t.Errorf("want %v, got %v", want, r.Harness.Gaps)
	}
	if len(r.Doubts) != 0 {
		t.Errorf("a gap outside of spec files is for the invariants to judge, got %q", r.Doubts)
	}
}
