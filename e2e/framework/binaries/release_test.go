package binaries

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const half = 150 << 10

// nobody is a release site that cannot be reached.
const nobody = "http://127.0.0.1:1"

func TestDownload(t *testing.T) {
	later := fmt.Sprintf(" from %d", half)
	for _, c := range []struct {
		name  string
		plain bool
		wrong func(w http.ResponseWriter, r *http.Request, content []byte, n int) bool
		// requests for the executable, in order; pauses between tries.
		requests []string
		pauses   []time.Duration
		fails    string // "" where the fetch succeeds in the end
	}{
		{name: "well", requests: []string{""}},
		{name: "breaks off once, ranges", requests: []string{"", later}, pauses: []time.Duration{time.Second},
			wrong: onBinary(func(w http.ResponseWriter, _ *http.Request, content []byte, n int) bool {
				if n == 1 {
					breakOff(w, content, half)
				}
				return false
			})},
		{name: "breaks off once, no ranges", plain: true, requests: []string{"", later}, pauses: []time.Duration{time.Second},
			wrong: onBinary(func(w http.ResponseWriter, _ *http.Request, content []byte, n int) bool {
				if n == 1 {
					breakOff(w, content, half)
				}
				return false
			})},
		{name: "breaks off early each time", plain: true, fails: "unexpected EOF (tried 5 times in a row)",
			requests: []string{"", " from 100", " from 100", " from 100", " from 100"},
			pauses:   []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second},
			wrong: onBinary(func(w http.ResponseWriter, _ *http.Request, content []byte, _ int) bool {
				breakOff(w, content, 100)
				return true
			})},
		{name: "says that the half is all", requests: []string{"", ""},
			wrong: onBinary(func(w http.ResponseWriter, _ *http.Request, content []byte, n int) bool {
				if n == 1 {
					_, _ = w.Write(content[:half])
				}
				return n == 1
			})},
		{name: "corrupts once", requests: []string{"", ""},
			wrong: onBinary(func(w http.ResponseWriter, _ *http.Request, content []byte, n int) bool {
				if n == 1 {
					_, _ = w.Write(garbled(content))
				}
				return n == 1
			})},
		{name: "corrupts always", requests: []string{"", ""}, fails: "kubelet: want SHA-256 ",
			wrong: onBinary(func(w http.ResponseWriter, _ *http.Request, content []byte, _ int) bool {
				_, _ = w.Write(garbled(content))
				return true
			})},
		{name: "goes on elsewhere", requests: []string{"", later, ""}, pauses: []time.Duration{time.Second, 2 * time.Second},
			wrong: onBinary(func(w http.ResponseWriter, _ *http.Request, content []byte, n int) bool {
				switch n {
				case 1:
					breakOff(w, content, half)
				case 2:
					w.Header().Set("Content-Range", fmt.Sprintf("bytes 7-%d/%d", len(content)-1, len(content)))
					w.WriteHeader(http.StatusPartialContent)
					_, _ = w.Write(content[7:])
					return true
				}
				return false
			})},
		{name: "refuses the range", requests: []string{"", later, ""}, pauses: []time.Duration{time.Second, 2 * time.Second},
			wrong: onBinary(func(w http.ResponseWriter, _ *http.Request, content []byte, n int) bool {
				switch n {
				case 1:
					breakOff(w, content, half)
				case 2:
					w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
					return true
				}
				return false
			})},
		{name: "is overloaded twice", requests: []string{"", "", ""}, pauses: []time.Duration{time.Second, 2 * time.Second},
			wrong: onBinary(func(w http.ResponseWriter, _ *http.Request, _ []byte, n int) bool {
				if n <= 2 {
					w.WriteHeader([]int{http.StatusServiceUnavailable, http.StatusTooManyRequests}[n-1])
				}
				return n <= 2
			})},
		{name: "is broken", requests: []string{"", "", "", "", ""}, fails: "it answers 500 Internal Server Error (tried 5 times in a row)",
			pauses: []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second},
			wrong: onBinary(func(w http.ResponseWriter, _ *http.Request, _ []byte, _ int) bool {
				w.WriteHeader(http.StatusInternalServerError)
				return true
			})},
		{name: "forbids it", requests: []string{""}, fails: "it answers 403 Forbidden",
			wrong: onBinary(func(w http.ResponseWriter, _ *http.Request, _ []byte, _ int) bool {
				w.WriteHeader(http.StatusForbidden)
				return true
			})},
		{name: "has no sum", fails: "kubelet.sha256: it answers 404 Not Found",
			wrong: func(w http.ResponseWriter, r *http.Request, _ []byte, _ int) bool {
				http.NotFound(w, r)
				return true
			}},
		{name: "has another page for the sum", fails: `kubelet.sha256: want a SHA-256 in 64 hexadecimal digits, got "<html>sign in</html>"`,
			wrong: func(w http.ResponseWriter, _ *http.Request, _ []byte, _ int) bool {
				_, _ = w.Write([]byte("<html>sign in</html>"))
				return true
			}},
		{name: "never ends the sum", fails: "kubelet.sha256: want at most 1024 bytes more",
			wrong: func(w http.ResponseWriter, _ *http.Request, _ []byte, _ int) bool {
				_, _ = w.Write(bytes.Repeat([]byte("0"), 1<<20))
				return true
			}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, component := newSite(t), kubelet(t)
			s.publish(component, program("v1.36.3"))
			s.wrong, s.plain = c.wrong, c.plain
			r, pauses := s.source()
			err := s.fetch(r, component)
			if (c.fails == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.fails) {
				t.Errorf("want failure %q, got %v", c.fails, err)
			}
			s.wantRequests(component, c.requests...)
			if !slices.Equal(*pauses, c.pauses) {
				t.Errorf("pauses: want %v, got %v", c.pauses, *pauses)
			}
			var checksum *ChecksumError
			var unavailable *UnavailableError
			if err != nil && errors.As(err, &checksum) == errors.As(err, &unavailable) {
				t.Errorf("want it to be either a wrong sum or a missing file, got %T", err)
			}
		})
	}
}

