package binaries

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
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

// CacheRoot is $HEADROOM_CACHE, else headroom below $XDG_CACHE_HOME, else ~/.cache/headroom.
func CacheRoot() (string, error) {
	if root := os.Getenv("HEADROOM_CACHE"); root != "" {
		return filepath.Abs(root)
	}
	base := os.Getenv("XDG_CACHE_HOME")
	if !filepath.IsAbs(base) { // The XDG specification says to ignore relative paths.
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("find the cache directory: %w; set HEADROOM_CACHE", err)
		}
		base = filepath.Join(home, ".cache")
	}
	return filepath.Join(base, "headroom"), nil
}

// cache is a directory with four parts. bin/<key>/ holds complete entries only: they arrive there by rename. tmp/<key>.<random>/ holds work
// in progress, each owned by the holder of lock/<key>. Lock files stay: removing one that another process has open would give two holders.
// partial/<key> is a download that broke off, which the next holder of the lock goes on with.
type cache struct{ root string }

func open(root string) cache { return cache{root} }

func (c cache) entry(i item) string  { return filepath.Join(c.root, "bin", i.key) }
func (c cache) binary(i item) string { return filepath.Join(c.entry(i), i.component.Name) }
func (c cache) lock(key string) string {
	return filepath.Join(c.root, "lock", key)
}

// metaFile lies beside each binary.
const metaFile = "entry.json"

// meta is what was true of an entry when it was made.
type meta struct {
	Component string   `json:"component"`
	Version   string   `json:"version"`
	Source    string   `json:"source"`
	SHA256    string   `json:"sha256"`
	Size      int64    `json:"size"`
	Took      string   `json:"took"`
	Inputs    []string `json:"inputs"`
}

var errMissing = errors.New("not in the cache")

func isMissing(err error) bool { return errors.Is(err, errMissing) }

// check returns errMissing, or what is wrong with an entry, or nil. Only deep reads the whole binary.
func (c cache) check(i item, deep bool) (meta, error) {
	var m meta
	if _, err := os.Lstat(c.entry(i)); errors.Is(err, fs.ErrNotExist) {
		return m, errMissing
	}
	text, err := os.ReadFile(filepath.Join(c.entry(i), metaFile))
	if err != nil {
		return m, err
	}
	in := json.NewDecoder(bytes.NewReader(text))
	in.DisallowUnknownFields()
	if err := in.Decode(&m); err != nil {
		return m, fmt.Errorf("%s: %w", filepath.Join(c.entry(i), metaFile), err)
	}
	if m.Component != i.component.Name || m.Version != i.component.Version.String() || !slices.Equal(m.Inputs, i.inputs) {
		return m, fmt.Errorf("%s describes %s %s made from other inputs", filepath.Join(c.entry(i), metaFile), m.Component, m.Version)
	}
	info, err := os.Stat(c.binary(i))
	switch {
	case err != nil:
		return m, err
	case !info.Mode().IsRegular() || info.Mode()&0o111 == 0:
		return m, fmt.Errorf("%s: mode is %s, want an executable file", c.binary(i), info.Mode())
	case info.Size() != m.Size:
		return m, fmt.Errorf("%s: want %d bytes, got %d", c.binary(i), m.Size, info.Size())
	}
	if deep {
		sum, _, err := digest(c.binary(i))
		if err != nil {
			return m, err
		}
		if sum != m.SHA256 {
			return m, fmt.Errorf("%s: want SHA-256 %s, got %s", c.binary(i), m.SHA256, sum)
		}
	}
	return m, nil
}

// ensure makes the entry unless it is there.
func (c cache) ensure(ctx context.Context, i item, say *line) error {
	unlock, waited, err := acquire(ctx, c.lock(i.key), func(holder string) { say.begin("waiting for another " + i.source.Name() + holder) })
	if err != nil {
		return err
	}
	defer unlock()
	doing, done := i.source.Words()
	switch _, err := c.check(i, false); {
	case err == nil && waited:
		say.end(done + " by another run in " + say.elapsed())
		return nil
	case err == nil:
		say.end("cached")
		return nil
	case !isMissing(err):
		say.note("damaged, " + doing + " again: " + err.Error())
	}
	c.sweep(i.key)
	if err := os.RemoveAll(c.entry(i)); err != nil {
		return err
	}
	return c.make(ctx, i, say)
}

func (c cache) make(ctx context.Context, i item, say *line) error {
	for _, dir := range []string{"tmp", "bin"} {
		if err := os.MkdirAll(filepath.Join(c.root, dir), 0o755); err != nil {
			return err
		}
	}
	work, err := os.MkdirTemp(filepath.Join(c.root, "tmp"), i.key+".*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	ready, scratch := filepath.Join(work, "entry"), filepath.Join(work, "scratch")
	for _, dir := range []string{ready, scratch} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
	}
	doing, done := i.source.Words()
	say.begin(doing + " ...")
	began := time.Now()
	file := filepath.Join(ready, i.component.Name)
	if err := i.source.Fetch(ctx, i.component, file, scratch); err != nil {
		return err
	}
	took := time.Since(began).Round(100 * time.Millisecond)
	if err := says(ctx, i.component, file, scratch); err != nil {
		return err
	}
	sum, size, err := digest(file)
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(meta{
		Component: i.component.Name, Version: i.component.Version.String(), Source: i.source.Name(),
		SHA256: sum, Size: size, Took: took.String(), Inputs: i.inputs,
	}, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(ready, metaFile), append(text, '\n'), 0o644); err != nil {
		return err
	}
	if err := flush(file); err != nil {
		return err
	}
	if err := os.Rename(ready, c.entry(i)); err != nil {
		return err
	}
	say.end(done + " in " + say.elapsed())
	return nil
}

// discard removes an entry that Verify found damaged.
func (c cache) discard(ctx context.Context, i item) error {
	unlock, _, err := acquire(ctx, c.lock(i.key), func(string) {})
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := c.check(i, true); err == nil {
		return nil // Made again in the meantime.
	}
	return os.RemoveAll(c.entry(i))
}

// sweep removes what killed builds left: work in progress whose lock nobody holds, and that of held, which is the caller's own. It is a
// courtesy: leftovers cost space and nothing else, so what cannot be removed waits for the next sweep.
func (c cache) sweep(held string) {
	tmp := filepath.Join(c.root, "tmp")
	entries, err := os.ReadDir(tmp)
	if err != nil {
		return
	}
	for _, e := range entries {
		key := e.Name()[:max(strings.LastIndexByte(e.Name(), '.'), 0)]
		switch key {
		case "": // Not ours.
			continue
		case held:
			os.RemoveAll(filepath.Join(tmp, e.Name()))
			continue
		}
		if unlock, free, err := try(c.lock(key)); err == nil && free {
			os.RemoveAll(filepath.Join(tmp, e.Name()))
			unlock()
		}
	}
}

func digest(file string) (sum string, size int64, err error) {
	f, err := os.Open(file)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	h := sha256.New()
	size, err = io.Copy(h, f)
	return hex.EncodeToString(h.Sum(nil)), size, err
}

// flush makes sure that a binary whose entry survives a power failure has survived it too: its size alone would not show.
func flush(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}
