package history

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
)

// Reader reads a merged history, one event at a time.
type Reader struct {
	path   string
	file   *os.File
	in     *bufio.Reader
	long   []byte // a line that is longer than in's buffer
	header Header
}

// ErrTruncated is part of the error of a history that ends before its end record.
var ErrTruncated = errors.New("the history is truncated")

// Open reads the header of a merged history. Errors name the file, the line and what is wrong with it.
func Open(path string) (*Reader, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open history: %w", err)
	}
	r := &Reader{path: path, file: f, in: bufio.NewReaderSize(f, 1<<16)}
	if err := r.readHeader(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return r, nil
}

func (r *Reader) readHeader() error {
	b, err := r.in.ReadBytes('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read history %s: %w", r.path, err)
	}
	if err := json.Unmarshal(b, &r.header); err != nil {
		return fmt.Errorf("%s:1: want a history's header, got something else: %w", r.path, err)
	}
	if r.header.Schema != Schema {
		return fmt.Errorf("%s:1: schema: want %q, got %q: read it with the version of headroom that wrote it", r.path, Schema, r.header.Schema)
	}
	return nil
}

// Header returns the history's header.
func (r *Reader) Header() Header { return r.header }

// Close closes the file.
func (r *Reader) Close() error { return r.file.Close() }

// All yields the events in order, once. An error is the last thing yielded: a line that is no event, an event of another run, or a missing end
// (ErrTruncated). What was yielded before an error is sound.
func (r *Reader) All() iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		events := 0
		for line := 2; ; line++ {
			e, err := r.next(line)
			switch {
			case errors.Is(err, io.EOF):
				yield(Event{}, fmt.Errorf("%s:%d: %w: %d events and no end record; merge it again from its events", r.path, line, ErrTruncated, events))
				return
			case err != nil:
				yield(Event{}, err)
				return
			case e.Key == KeyEnd && e.Source == SourceMerge:
				if err := r.atEnd(e, line, events); err != nil {
					yield(Event{}, err)
				}
				return
			}
			events++
			if !yield(e, nil) {
				return
			}
		}
	}
}

// next reads one event; io.EOF, wrapped or not, means that no whole line is left.
func (r *Reader) next(line int) (Event, error) {
	var e Event
	b, err := r.line()
	if err != nil {
		if errors.Is(err, io.EOF) {
			return e, io.EOF
		}
		return e, fmt.Errorf("read history %s: %w", r.path, err)
	}
	if err := unmarshal(b, &e); err != nil {
		return e, fmt.Errorf("%s:%d: want an event, got something else: %w", r.path, line, err)
	}
	if e.Source == "" || e.Seq == 0 || e.Phase == "" {
		return e, fmt.Errorf("%s:%d: want an event with src, seq and ph, got %.80s", r.path, line, b)
	}
	if e.Key != KeyOpen {
		return e, nil
	}
	var o openRecord
	if err := e.Decode(&o); err != nil {
		return e, fmt.Errorf("%s:%d: %w", r.path, line, err)
	}
	if o.Run != r.header.Run {
		return e, &MixedRunsError{File: r.path, Line: line, Want: r.header.Run, Got: o.Run}
	}
	return e, nil
}

// line reads one line. It is good until the next one is read: nothing of an event points into it.
func (r *Reader) line() ([]byte, error) {
	b, err := r.in.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return b, err
	}
	r.long = append(r.long[:0], b...)
	for errors.Is(err, bufio.ErrBufferFull) {
		b, err = r.in.ReadSlice('\n')
		r.long = append(r.long, b...)
	}
	return r.long, err
}

func (r *Reader) atEnd(e Event, line, events int) error {
	var end endRecord
	if err := e.Decode(&end); err != nil {
		return fmt.Errorf("%s:%d: %w", r.path, line, err)
	}
	if end.Events != events {
		return fmt.Errorf("%s:%d: want %d events, got %d: lines were removed or added", r.path, line, end.Events, events)
	}
	if b, err := r.in.Peek(1); err == nil {
		return fmt.Errorf("%s:%d: want nothing after the end record, got %q: two histories in one file", r.path, line+1, b)
	}
	return nil
}
