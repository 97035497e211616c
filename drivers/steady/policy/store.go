package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Store keeps a State over restarts of the driver.
type Store interface {
	// Load reports false when nothing was ever saved.
	Load() (State, bool, error)
	Save(State) error
}

// FileStore is a Store in one JSON file, replaced as a whole. It is not synced to the disk: a crash of the machine is another boot, for
// which the value counts as expired anyway.
type FileStore string

// Load implements Store.
func (f FileStore) Load() (State, bool, error) {
	b, err := os.ReadFile(string(f))
	if errors.Is(err, fs.ErrNotExist) {
		return State{}, false, nil
	}
	if err != nil {
		return State{}, true, err
	}
	var s State
	if err := json.Unmarshal(b, &s); err != nil {
		return State{}, true, fmt.Errorf("file %q: %w", string(f), err)
	}
	return s, true, nil
}

// Save implements Store.
func (f FileStore) Save(s State) error {
	b, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(string(f)), 0o755); err != nil {
		return err
	}
	temp := string(f) + ".new"
	if err := os.WriteFile(temp, b, 0o644); err != nil {
		return err
	}
	return os.Rename(temp, string(f))
}
