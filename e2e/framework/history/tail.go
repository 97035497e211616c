package history

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Tail is how far a growing file has been read. The zero value is its beginning.
type Tail struct {
	offset int64
	rest   []byte // of the line that is not yet whole
}

// Next returns the whole lines that were appended since the last call. A file that is not there yet has none.
func (t *Tail) Next(path string) ([][]byte, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close() // read only: closing has nothing to lose
	if _, err := file.Seek(t.offset, io.SeekStart); err != nil {
		return nil, err
	}
	b, err := io.ReadAll(file)
	if err != nil {
		return nil, err
	}
	t.offset += int64(len(b))
	b = append(t.rest, b...)
	whole := bytes.LastIndexByte(b, '\n') + 1
	t.rest = slices.Clone(b[whole:])
	var lines [][]byte
	for line := range bytes.Lines(b[:whole]) {
		lines = append(lines, line)
	}
	return lines, nil
}

// Live reads the events of a run that goes on, of all its writers.
type Live struct {
	dir   string
	files map[string]*Tail
	early []Event // read, and not due yet
}

// NewLive reads the events below dir from the beginning on.
func NewLive(dir string) *Live { return &Live{dir: dir, files: map[string]*Tail{}} }

// Read returns the events up to a time of CLOCK_MONOTONIC that were not returned before, in the order of a merged history. A time that is not quite the
// present gives writers the chance to write what they have stamped; what comes later still is returned the next time, late. A line that is no event is an
// error.
func (l *Live) Read(upTo time.Duration) ([]Event, error) {
	err := filepath.WalkDir(l.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, extension) {
			return err
		}
		t := l.files[path]
		if t == nil {
			t = &Tail{}
			l.files[path] = t
		}
		lines, err := t.Next(path)
		if err != nil {
			return err
		}
		for _, line := range lines {
			var e Event
			if err := unmarshal(line, &e); err != nil {
				return fmt.Errorf("%s: want an event, got %.40q: %w", path, line, err)
			}
			l.early = append(l.early, e)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the events of a run that goes on: %w", err)
	}
	l.early = Ordered(l.early)
	due, _ := slices.BinarySearchFunc(l.early, upTo, func(e Event, to time.Duration) int {
		if e.At <= to {
			return -1
		}
		return 1
	})
	events := slices.Clone(l.early[:due])
	l.early = slices.Clone(l.early[due:])
	return events, nil
}

// Ordered sorts events as Merge does, in place.
func Ordered(events []Event) []Event {
	slices.SortStableFunc(events, func(a, b Event) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Source, b.Source), cmp.Compare(a.Seq, b.Seq))
	})
	return events
}
