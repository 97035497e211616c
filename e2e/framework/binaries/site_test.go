package binaries

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"headroom/e2e/framework/versions"
)

// site is a local server in the layout of the Kubernetes release site, which can do everything wrong that a server can.
type testSite struct {
	*httptest.Server
	t *testing.T

	mu    sync.Mutex
	files map[string][]byte // by path, without the leading slash
	asked []string          // paths, with " from N" for a range
	// wrong answers the n-th request for a path, counted from 1, in a way of its own; false lets it be answered properly.
	wrong func(w http.ResponseWriter, r *http.Request, content []byte, n int) bool
	// plain servers know no ranges.
	plain bool
}

func newSite(t *testing.T) *testSite {
	t.Helper()
	s := &testSite{t: t, files: map[string][]byte{}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

// program is an executable that says it is the version, with bytes behind it that make it large enough to break off in the middle.
func program(version string) []byte {
	script := []byte("#!/bin/sh\necho Some Program: " + version + "\nexit 0\n")
	noise := make([]byte, 300<<10)
	for i := range noise {
		noise[i] = byte('a' + rand.IntN(26))
	}
	return append(script, noise...)
}

func sumOf(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// publish puts a component on the site.
func (s *testSite) publish(c Component, content []byte) {
	s.files[place(c)] = content
	s.files[place(c)+".sha256"] = []byte(sumOf(content) + "\n")
}

func (s *testSite) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimPrefix(r.URL.Path, "/")
	s.mu.Lock()
	content, ok := s.files[path]
	line := path
	var from int64
	if n, _ := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from); n == 1 {
		line += fmt.Sprintf(" from %d", from)
	}
	s.asked = append(s.asked, line)
	n := 0
	for _, a := range s.asked {
		if before, _, _ := strings.Cut(a, " "); before == path {
			n++
		}
	}
	wrong, plain := s.wrong, s.plain
	s.mu.Unlock()
	switch {
	case wrong != nil && wrong(w, r, content, n):
	case !ok:
		http.NotFound(w, r)
	case plain:
		_, _ = w.Write(content)
	default:
		http.ServeContent(w, r, path, time.Time{}, bytes.NewReader(content))
	}
}

// requests lists what was asked for a component's executable, as " from N" or "".
func (s *testSite) requests(c Component) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []string
	for _, a := range s.asked {
		if rest, ok := strings.CutPrefix(a, place(c)); ok && !strings.HasPrefix(rest, ".sha256") {
			all = append(all, rest)
		}
	}
	return all
}

// onBinary limits a wrong answer to executables.
func onBinary(f func(w http.ResponseWriter, r *http.Request, content []byte, n int) bool) func(http.ResponseWriter, *http.Request, []byte, int) bool {
	return func(w http.ResponseWriter, r *http.Request, content []byte, n int) bool {
		return !strings.HasSuffix(r.URL.Path, ".sha256") && f(w, r, content, n)
	}
}

// breakOff sends most of a file and hangs up.
func breakOff(w http.ResponseWriter, content []byte, after int) {
	w.Header().Set("Content-Length", fmt.Sprint(len(content)))
	_, _ = w.Write(content[:after])
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

// source takes binaries from the site. Pauses are noted instead of waited for.
func (s *testSite) source() (*release, *[]time.Duration) {
	r := newRelease("mirror", s.URL, s.t.TempDir())
	var pauses []time.Duration
	r.pause = func(ctx context.Context, d time.Duration) error {
		pauses = append(pauses, d)
		return ctx.Err()
	}
	return r, &pauses
}

// kubelet is a component to fetch.
func kubelet(t *testing.T) Component {
	t.Helper()
	set, err := Of(versions.Default()).Select([]string{"kubelet"})
	if err != nil {
		t.Fatal(err)
	}
	return set[0]
}

// fetch fetches the kubelet and checks what it got against what the site has.
func (s *testSite) fetch(r *release, c Component) error {
	s.t.Helper()
	file := filepath.Join(s.t.TempDir(), c.Name)
	err := r.Fetch(s.t.Context(), c, file, s.t.TempDir())
	got, readErr := os.ReadFile(file)
	switch {
	case err != nil && readErr == nil:
		s.t.Errorf("a fetch that failed left a file of %d bytes", len(got))
	case err == nil && !bytes.Equal(got, s.files[place(c)]):
		s.t.Errorf("want the %d bytes of the site, got %d others (%v)", len(s.files[place(c)]), len(got), readErr)
	case err == nil:
		if info, err := os.Stat(file); err != nil || info.Mode()&0o111 == 0 {
			s.t.Errorf("want an executable, got %v (%v)", info.Mode(), err)
		}
	}
	return err
}

// wantRequests compares what was asked for the executable.
func (s *testSite) wantRequests(c Component, want ...string) {
	s.t.Helper()
	if got := s.requests(c); !slices.Equal(got, want) {
		s.t.Errorf("requests: want %q, got %q", want, got)
	}
}
