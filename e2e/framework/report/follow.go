package report

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"headroom/e2e/framework/history"
)

// followEvery is how often growing files are read.
const followEvery = 200 * time.Millisecond

// Follow prints the progress of the specs whose writers write below eventsDir, until ctx ends; what they wrote until then is still printed. The
// directory may appear later. A last line that is not yet whole waits for its rest. It returns the first error of reading or writing.
func Follow(ctx context.Context, eventsDir string, w io.Writer) error {
	f := newFollower(eventsDir, w)
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	for {
		// Asked before reading: what was written before the end is read after it.
		done := ctx.Err() != nil
		if err := errors.Join(f.read(), f.printer.Err()); err != nil {
			return err
		}
		if done {
			return nil
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

type follower struct {
	dir     string
	files   map[string]*place
	printer *Printer
}

// place is how far a file has been read.
type place struct {
	history.Tail
	line int
}

func newFollower(dir string, w io.Writer) *follower {
	return &follower{dir: dir, files: map[string]*place{}, printer: Progress(w)}
}

// read prints what is new in all files, in the order of its time.
func (f *follower) read() error {
	paths, err := filepath.Glob(filepath.Join(globQuote(f.dir), history.PrefixSpec+"*.jsonl"))
	if err != nil {
		return fmt.Errorf("follow %s: %w", f.dir, err)
	}
	var events []history.Event
	var damage []string
	for _, path := range paths {
		t := f.files[path]
		if t == nil {
			t = &place{}
			f.files[path] = t
		}
		lines, err := t.Next(path)
		if err != nil {
			return fmt.Errorf("follow: %w", err)
		}
		for _, line := range lines {
			t.line++
			var e history.Event
			if err := json.Unmarshal(line, &e); err != nil || e.Source == "" {
				damage = append(damage, fmt.Sprintf("%s:%d: want an event, got %s", path, t.line, clip(oneLine(string(line)), 40)))
				continue
			}
			events = append(events, e)
		}
	}
	last := f.printer.clock.start
	for _, e := range history.Ordered(events) {
		f.printer.Observe(e)
		last = e.At
	}
	for _, d := range damage {
		f.printer.Note(last, d)
	}
	return nil
}

// globQuote takes the meaning from the characters of dir that Glob would read as a pattern.
func globQuote(dir string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(dir)
}
