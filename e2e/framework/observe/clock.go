package observe

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"time"

	"headroom/e2e/framework/history"
)

// ClockPair is one reading of both clocks: CLOCK_MONOTONIC and, at the same instant, the wall clock.
type ClockPair struct {
	At   time.Duration
	Wall time.Time
}

// ClockPairs reads the pairs that Beat wrote below eventsDir, of all processes, in the order of At. A line that is no event (a torn one) is passed
// over: Merge reports it. No pair at all is an error.
func ClockPairs(eventsDir string) ([]ClockPair, error) {
	var pairs []ClockPair
	root := filepath.Join(eventsDir, filepath.FromSlash(strings.TrimSuffix(history.PrefixBeat, "/")))
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".jsonl" {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(data)) {
			var e history.Event
			var b history.Beat
			if json.Unmarshal([]byte(line), &e) != nil || e.Key != beatKey {
				continue
			}
			if err := e.Decode(&b); err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
			pairs = append(pairs, ClockPair{At: e.At, Wall: b.Wall})
		}
		return nil
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read clock pairs: %w", err)
	}
	if len(pairs) == 0 {
		return nil, fmt.Errorf("read clock pairs: none below %s: a run needs at least one heartbeat (Beat)", root)
	}
	slices.SortStableFunc(pairs, func(a, b ClockPair) int { return cmp.Compare(a.At, b.At) })
	return pairs, nil
}

// clockStep is how far the two clocks may drift apart between two pairs before that counts as a step of the wall clock. Slewing is at most 0.5 ms
// a second; the slack of checks is much larger than this.
const clockStep = 100 * time.Millisecond

// clock converts wall times to CLOCK_MONOTONIC.
type clock struct {
	base     time.Time
	segments [][]reading // between steps of the wall clock
}

// reading is a ClockPair with the wall clock counted from clock.base.
type reading struct{ at, wall time.Duration }

func newClock(pairs []ClockPair) (*clock, error) {
	if len(pairs) == 0 {
		return nil, errors.New("convert wall times: no clock pairs")
	}
	pairs = slices.Clone(pairs)
	slices.SortStableFunc(pairs, func(a, b ClockPair) int { return cmp.Compare(a.At, b.At) })
	c := &clock{base: pairs[0].Wall}
	for i, p := range pairs {
		r := reading{at: p.At, wall: p.Wall.Sub(c.base)}
		if i > 0 {
			last := &c.segments[len(c.segments)-1]
			if prev := (*last)[len(*last)-1]; ((r.wall - r.at) - (prev.wall - prev.at)).Abs() <= clockStep {
				*last = append(*last, r)
				continue
			}
		}
		c.segments = append(c.segments, []reading{r})
	}
	return c, nil
}

// at returns when the wall clock showed wall. Where it was set back and so showed wall twice, the time nearest to hint is meant. A time that it
// never showed, as far as the pairs tell, is taken from the nearest pair.
func (c *clock) at(wall time.Time, hint time.Duration) time.Duration {
	w := wall.Sub(c.base)
	var best, fallback, distance time.Duration
	found := false
	for i, s := range c.segments {
		at := convert(s, w)
		first, last := s[0].at, s[len(s)-1].at
		// The step to the next segment came somewhere between the last pair of this one and the first of that.
		possible := (i == 0 || at >= c.segments[i-1][len(c.segments[i-1])-1].at) && (i == len(c.segments)-1 || at <= c.segments[i+1][0].at)
		if possible && (!found || (at-hint).Abs() < (best-hint).Abs()) {
			best, found = at, true
		}
		if d := max(first-at, at-last, 0); i == 0 || d < distance {
			fallback, distance = at, d
		}
	}
	if !found {
		return fallback
	}
	return best
}

// convert interpolates between the two readings around w, and goes on at the pace of the wall clock beyond the ends.
func convert(s []reading, w time.Duration) time.Duration {
	i := sort.Search(len(s), func(i int) bool { return s[i].wall >= w })
	switch {
	case i == 0:
		return s[0].at - (s[0].wall - w)
	case i == len(s):
		return s[i-1].at + (w - s[i-1].wall)
	}
	a, b := s[i-1], s[i]
	if b.wall <= a.wall { // two processes read the clocks at once
		return b.at
	}
	share, drift := float64(w-a.wall)/float64(b.wall-a.wall), (b.at-a.at)-(b.wall-a.wall)
	return a.at + (w - a.wall) + time.Duration(share*float64(drift)) // exact where the clocks did not drift
}
