package model

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"headroom/e2e/framework/history"
)

// quiet folds something that says nothing, to make time go by.
func (f *feed) quiet(at int) {
	f.add(at, history.Event{Source: "api/csidrivers", Key: "other"}, history.CSIDriver{})
}

func (f *feed) beat(at int, process string) {
	f.add(at, history.Event{Source: "beat/" + process}, history.Beat{})
}

func TestSettled(t *testing.T) {
	const lag = 14 // 10 s and twice the slack
	for _, c := range []struct {
		name string
		run  func(*feed)
		want int // seconds
	}{
		{"nothing but events", func(f *feed) { f.quiet(100) }, 100 - lag},
		{"processes that beat", func(f *feed) { f.beat(99, "p"); f.beat(100, "q") }, 100 - lag},
		{"a process that stands still", func(f *feed) { f.beat(50, "p"); f.beat(100, "q") }, 50},
		{"all stood still", func(f *feed) { f.beat(50, "p"); f.beat(51, "q"); f.quiet(4000) }, 50},
		{"a process that has ended", func(f *feed) {
			f.beat(0, "p")
			for i := range 2*silentBeats + 1 {
				f.beat(i, "q")
			}
		}, 2*silentBeats - lag},
		{"a probe under way", func(f *feed) {
			f.add(70, history.Event{Source: "probe", Phase: history.Invoke, Op: "1"}, history.Probe{})
			f.quiet(100)
		}, 70},
		{"a probe answered", func(f *feed) {
			f.add(70, history.Event{Source: "probe", Phase: history.Invoke, Op: "1"}, history.Probe{})
			f.add(100, history.Event{Source: "probe", Phase: history.OK, Op: "1"}, history.Probe{})
		}, 100 - lag},
		{"a probe that nobody answers", func(f *feed) {
			f.add(70, history.Event{Source: "probe", Phase: history.Invoke, Op: "1"}, history.Probe{})
			f.quiet(300)
		}, 300 - lag},
	} {
		f := newFeed(history.Header{})
		c.run(f)
		if got := f.Settled(); got != time.Duration(c.want)*time.Second {
			t.Errorf("%s: want %d s, got %s", c.name, c.want, got)
		}
	}
}

func TestForgetKeepsWhatIsInForce(t *testing.T) {
	var l Timeline[int]
	for i := range 10 {
		l.set(time.Duration(10*i), i, history.Ref{})
	}
	l.forget(45)
	for at, want := range map[time.Duration]int{45: 4, 49: 4, 50: 5, 99: 9} {
		if p, ok := l.At(at); !ok || p.Value != want {
			t.Errorf("at %d: want %d, got %+v", at, want, p)
		}
	}
	if n := len(l.Points()); n != 6 {
		t.Errorf("want what was over before forgotten, got %d points", n)
	}
	l.forget(45)
	if p, _ := l.At(45); p.Value != 4 {
		t.Errorf("want the same forgotten once, got %+v", p)
	}
}

// TestForgetDropsCalls: what was over is dropped, and what is open holds what came after it.
func TestForgetDropsCalls(t *testing.T) {
	call := func(f *feed, at int, op string, phase history.Phase) {
		f.add(at, history.Event{Source: "csi/n1", Node: "n1", Phase: phase, Op: op, Key: NodeGetInfo}, history.CSICall{Side: history.ClientSide, Driver: "d"})
	}
	id := ID{Node: "n1", Driver: "d"}
	f := newFeed(history.Header{})
	call(f, 10, "a", history.Invoke)
	call(f, 15, "a", history.OK)
	call(f, 20, "b", history.Invoke)
	call(f, 30, "c", history.Invoke)
	call(f, 31, "c", history.OK)
	f.Forget(100 * time.Second)
	if got := len(f.Infos(id)); got != 2 {
		t.Errorf("want the call that is under way and the one after it kept, got %d", got)
	}
	if got := f.Slowest(id, 0); got != 5*time.Second {
		t.Errorf("want the slowest of those forgotten remembered, got %s", got)
	}
	call(f, 40, "b", history.OK)
	f.Forget(100 * time.Second)
	if got := len(f.Infos(id)); got != 0 {
		t.Errorf("want all forgotten, got %d", got)
	}
	call(f, 200, "d", history.Invoke)
	f.Forget(200*time.Second + callLife + 1)
	call(f, 200+int(callLife/time.Second)+1, "d", history.OK)
	if got := f.Infos(id); len(got) != 1 || !got[0].Orphan {
		t.Errorf("want the answer of a call that was given up to be an orphan's, got %+v", got)
	}
}

// TestMostHeldAfterForgetting compares the answers of a model that forgot with those of one that did not, over histories by chance.
func TestMostHeldAfterForgetting(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		all, some := newFeed(history.Header{}), newFeed(history.Header{})
		cut := time.Duration(0)
		for at := 0; at < 3000; at += 1 + r.IntN(40) {
			e := history.Event{Source: history.SourceBackend, Node: "n1", Phase: history.OK, Key: "detach"}
			b := history.Backend{Volume: fmt.Sprint("v", at), Quota: &history.Quota{Limit: 9, Attached: int64(r.IntN(9))}}
			if r.IntN(6) == 0 {
				e.Key = "get"
			}
			all.add(at, e, b)
			some.add(at, e, b)
			if r.IntN(5) == 0 {
				cut = max(cut, time.Duration(at-r.IntN(20))*time.Second)
				some.Forget(cut)
			}
			from := cut + time.Duration(r.IntN(20))*time.Second
			if want, got := all.MostHeld("n1", from, from+20*time.Second), some.MostHeld("n1", from, from+20*time.Second); got != want {
				t.Fatalf("seed %d, at %d s: want %d, got %d", seed, at, want, got)
			}
		}
		if len(some.held["n1"].Points()) >= len(all.held["n1"].Points()) {
			t.Fatalf("seed %d: want something forgotten", seed)
		}
	}
}
