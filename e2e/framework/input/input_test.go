package input

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// kinds makes a file of each kind in a folder of its own.
func kinds(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "in") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	at := func(name string) string { return filepath.Join(dir, name) }
	socket, err := net.Listen("unix", at("socket"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close() })
	if err := errors.Join(os.WriteFile(at("file"), []byte("x"), 0o644), os.WriteFile(at("empty"), nil, 0o644), os.Symlink("file", at("link")), os.Symlink("loop", at("loop")),
		os.Symlink("none", at("dangling")), os.Mkdir(at("dir"), 0o755), syscall.Mkfifo(at("fifo"), 0o600)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestReadRefuses shows that what is no file ends in an error with a remedy, and never in a wait.
func TestReadRefuses(t *testing.T) {
	dir := kinds(t)
	for path, want := range map[string]string{
		filepath.Join(dir, "none"):      "no such file or directory (remedy: write it first)",
		filepath.Join(dir, "dangling"):  "no such file or directory (remedy: write it first)",
		filepath.Join(dir, "file", "x"): "not a directory (remedy: write it first)",
		filepath.Join(dir, "loop"):      "too many levels of symbolic links (remedy: make the link name a file)",
		filepath.Join(dir, "dir"):       "want a file, got a directory (remedy: name the file itself)",
		filepath.Join(dir, "socket"):    "want a file, got one of mode Srwx",
		"/dev/zero":                     "want a file, got one of mode Dcrw-rw-rw- (remedy: write it to a file, and name that)",
		filepath.Join(dir, "fifo"):      "pipe",
	} {
		_, once := Read(path, "write it first")
		_, again := ReadRegular(path, "write it first")
		f, opened := OpenRegular(path, "write it first")
		if f != nil {
			f.Close()
		}
		for _, err := range []error{once, again, opened} {
			var refusal *Error
			if !errors.As(err, &refusal) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) || refusal.Remedy == "" {
				t.Errorf("want %q with path and remedy, got %v", want, err)
			}
			if errors.Is(err, fs.ErrNotExist) != strings.Contains(want, "no such file") {
				t.Errorf("%s: want only a file that is not there to be told as that, got %v", path, err)
			}
		}
	}
	if _, err := Read(filepath.Join(dir, "none"), ""); err == nil || !strings.HasSuffix(err.Error(), "(remedy: correct the path)") {
		t.Errorf("want a remedy though none is given, got %v", err)
	}
	for name, want := range map[string]string{"file": "x", "link": "x", "empty": ""} {
		for _, read := range []func(string, string) ([]byte, error){Read, ReadRegular} {
			if got, err := read(filepath.Join(dir, name), ""); err != nil || string(got) != want {
				t.Errorf("%s: want %q, got %q, %v", name, want, got, err)
			}
		}
	}
}

// TestReadPipe shows that what a command writes can be read where it is read once: all of it, however late it comes.
func TestReadPipe(t *testing.T) {
	fifo := filepath.Join(kinds(t), "fifo")
	out, err := os.OpenFile(fifo, os.O_RDWR, 0) // it is there before the reader, as a shell's <(command) is
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x", 1<<18) // more than a pipe holds
	wrote := make(chan error, 1)
	go func() {
		_, err := out.WriteString(long)
		wrote <- errors.Join(err, out.Close())
	}()
	got, err := Read(fifo, "")
	if err := errors.Join(err, <-wrote); err != nil || string(got) != long {
		t.Errorf("want %d bytes, got %d, %v", len(long), len(got), err)
	}
	if _, err := Read(fifo, ""); err == nil || !strings.Contains(err.Error(), "nothing comes out of the pipe") {
		t.Errorf("want a pipe that was read already refused, got %v", err)
	}
}
