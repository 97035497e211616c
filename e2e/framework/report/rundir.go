package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"

	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/history"
)

func badInput(remedy, format string, args ...any) error {
	return &cluster.InputError{Err: fmt.Errorf(format, args...), Remedy: remedy}
}

// Run is a run directory whose history can be read.
type Run struct {
	Header history.Header
	// Notes say what was done or found on the way, one line each.
	Notes []string
	// Previous are the environment problems in the run's report.yaml, which no history tells.
	Previous []EnvironmentProblem

	history string
	temp    string // removed by Close
}

// OpenRun finds the history of a run directory. Where there is none yet but there are events, it merges them behind header.json: into the
// directory when keep is set and the run is over, else into a temporary file. Errors are *cluster.InputError, but for those of the temporary file.
func OpenRun(dir string, keep bool) (_ *Run, err error) {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, badInput("name the directory that the run printed at its end", "run directory %q does not exist", dir)
	case err != nil:
		return nil, badInput("", "run directory: %w", err)
	case !info.IsDir():
		return nil, badInput("name the directory that holds it", "%q is a file, want a run directory", dir)
	}
	r := &Run{history: filepath.Join(dir, FileHistory)}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Close())
		}
	}()
	if _, err := os.Stat(r.history); errors.Is(err, fs.ErrNotExist) {
		if err := r.merge(dir, keep); err != nil {
			return nil, err
		}
	}
	h, err := history.Open(r.history)
	if err != nil {
		return nil, badInput(r.again(dir), "%w", err)
	}
	r.Header = h.Header()
	if err := h.Close(); err != nil {
		return nil, badInput("", "%w", err)
	}
	r.previous(dir)
	return r, nil
}

// again is how to get a better history, where that is possible.
func (r *Run) again(dir string) string {
	if _, err := os.Stat(filepath.Join(dir, DirEvents)); err != nil || r.temp != "" {
		return ""
	}
	return fmt.Sprintf("remove %s, and headroom check merges it again from %s/", r.history, DirEvents)
}

func (r *Run) merge(dir string, keep bool) error {
	events := filepath.Join(dir, DirEvents)
	if _, err := os.Stat(events); err != nil {
		return badInput("name the directory that the run printed at its end",
			"%q is no run directory: want %s, or %s and %s/, got neither", dir, FileHistory, FileHeader, DirEvents)
	}
	h, err := readHeader(filepath.Join(dir, FileHeader))
	if err != nil {
		return err
	}
	where := r.history
	_, err = os.Stat(filepath.Join(dir, FileKubeconfig))
	running := err == nil
	if !keep || running {
		if r.temp, err = os.MkdirTemp("", "headroom-check-"); err != nil {
			return fmt.Errorf("merge %s: %w", events, err)
		}
		r.history, where = filepath.Join(r.temp, FileHistory), "a temporary file"
	}
	if err := history.Merge(events, h, r.history); err != nil {
		return &cluster.InputError{Err: err}
	}
	r.Notes = append(r.Notes, fmt.Sprintf("%s has no %s: merged %s/ into %s", dir, FileHistory, DirEvents, where))
	if running {
		r.Notes = append(r.Notes, fmt.Sprintf("%s is there: the run goes on or was killed; judged is what it wrote so far",
			filepath.Join(dir, FileKubeconfig)))
	}
	return nil
}

func readHeader(path string) (history.Header, error) {
	var h history.Header
	b, err := os.ReadFile(path)
	if err != nil {
		return h, badInput("restore it: the events cannot be judged without the run's versions and parameters", "events without a header: %w", err)
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&h); err != nil {
		line := 1 + bytes.Count(b[:min(int(dec.InputOffset()), len(b))], []byte("\n"))
		return h, badInput("restore the header that the run wrote", "%s:%d: want a history's header, got something else: %w", path, line, err)
	}
	if h.Schema != history.Schema {
		return h, badInput("read it with the version of headroom that wrote it", "%s:1: schema: want %q, got %q", path, history.Schema, h.Schema)
	}
	if h.Run == "" {
		return h, badInput("restore the header that the run wrote", "%s:1: run: want the run's id, got none", path)
	}
	return h, nil
}

// previous takes over the environment problems of an earlier report: judging again must not make them disappear.
func (r *Run) previous(dir string) {
	old, err := Read(filepath.Join(dir, FileReport))
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		r.Notes = append(r.Notes, fmt.Sprintf("environment problems of the run are not known: %v", err))
	case old.Run != r.Header.Run:
		r.Notes = append(r.Notes, fmt.Sprintf("%s is of run %q, not %q: not used", filepath.Join(dir, FileReport), old.Run, r.Header.Run))
	default:
		r.Previous = old.Environment
	}
}

// Events reads the history from its start; it may be ranged over more than once. What is wrong with the file is the last thing yielded.
func (r *Run) Events() iter.Seq2[history.Event, error] {
	return func(yield func(history.Event, error) bool) {
		h, err := history.Open(r.history)
		if err != nil {
			yield(history.Event{}, err)
			return
		}
		defer h.Close() // read only: closing has nothing to lose
		for e, err := range h.All() {
			if !yield(e, err) {
				return
			}
		}
	}
}

// Close removes what OpenRun made for itself.
func (r *Run) Close() error {
	if r.temp == "" {
		return nil
	}
	return os.RemoveAll(r.temp)
}
