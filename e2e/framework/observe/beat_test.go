package observe

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"headroom/e2e/framework/history"
)

func TestBeatShowsAGap(t *testing.T) {
	g := NewWithT(t)
	dir := t.TempDir()
	out, err := history.Create(dir, "run-1", history.PrefixBeat+"p1")
	g.Expect(err).NotTo(HaveOccurred())
	// Far in the future of the real clock, which stamped the open record.
	start := history.Now() + time.Hour
	now := start
	b := beater{out: out, now: func() time.Duration { return now }, wall: func() time.Time { return wall((now - start).Seconds()) },
		pressure: func() float64 { return 12.5 }}
	b.start()
	for _, ms := range []int{100, 100, 100, 350, 100, 100, 100, 100 /* 1050 */, 100, 100, 2500 /* stood still */, 100} {
		now += time.Duration(ms) * time.Millisecond
		b.tick()
	}
	now += 70 * time.Millisecond
	b.stop()
	g.Expect(out.Close()).To(Succeed())

	type row struct {
		at, gap, wall time.Duration
	}
	var got []row
	for _, e := range readSource(t, dir, "beat/p1") {
		var body history.Beat
		g.Expect(e.Decode(&body)).To(Succeed())
		g.Expect(body.CPUSome).To(Equal(12.5))
		got = append(got, row{e.At - start, time.Duration(body.MaxGap), body.Wall.Sub(wall(0))})
	}
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	g.Expect(got).To(Equal([]row{
		{0, 0, 0}, {ms(1050), ms(350), ms(1050)}, {ms(3750), ms(2500), ms(3750)}, {ms(3920), ms(100), ms(3920)},
	}))

	pairs, err := ClockPairs(dir)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(pairs).To(HaveLen(4))
	g.Expect(pairs[2]).To(Equal(ClockPair{At: start + ms(3750), Wall: wall(3.75)}))
}

func TestBeatKeepsTheTightestPair(t *testing.T) {
	// Held up for 50 ms between the readings, twice; the third try is clean.
	mono := []time.Duration{at(1), at(1.05), at(2), at(2.05), at(3), at(3.0001)}
	walls := []time.Time{wall(1), wall(2), wall(3)}
	b := beater{
		now:  func() time.Duration { m := mono[0]; mono = mono[1:]; return m },
		wall: func() time.Time { w := walls[0]; walls = walls[1:]; return w },
	}
	if m, w := b.pair(); m != at(3.00005) || !w.Equal(wall(3)) {
		t.Errorf("want the third reading, got %v at %v", w, m)
	}
}

func TestBeatWithTheRealClocks(t *testing.T) {
	g := NewWithT(t)
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	before := time.Now()
	go func() { done <- Beat(ctx, dir, "run-1", "p1") }()
	g.Eventually(func() int { p, _ := ClockPairs(dir); return len(p) }, patience).Should(BeNumerically(">=", 2))
	cancel()
	g.Eventually(done, patience).Should(Receive(BeNil()))
	pairs, err := ClockPairs(dir)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(len(pairs)).To(BeNumerically(">=", 3))
	g.Expect(pairs[0].Wall).To(BeTemporally("~", before, patience))
	c, err := newClock(pairs)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(c.at(pairs[1].Wall, 0)).To(BeNumerically("~", pairs[1].At, time.Millisecond))
}

func TestClockPairsPassOverTornLinesAndWantAtLeastOne(t *testing.T) {
	g := NewWithT(t)
	dir := t.TempDir()
	_, err := ClockPairs(dir)
	g.Expect(err).To(MatchError(ContainSubstring("a run needs at least one heartbeat")))
	g.Expect(os.MkdirAll(filepath.Join(dir, "beat", "cell"), 0o755)).To(Succeed())
	const whole = `{"at":5000,"src":"beat/cell/n1","seq":2,"ph":"observed","key":"beat",` +
		`"body":{"wall":"2026-03-01T10:00:00Z","maxGap":"0s","cpuSome":-1}}`
	file := filepath.Join(dir, "beat", "cell", "n1.jsonl")
	g.Expect(os.WriteFile(file, []byte(whole+"\n"+whole[:70]+"\n"+whole[:30]), 0o600)).To(Succeed())
	g.Expect(ClockPairs(dir)).To(Equal([]ClockPair{{At: 5000, Wall: wall(0)}}))
	g.Expect(os.WriteFile(file, []byte(`{"key":"beat","body":{"wall":"yesterday"}}`), 0o600)).To(Succeed())
	_, err = ClockPairs(dir)
	g.Expect(err).To(MatchError(ContainSubstring("n1.jsonl")))
}

func TestPressure(t *testing.T) {
	for _, tc := range []struct {
		name, text string
		want       float64
	}{
		{"some", "some avg10=1.53 avg60=0.87 avg300=0.21 total=10\nfull avg10=9.00 avg60=0.00 avg300=0.00 total=0\n", 1.53},
		{"only full", "full avg10=9.00 avg60=0.00\n", -1},
		{"no number", "some avg10=x avg60=0.00\n", -1},
		{"empty", "", -1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "cpu")
			if err := os.WriteFile(file, []byte(tc.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if got := pressure(file); got != tc.want {
				t.Errorf("want %v, got %v", tc.want, got)
			}
		})
	}
	if got := pressure(filepath.Join(t.TempDir(), "absent")); got != -1 {
		t.Errorf("absent: want -1, got %v", got)
	}
}
