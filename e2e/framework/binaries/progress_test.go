package binaries

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"headroom/e2e/framework/cluster"
)

// testClock drives progress by hand.
type testClock struct {
	t     time.Time
	ticks chan time.Time
	every time.Duration
}

func (c *testClock) progress(out *buffer, terminal bool) *progress {
	return &progress{out: out, terminal: terminal, width: len("kubelet v1.36.3"), now: func() time.Time { return c.t },
		tick: func(d time.Duration) (<-chan time.Time, func()) {
			c.every, c.ticks = d, make(chan time.Time)
			return c.ticks, func() {}
		}}
}

// pass moves the clock and waits until the line has taken note: the second tick is received after the first was handled.
func (c *testClock) pass(t *testing.T, out *buffer, d time.Duration) {
	before := out.String()
	c.t = c.t.Add(d)
	c.ticks <- c.t
	eventually(t, "progress", func() bool { return out.String() != before })
}

func TestProgressInALog(t *testing.T) {
	var out buffer
	clock := &testClock{t: time.Unix(0, 0)}
	l := clock.progress(&out, false).line(Component{Name: "kubelet", Version: "v1.36.3"})
	l.begin("waiting for another build (pid 7)")
	clock.pass(t, &out, 30*time.Second)
	l.begin("building ...")
	clock.pass(t, &out, 12*time.Second)
	clock.pass(t, &out, 444*time.Second)
	l.end("built in " + l.elapsed())
	want := `  kubelet v1.36.3  waiting for another build (pid 7)
  kubelet v1.36.3  waiting for another build (pid 7) 30s
  kubelet v1.36.3  building ...
  kubelet v1.36.3  building ... 12s
  kubelet v1.36.3  building ... 7m36s
  kubelet v1.36.3  built in 7m36s
`
	if out.String() != want {
		t.Errorf("want:\n%s\ngot:\n%s", want, out.String())
	}
	if clock.every != 30*time.Second {
		t.Errorf("want a line every 30s, got %s", clock.every)
	}
}

func TestProgressOnATerminal(t *testing.T) {
	var out buffer
	clock := &testClock{t: time.Unix(0, 0)}
	l := clock.progress(&out, true).line(Component{Name: "etcd", Version: "v3.6.16"})
	l.begin("building ...")
	clock.pass(t, &out, 1500*time.Millisecond)
	l.note("something")
	l.end("built in " + l.elapsed())
	const clear = "\r\x1b[K"
	want := clear + "  etcd v3.6.16     building ..." + clear + "  etcd v3.6.16     building ... 1.5s" +
		clear + "  etcd v3.6.16     something\n" + clear + "  etcd v3.6.16     built in 1.5s\n"
	if out.String() != want {
		t.Errorf("want %q, got %q", want, out.String())
	}
	if clock.every != time.Second {
		t.Errorf("want a redraw every second, got %s", clock.every)
	}
}

func TestRemedies(t *testing.T) {
	said := func(output string) error {
		return &commandError{command: "go build", output: output, err: errors.New("exit status 1")}
	}
	for _, c := range []struct {
		name string
		err  error
		want string // empty: none
	}{
		{"no go", &exec.Error{Name: "go", Err: exec.ErrNotFound}, "install Go"},
		{"no space for us", &fs.PathError{Op: "write", Path: "/c/x", Err: syscall.ENOSPC}, "set HEADROOM_CACHE (now /c) and GOCACHE"},
		{"no space for go", said("write /tmp/x: no space left on device"), "free some space"},
		{"quota", said("write /tmp/x: disk quota exceeded"), "free some space"},
		{"permission", &fs.PathError{Op: "mkdir", Path: "/c/x", Err: syscall.EACCES}, "make /c writable"},
		{"read-only", &fs.PathError{Op: "mkdir", Path: "/c/x", Err: syscall.EROFS}, "make /c writable"},
		{"go's caches", said("open /x/y: permission denied"), "go env GOCACHE GOMODCACHE"},
		{"old go", said("go: module requires go >= 1.26.0 (running go 1.25.1; GOTOOLCHAIN=local)"), "GOTOOLCHAIN=auto"},
		{"checksum", said("verifying x@v1: checksum mismatch\nSECURITY ERROR"), "do not switch the verification off"},
		{"network", said(`Get "https://x": dial tcp: lookup x: no such host`), "set GOPROXY"},
		{"memory", said("compile: signal: killed"), "lack of memory"},
		{"a plain failure", said("x.go:1: undefined: y"), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var env *cluster.EnvironmentError
			if err := explain(t.Context(), "provide x", "/c", c.err); !errors.As(err, &env) || !errors.Is(err, c.err) {
				t.Fatalf("want an environment error around %v, got %v", c.err, err)
			}
			if (c.want == "") != (env.Remedy == "") || !strings.Contains(env.Remedy, c.want) {
				t.Errorf("remedy: want %q, got %q", c.want, env.Remedy)
			}
		})
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(fmt.Errorf("the run was told to stop"))
	if err := explain(ctx, "provide x", "/c", errors.New("signal: killed")); err.Error() != "provide x: the run was told to stop" {
		t.Errorf("cancelled: got %v", err)
	}
}

func TestCacheRoot(t *testing.T) {
	here, err := filepath.Abs("rel")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ headroom, xdg, home, want string }{
		{"/a", "/b", "/c", "/a"},
		{"rel", "/b", "/c", here},
		{"", "/b", "/c", "/b/headroom"},
		{"", "", "/c", "/c/.cache/headroom"},
		{"", "relative-is-ignored", "/c", "/c/.cache/headroom"},
		{"", "", "", ""},
	} {
		t.Setenv("HEADROOM_CACHE", c.headroom)
		t.Setenv("XDG_CACHE_HOME", c.xdg)
		t.Setenv("HOME", c.home)
		got, err := CacheRoot()
		if got != c.want || (c.want == "") != (err != nil) {
			t.Errorf("%+v: got %q, %v", c, got, err)
		}
		if err != nil && !strings.Contains(err.Error(), "set HEADROOM_CACHE") {
			t.Errorf("want a remedy, got %v", err)
		}
	}
}
