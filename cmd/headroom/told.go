package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"headroom/e2e/framework/input"
)

// fileTold is where a shrinking keeps what its trials told, one line each.
const fileTold = "trials.jsonl"

// told is what the trials of a shrinking told so far.
type told struct {
	path string
	// before is how many trials an earlier process began.
	before int

	mu sync.Mutex
	// of an earlier process, by scenario, in order; what was recalled is gone.
	earlier map[string][]bool
}

// toldLine is one trial.
type toldLine struct {
	Scenario string `json:"scenario"`
	Shown    bool   `json:"shown"`
}

// trialsDir is the directory of the trials: a new one, or with --resume that of before with what they told.
func (o *shrinkOptions) trialsDir() (string, *told, error) {
	if !o.resume {
		dir, err := newRunDir(o.run.RunDir)
		return dir, &told{path: filepath.Join(dir, fileTold)}, err
	}
	dir, err := filepath.Abs(o.run.RunDir)
	if err != nil {
		return "", nil, usageError{err}
	}
	t, err := readTold(dir)
	return dir, t, err
}

func readTold(dir string) (*told, error) {
	t := &told{path: filepath.Join(dir, fileTold), earlier: map[string][]bool{}}
	data, err := input.ReadRegular(t.path, "")
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, usageError{fmt.Errorf("--resume: %s holds no %s (remedy: name the --run-dir of a shrinking that was interrupted, or leave --resume out)", dir, fileTold)}
	case err != nil:
		return nil, usageError{fmt.Errorf("--resume: %w", err)}
	}
	whole := data[:bytes.LastIndexByte(data, '\n')+1] // a process that was killed may leave part of a line
	for n, line := range bytes.Split(bytes.TrimSuffix(whole, []byte("\n")), []byte("\n")) {
		if len(line) == 0 {
			continue
		}
		var l toldLine
		if err := json.Unmarshal(line, &l); err != nil {
			return nil, usageError{fmt.Errorf("%s:%d: %w (remedy: remove the line)", t.path, n+1, err)}
		}
		t.earlier[l.Scenario] = append(t.earlier[l.Scenario], l.Shown)
	}
	dirs, err := filepath.Glob(filepath.Join(dir, "[0-9][0-9][0-9]*"))
	if err != nil {
		return nil, usageError{err}
	}
	for _, d := range dirs {
		var n int
		if _, err := fmt.Sscanf(filepath.Base(d), "%d", &n); err == nil {
			t.before = max(t.before, n)
		}
	}
	return t, os.WriteFile(t.path, whole, 0o644)
}

// name is that of the nth trial of this process, which no earlier one has.
func (t *told) name(n int) string { return fmt.Sprintf("%03d", t.before+n) }

func digestOf(text []byte) string { return fmt.Sprintf("%x", sha256.Sum256(text)) }

// recall is what the next play of a scenario told an earlier process.
func (t *told) recall(text []byte) (shown, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := digestOf(text)
	all := t.earlier[key]
	if len(all) == 0 {
		return false, false
	}
	t.earlier[key] = all[1:]
	return all[0], true
}

// keep adds what a trial told.
func (t *told) keep(text []byte, shown bool) error {
	line, err := json.Marshal(toldLine{Scenario: digestOf(text), Shown: shown})
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	f, err := os.OpenFile(t.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Close())
}
