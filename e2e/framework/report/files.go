package report

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Names of what a run directory holds. Beside these: logs/, and kubeconfig while the run is going on.
const (
	FileHeader  = "header.json"   // a history.Header
	DirEvents   = "events"        // one file per writer
	FileHistory = "history.jsonl" // the events merged behind the header
	FileReport  = "report.yaml"
	FileJUnit   = "junit.xml"
	// FileTimeline is where headroom report writes its page unless told otherwise.
	FileTimeline = "timeline.html"
	// FileKubeconfig exists only while the cluster does.
	FileKubeconfig = "kubeconfig"
)

// Write writes report.yaml and junit.xml to dir, each of them whole or not at all.
func Write(dir string, r Report) error {
	text, err := r.YAML()
	if err != nil {
		return err
	}
	junit, err := r.JUnit()
	if err != nil {
		return err
	}
	return errors.Join(WriteFile(filepath.Join(dir, FileReport), text), WriteFile(filepath.Join(dir, FileJUnit), junit))
}

// WriteFile writes beside the file's place and renames, so that a reader never meets half a file.
func WriteFile(path string, b []byte) (err error) {
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("write %s: %w", path, errors.Join(err, os.Remove(tmp.Name())))
		}
	}()
	if _, err := tmp.Write(b); err != nil {
		return errors.Join(err, tmp.Close())
	}
	if err := errors.Join(tmp.Chmod(0o644), tmp.Close()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}
