package binaries

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"headroom/e2e/framework/cluster"
)

// Place returns a directory of the cache that make fills, at most once per machine and key, however many ask at the same time; a make that is killed
// leaves nothing that looks complete. The key names all that decides the content. cache is the root; "" means CacheRoot(). wait is called once when
// another process is making it.
func Place(ctx context.Context, root, key string, wait func(holder string), fill func(ctx context.Context, dir string) error) (string, error) {
	if root == "" {
		var err error
		if root, err = CacheRoot(); err != nil {
			return "", cluster.Environment("find the cache", err)
		}
	}
	c := open(root)
	dir := filepath.Join(root, "parts", key)
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	err := c.place(ctx, dir, key, wait, fill)
	if err != nil {
		return "", explain(ctx, "make "+key, root, err)
	}
	return dir, nil
}

func (c cache) place(ctx context.Context, dir, key string, wait func(holder string), fill func(ctx context.Context, dir string) error) error {
	unlock, _, err := acquire(ctx, c.lock(key), wait)
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return err // made meanwhile
	}
	c.sweep(key)
	for _, d := range []string{filepath.Join(c.root, "tmp"), filepath.Dir(dir)} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	work, err := os.MkdirTemp(filepath.Join(c.root, "tmp"), key+".*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	ready := filepath.Join(work, "ready")
	if err := os.Mkdir(ready, 0o755); err != nil {
		return err
	}
	if err := fill(ctx, ready); err != nil {
		return fmt.Errorf("fill %s: %w", key, err)
	}
	return os.Rename(ready, dir)
}
