package history

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// Keys of the records that frame a writer's file and a merged history.
const (
	KeyOpen  = "writer/open"
	KeyClose = "writer/close"
	KeyEnd   = "merge/end"
)

// openRecord is the body of KeyOpen.
type openRecord struct {
	Run     string `json:"run"`
	PID     int    `json:"pid"`
	Program string `json:"program"`
}

const extension = ".jsonl"

// Writer appends the events of one source to its file. A nil Writer discards, so that a program can run without a history.
type Writer struct {
	mu     sync.Mutex
	file   *os.File
	source string
	seq    uint64
	last   time.Duration // the previous event's At, which must not go back within a file
	err    error
	buf    bytes.Buffer
}

// Create opens <dir>/<source>.jsonl for run, making folders as needed, and writes the open record. A file that an earlier process of the same
// run left (a restarted component) is continued: its numbers go on, and whatever it tore off at its end stays as a line that reads as a gap.
// A file of another run is an error that names both.
func Create(dir, run, source string) (*Writer, error) {
	if source == "" || source == SourceMerge || source != filepath.ToSlash(filepath.Clean(source)) || strings.HasPrefix(source, "/") || strings.HasPrefix(source, "..") {
		return nil, fmt.Errorf("history source %q: want a relative name such as %q", source, "csi/n1")
	}
	path := filepath.Join(dir, filepath.FromSlash(source)+extension)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("create history of %q: %w", source, err)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("create history of %q: %w", source, err)
	}
	w := &Writer{file: f, source: source}
	if err := w.resume(run, path); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	w.Write(Event{Phase: Observed, Key: KeyOpen, Body: Encode(openRecord{Run: run, PID: os.Getpid(), Program: filepath.Base(os.Args[0])})})
	if w.err != nil {
		return nil, errors.Join(w.err, f.Close())
	}
	return w, nil
}

// resume finds the last number of an existing file, ends a torn line, and refuses the file of another run.
func (w *Writer) resume(run, path string) error {
	s, err := scanFile(w.file, w.source)
	if err != nil {
		return fmt.Errorf("continue history %s: %w", path, err)
	}
	if s.run != "" && s.run != run {
		return fmt.Errorf("history %s belongs to run %q, this is run %q: use an empty run directory", path, s.run, run)
	}
	if s.torn {
		if _, err := io.WriteString(w.file, "\n"); err != nil {
			return fmt.Errorf("continue history %s: %w", path, err)
		}
	}
	for _, r := range s.records {
		w.seq = max(w.seq, r.seq)
		w.last = max(w.last, r.at)
	}
	return nil
}

// Write appends e with one write call. It sets Source and Seq, and At when it is zero. Events of one file never go back in time: an At before
// the previous event's is raised to it. A failed write is kept for Close and shows as a gap, because its number is used up. After Close, events are
// discarded: whoever still writes then has missed the end of the run.
func (w *Writer) Write(e Event) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.file != nil {
		w.append(e)
	}
}

// append does the work of Write under the lock.
func (w *Writer) append(e Event) {
	if e.At == 0 {
		e.At = Now()
	}
	e.At = max(e.At, w.last)
	w.seq++
	e.Source, e.Seq = w.source, w.seq
	w.last = e.At
	w.buf.Reset()
	if err := json.NewEncoder(&w.buf).Encode(e); err != nil {
		w.err = errors.Join(w.err, fmt.Errorf("write history of %q: event %d: %w", w.source, e.Seq, err))
		return
	}
	if _, err := w.file.Write(w.buf.Bytes()); err != nil && w.err == nil {
		w.err = fmt.Errorf("write history of %q: %w", w.source, err)
	}
}

// Close writes the close record and returns the first error of the writer's life. Closing twice, or a nil Writer, is no error.
func (w *Writer) Close() error {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.file == nil {
		return nil
	}
	w.append(Event{Phase: Observed, Key: KeyClose})
	err := errors.Join(w.err, w.file.Close())
	w.file = nil
	return err
}

// Count counts the events of one source, so far, that match. A last line that is still being written is left out.
func Count(dir, source string, match func(Event) bool) (int, error) {
	f, err := os.Open(filepath.Join(dir, filepath.FromSlash(source)+extension))
	if err != nil {
		return 0, fmt.Errorf("read history of %q: %w", source, err)
	}
	defer f.Close()
	n := 0
	for in := json.NewDecoder(f); ; {
		var e Event
		switch err := in.Decode(&e); {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return n, nil
		case err != nil:
			return n, fmt.Errorf("read history of %q: %w", source, err)
		}
		if match(e) {
			n++
		}
	}
}
