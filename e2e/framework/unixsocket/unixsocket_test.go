package unixsocket

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// shortDir is a directory whose path leaves room for a socket's name.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "s")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// mustServe listens; a socket that is left stays when the listener closes, as after a kill.
func mustServe(t *testing.T, l net.Listener, err error, left bool) net.Listener {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(!left)
	t.Cleanup(func() { l.Close() })
	return l
}

// answers says whether the path leads to l.
func answers(t *testing.T, path string, l net.Listener) bool {
	t.Helper()
	accepted := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			c.Close()
		}
		accepted <- err
	}()
	c, err := net.Dial("unix", path)
	if err != nil {
		return false
	}
	defer c.Close()
	return <-accepted == nil
}

func TestListenTakesADeadSocket(t *testing.T) {
	path := filepath.Join(shortDir(t), "s")
	l, err := Listen(path)
	if err := mustServe(t, l, err, true).Close(); err != nil {
		t.Fatal(err)
	}
	l, err = Listen(path)
	mustServe(t, l, err, false)
	if !answers(t, path, l) {
		t.Error("want the path to lead to the new listener")
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("after the end: want no socket, got %v", err)
	}
}

func TestReplaceTakesOneInUse(t *testing.T) {
	path := filepath.Join(shortDir(t), "s")
	old, err := Replace(path)
	mustServe(t, old, err, true)
	if _, err := Listen(path); err == nil || !strings.Contains(err.Error(), "somebody serves it already") {
		t.Errorf("listen on a socket in use: got %v", err)
	}
	if !answers(t, path, old) {
		t.Fatal("want the path to lead to the old listener still")
	}
	l, err := Replace(path)
	mustServe(t, l, err, false)
	if !answers(t, path, l) {
		t.Error("want the path to lead to the new listener")
	}
}

func TestMistakes(t *testing.T) {
	dir := shortDir(t)
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ path, want string }{
		{file, "want a socket or nothing there"},
		{filepath.Join(dir, strings.Repeat("x", MaxPath)), "use a shorter directory"},
		{filepath.Join(dir, "none", "s"), "no such file or directory"},
		{filepath.Join(file, "s"), "not a directory"},
	} {
		for name, listen := range map[string]func(string) (net.Listener, error){"listen": Listen, "replace": Replace} {
			if _, err := listen(c.path); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s on %q: want an error with %q, got %v", name, c.path, c.want, err)
			}
		}
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != "kept" {
		t.Errorf("what is no socket: want it kept, got %q, %v", b, err)
	}
}
