package observe

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"headroom/e2e/framework/history"
)

const (
	beatKey = "beat"
	// beatPeriod is the time between two beats, eventPeriod between two events.
	beatPeriod, eventPeriod = 100 * time.Millisecond, time.Second
	pressureFile            = "/proc/pressure/cpu"
	// pairSpread is how long a reading of both clocks may take; a longer one is read again, up to pairTries times.
	pairSpread, pairTries = 200 * time.Microsecond, 5
)

// Beat is the heartbeat of this process: it wakes up every 100 ms and writes one event a second to the source "beat/<process>", with the clocks
// read back to back, the longest gap between two beats, and the pressure on the CPUs. It blocks until ctx ends, writes a last event, and returns
// what went wrong with the file. A process that stood still shows as a gap, and as slow from then on.
func Beat(ctx context.Context, eventsDir, run, process string) error {
	out, err := history.Create(eventsDir, run, history.PrefixBeat+process)
	if err != nil {
		return fmt.Errorf("heartbeat: %w", err)
	}
	ticks := time.NewTicker(beatPeriod)
	defer ticks.Stop()
	b := beater{out: out, now: history.Now, wall: time.Now, pressure: func() float64 { return pressure(pressureFile) }}
	b.run(ctx, ticks.C)
	return out.Close()
}

// beater is Beat with its clocks.
type beater struct {
	out      *history.Writer
	now      func() time.Duration
	wall     func() time.Time
	pressure func() float64

	beat, event time.Duration // when the last beat and the last event were
	longest     time.Duration // gap between two beats since the last event
}

func (b *beater) run(ctx context.Context, ticks <-chan time.Time) {
	b.start()
	for {
		select {
		case <-ctx.Done():
			b.stop()
			return
		case <-ticks:
			b.tick()
		}
	}
}

func (b *beater) start() {
	b.beat = b.now()
	b.write()
}

func (b *beater) tick() {
	b.count()
	if b.beat-b.event >= eventPeriod {
		b.write()
	}
}

func (b *beater) stop() {
	b.count()
	b.write()
}

// count takes one beat.
func (b *beater) count() {
	now := b.now()
	b.longest = max(b.longest, now-b.beat)
	b.beat = now
}

// write records one event. It is stamped with the moment that the wall clock was read.
func (b *beater) write() {
	at, wall := b.pair()
	b.event = at
	b.out.Write(history.Event{At: at, Phase: history.Observed, Key: beatKey, Body: history.Encode(history.Beat{
		Wall: wall, MaxGap: history.Duration(b.longest), CPUSome: b.pressure(),
	})})
	b.longest = 0
}

// pair reads both clocks. Where the process was held up between the readings it tries again and keeps the tightest pair.
func (b *beater) pair() (time.Duration, time.Time) {
	var at, spread time.Duration
	var wall time.Time
	for i := range pairTries {
		before := b.now()
		w := b.wall()
		after := b.now()
		if i == 0 || after-before < spread {
			at, wall, spread = before+(after-before)/2, w.Round(0).UTC(), after-before
		}
		if spread <= pairSpread {
			break
		}
	}
	return at, wall
}

// pressure returns avg10 of the "some" line of a PSI file, in percent; -1 where the kernel does not have it.
func pressure(file string) float64 {
	data, err := os.ReadFile(file)
	if err != nil {
		return -1
	}
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] != "some" {
			continue
		}
		for _, f := range fields[1:] {
			value, ok := strings.CutPrefix(f, "avg10=")
			if v, err := strconv.ParseFloat(value, 64); ok && err == nil {
				return v
			}
		}
	}
	return -1
}
