package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"headroom/e2e/framework/entry"
)

func init() { entry.Register("test-cover", coverMain) }

// A directory is covered but for what is preserved, in a mount namespace that no one else sees.
func TestCover(t *testing.T) {
	if need := diagnoseNamespaces(t.Context()); need.Err != nil {
		t.Skipf("no namespaces here: %v", need.Err)
	}
	dir := t.TempDir()
	for path, content := range map[string]string{"var/other": "hidden", "var/a/b/keep/file": "kept", "var/a/sibling": "hidden", "outside/file": "outside"} {
		path = filepath.Join(dir, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("var/a/b/keep", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	cmd := entry.Command("test-cover", dir)
	cmd.SysProcAttr = namespaces()
	runHelper(t, cmd)

	if b, err := os.ReadFile(filepath.Join(dir, "var/a/b/keep/new")); err != nil || string(b) != "from inside" {
		t.Errorf("written to what is preserved: want it on the disk, got %q, %v", b, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "var/new")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("written to the cover: want it gone, got %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "var/other")); err != nil {
		t.Errorf("from outside: want nothing covered, got %v", err)
	}
}

func coverMain(args []string) int {
	if err := coverOne(args[0]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func coverOne(dir string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := cover(at("var"), []string{at("missing")}); err == nil {
		return errors.New("preserve what is missing: want an error")
	}
	if err := cover(at("missing"), nil); err == nil {
		return errors.New("cover what is missing: want an error")
	}
	if err := cover(at("var"), []string{at("outside"), at("link"), at("var")}); err != nil {
		return err
	}
	for path, want := range map[string]string{"var/a/b/keep/file": "kept", "link/file": "kept", "outside/file": "outside"} {
		if b, err := os.ReadFile(at(path)); err != nil || string(b) != want {
			return fmt.Errorf("%s: want %q, got %q, %v", path, want, b, err)
		}
	}
	for _, path := range []string{"var/other", "var/a/sibling"} {
		if _, err := os.Stat(at(path)); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s: want it hidden, got %v", path, err)
		}
	}
	return errors.Join(os.WriteFile(at("var/a/b/keep/new"), []byte("from inside"), 0o644), os.WriteFile(at("var/new"), nil, 0o644))
}