func garbled(content []byte) []byte {
	bad := bytes.Clone(content)
	bad[len(bad)/2] ^= 1
	return bad
}

// TestStalledDownloadGoesOn: a server that falls silent is hung up on, and the next try asks for the rest.
func TestStalledDownloadGoesOn(t *testing.T) {
	s, component := newSite(t), kubelet(t)
	s.publish(component, program("v1.36.3"))
	// Until a part has arrived: on a slow machine a try may be given up before.
	s.wrong = onBinary(func(w http.ResponseWriter, r *http.Request, content []byte, _ int) bool {
		whole := r.Header.Get("Range") == ""
		if whole {
			w.Header().Set("Content-Length", fmt.Sprint(len(content)))
			_, _ = w.Write(content[:half])
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done() // until the client hangs up
		}
		return whole
	})
	r, pauses := s.source()
	r.stall = 300 * time.Millisecond
	if err := s.fetch(r, component); err != nil {
		t.Fatal(err)
	}
	if got := s.requests(component); len(got) < 2 || !strings.HasPrefix(got[len(got)-1], " from ") || len(*pauses) < len(got)-1 {
		t.Errorf("want another request, for the rest, after a pause, got %q, pauses %v", got, *pauses)
	}
}

func TestServerThatAlwaysStalls(t *testing.T) {
	s, component := newSite(t), kubelet(t)
	s.publish(component, program("v1.36.3"))
	s.wrong = onBinary(func(w http.ResponseWriter, r *http.Request, _ []byte, _ int) bool {
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		return true
	})
	r, _ := s.source()
	r.stall = 20 * time.Millisecond
	err := s.fetch(r, component)
	if !errors.Is(err, errStalled) || !strings.Contains(err.Error(), "the server sent nothing for 20ms (tried 5 times in a row)") {
		t.Errorf("got %v", err)
	}
}

func TestFileThatIsTooLarge(t *testing.T) {
	s, component := newSite(t), kubelet(t)
	s.publish(component, program("v1.36.3"))
	r, _ := s.source()
	r.limit = 1000
	if err := s.fetch(r, component); err == nil || !strings.Contains(err.Error(), "want at most 1000 bytes more") {
		t.Errorf("got %v", err)
	}
}

// TestUnreachableSite is tried twice for the first component and not at all for the next.
func TestUnreachableSite(t *testing.T) {
	r := newRelease("download", nobody, t.TempDir())
	var pauses []time.Duration
	r.pause = func(_ context.Context, d time.Duration) error { pauses = append(pauses, d); return nil }
	for range 2 {
		err := r.Fetch(t.Context(), kubelet(t), filepath.Join(t.TempDir(), "kubelet"), "")
		var unavailable *UnavailableError
		if !errors.As(err, &unavailable) || !strings.Contains(err.Error(), "connection refused (tried 2 times in a row)") {
			t.Errorf("got %v", err)
		}
	}
	if !slices.Equal(pauses, []time.Duration{time.Second}) {
		t.Errorf("want one pause in all, got %v", pauses)
	}
}

func TestRedirectsKeepTLS(t *testing.T) {
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	secure := httptest.NewTLSServer(http.RedirectHandler(plain.URL+"/kubelet", http.StatusFound))
	t.Cleanup(secure.Close)
	r := newRelease("mirror", secure.URL, t.TempDir())
	r.client.Transport = secure.Client().Transport
	r.pause = func(context.Context, time.Duration) error { return nil }
	err := r.Fetch(t.Context(), kubelet(t), filepath.Join(t.TempDir(), "kubelet"), "")
	if err == nil || !strings.Contains(err.Error(), "a redirect from https to http://") {
		t.Errorf("got %v", err)
	}
	circle := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path, http.StatusFound) }))
	t.Cleanup(circle.Close)
	r = newRelease("mirror", circle.URL, t.TempDir())
	r.pause = func(context.Context, time.Duration) error { return nil }
	if err := r.Fetch(t.Context(), kubelet(t), filepath.Join(t.TempDir(), "kubelet"), ""); err == nil || !strings.Contains(err.Error(), "10 redirects") {
		t.Errorf("got %v", err)
	}
}

func TestCancelledDownload(t *testing.T) {
	s, component := newSite(t), kubelet(t)
	s.publish(component, program("v1.36.3"))
	ctx, cancel := context.WithCancel(t.Context())
	s.wrong = onBinary(func(w http.ResponseWriter, r *http.Request, content []byte, _ int) bool {
		_, _ = w.Write(content[:half])
		_ = http.NewResponseController(w).Flush()
		cancel()
		<-r.Context().Done()
		return true
	})
	r, _ := s.source()
	err := r.Fetch(ctx, component, filepath.Join(t.TempDir(), "kubelet"), "")
	if !errors.Is(err, context.Canceled) {
		t.Errorf("want context.Canceled, got %v", err)
	}
}
