package history

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
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

// maxLine bounds one event, so that a damaged file cannot exhaust memory.
const maxLine = 8 << 20

// record is where one event lies in its file.
type record struct {
	at   time.Duration
	seq  uint64
	file int
	off  int64
	size int
	gap  *Event // made up by Merge; not in a file
}

// scan is what one pass over a writer's file finds.
type scan struct {
	run     string
	records []record
	gaps    []string // reasons, in the order found
	torn    bool     // the last line has no end
	closed  bool
}

// scanFile reads the frame of every event of a file and what is wrong with it. It fails only when the file cannot be read, or belongs to two runs.
func scanFile(r io.Reader, source string) (scan, error) {
	var s scan
	in := bufio.NewReaderSize(r, 1<<16)
	var off int64
	var last uint64
	for line := 1; ; line++ {
		b, err := in.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return s, err
		}
		if len(b) == 0 {
			break
		}
		start := off
		off += int64(len(b))
		if b[len(b)-1] != '\n' {
			s.torn = true
		}
		var e Event
		switch {
		case len(bytes.TrimSpace(b)) == 0: // the end that a torn line was given
			continue
		case s.torn:
			s.gaps = append(s.gaps, fmt.Sprintf("line %d is torn off", line))
			continue
		case len(b) > maxLine || unmarshal(b, &e) != nil || e.Source != source || e.Seq == 0:
			s.gaps = append(s.gaps, fmt.Sprintf("line %d is not an event of %q", line, source))
			continue
		case e.Seq != last+1:
			s.gaps = append(s.gaps, fmt.Sprintf("line %d: event %d follows event %d", line, e.Seq, last))
		}
		last = max(last, e.Seq)
		s.records = append(s.records, record{at: e.At, seq: e.Seq, off: start, size: len(b)})
		if err := s.frame(e, line); err != nil {
			return s, err
		}
	}
	return s, nil
}

// frame follows the open and close records.
func (s *scan) frame(e Event, line int) error {
	switch e.Key {
	case KeyClose:
		s.closed = true
	case KeyOpen:
		var o openRecord
		if err := e.Decode(&o); err != nil {
			return fmt.Errorf("line %d: %w", line, err)
		}
		if s.run != "" && o.Run != s.run {
			return &MixedRunsError{Line: line, Want: s.run, Got: o.Run}
		}
		if s.run != "" && !s.closed {
			s.gaps = append(s.gaps, fmt.Sprintf("line %d: opened again without having been closed", line))
		}
		s.run, s.closed = o.Run, false
	}
	return nil
}

// MixedRunsError says that events of two runs lie in one run directory.
type MixedRunsError struct {
	File      string
	Line      int
	Want, Got string
}

func (e *MixedRunsError) Error() string {
	return fmt.Sprintf("%s:%d: events of run %q among those of run %q: a run directory holds one run; judge each run's own directory", e.File, e.Line, e.Got, e.Want)
}

// Merge joins the writers' files below eventsDir into one history at out, behind h, ordered by (At, Source, Seq). A file without a close record,
// with a hole in its numbers or with a line that is no event yields a gap event (source "merge", Key the file's source). Files of another run
// than h.Run are a *MixedRunsError. out is written beside its place and renamed, so that a history is whole or absent.
func Merge(eventsDir string, h Header, out string) (err error) {
	h.Schema = Schema
	var paths []string
	err = filepath.WalkDir(eventsDir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.HasSuffix(path, extension) {
			paths = append(paths, path)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("merge history: %w", err)
	}
	if len(paths) == 0 {
		return fmt.Errorf("merge history: no events (*%s) below %s", extension, eventsDir)
	}
	m := merger{}
	defer func() { err = errors.Join(err, m.close()) }()
	for _, path := range paths {
		rel, err := filepath.Rel(eventsDir, path)
		if err != nil {
			return fmt.Errorf("merge history: %w", err)
		}
		if err := m.add(path, strings.TrimSuffix(filepath.ToSlash(rel), extension), h.Run); err != nil {
			return fmt.Errorf("merge history: %w", err)
		}
	}
	return m.write(h, out)
}

type merger struct {
	files   []*os.File
	sources []string
	records []record
	gaps    uint64
}

func (m *merger) close() error {
	var errs []error
	for _, f := range m.files {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}

// add scans one file and turns what is wrong with it into gap events, placed at its last event.
func (m *merger) add(path, source, run string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	n := len(m.files)
	m.files, m.sources = append(m.files, f), append(m.sources, source)
	s, err := scanFile(f, source)
	var mixed *MixedRunsError
	switch {
	case errors.As(err, &mixed):
		mixed.File = path
		return mixed
	case err != nil:
		return fmt.Errorf("%s: %w", path, err)
	case s.run != "" && s.run != run:
		return &MixedRunsError{File: path, Line: 1, Want: run, Got: s.run}
	case s.run == "":
		s.gaps = append(s.gaps, "it has no open record")
	case !s.closed:
		s.gaps = append(s.gaps, "it has no close record: its writer was killed or still runs")
	}
	var end time.Duration
	for _, r := range s.records {
		end = max(end, r.at)
		r.file = n
		m.records = append(m.records, r)
	}
	for _, reason := range s.gaps {
		m.gaps++
		m.records = append(m.records, record{at: end, seq: m.gaps, file: -1, gap: &Event{
			At: end, Source: SourceMerge, Seq: m.gaps, Phase: Gap, Key: source, Body: Encode(GapReason{Reason: reason}),
		}})
	}
	return nil
}

// GapReason is the body of gap events.
type GapReason struct {
	Reason string `json:"reason"`
}

func (m *merger) source(r record) string {
	if r.file < 0 {
		return SourceMerge
	}
	return m.sources[r.file]
}

func (m *merger) write(h Header, out string) (err error) {
	slices.SortStableFunc(m.records, func(a, b record) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(m.source(a), m.source(b)), cmp.Compare(a.seq, b.seq))
	})
	tmp, err := os.CreateTemp(filepath.Dir(out), "."+filepath.Base(out)+"-*")
	if err != nil {
		return fmt.Errorf("merge history: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("merge history: %w", err), tmp.Close(), os.Remove(tmp.Name()))
		}
	}()
	w := bufio.NewWriterSize(tmp, 1<<16)
	enc := json.NewEncoder(w)
	if err := enc.Encode(h); err != nil {
		return err
	}
	var end time.Duration
	for _, r := range m.records {
		end = max(end, r.at)
		if r.gap != nil {
			if err := enc.Encode(r.gap); err != nil {
				return err
			}
			continue
		}
		if _, err := io.Copy(w, io.NewSectionReader(m.files[r.file], r.off, int64(r.size))); err != nil {
			return err
		}
	}
	// The last line counts the events, so that a cut-off history is told from a short one.
	if err := enc.Encode(Event{At: end, Source: SourceMerge, Seq: m.gaps + 1, Phase: Observed, Key: KeyEnd, Body: Encode(endRecord{Events: len(m.records)})}); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if err := tmp.Chmod(0o644); err != nil {
		return err
	}
	if err := tmp.Close(); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), out)
}

// endRecord is the body of KeyEnd.
type endRecord struct {
	Events int `json:"events"`
}
