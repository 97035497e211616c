package binaries

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/versions"
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
	s.wrong = onBinary(func(w http.ResponseWriter, r *http.Request, content []byte, n int) bool {
		if n == 1 {
			w.Header().Set("Content-Length", fmt.Sprint(len(content)))
			_, _ = w.Write(content[:half])
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done() // until the client hangs up
		}
		return n == 1
	})
	r, pauses := s.source()
	r.stall = 300 * time.Millisecond
	if err := s.fetch(r, component); err != nil {
		t.Fatal(err)
	}
	if got := s.requests(component); len(got) < 2 || !strings.HasPrefix(got[1], " from ") || len(*pauses) != len(got)-1 {
		t.Errorf("want a second request for the rest, got %q, pauses %v", got, *pauses)
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
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	r := newRelease("download", "http://"+address, t.TempDir())
	var pauses []time.Duration
	r.pause = func(_ context.Context, d time.Duration) error { pauses = append(pauses, d); return nil }
	for range 2 {
		err = r.Fetch(t.Context(), kubelet(t), filepath.Join(t.TempDir(), "kubelet"), "")
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

// TestMirror runs Ensure on a mirror, by URL and by directory.
func TestMirror(t *testing.T) {
	w, s := newWorld(t), newSite(t)
	s.publish(kubelet(t), program("v1.36.3"))
	dir := t.TempDir()
	for path, content := range s.files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, path)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, path), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for mirror, done := range map[string]string{s.URL + "/": "downloaded in", dir: "copied in"} {
		w.from = Origin{Mode: FromMirror, Mirror: mirror}
		paths, out := w.mustEnsure("kubelet")
		if !strings.Contains(out, done) {
			t.Errorf("%s: want %q, got:\n%s", mirror, done, out)
		}
		if got, err := os.ReadFile(paths["kubelet"].Path); err != nil || !bytes.Equal(got, s.files[place(kubelet(t))]) {
			t.Errorf("%s: want the mirror's file, got %d bytes (%v)", mirror, len(got), err)
		}
		if status := w.state("kubelet"); status.State != Cached || status.Source != "mirror" {
			t.Errorf("%s: got %+v", mirror, status)
		}
		if _, out := w.mustEnsure("kubelet"); !strings.Contains(out, "cached") {
			t.Errorf("%s: the second time: %s", mirror, out)
		}
	}
	if n := w.builds(); n != 0 {
		t.Errorf("want no build, got %d", n)
	}
	if left := w.names("partial"); len(left) != 0 {
		t.Errorf("left in partial: %q", left)
	}
	w.from.Mirror = dir
	_, _, err := w.ensure("etcd")
	wantEnvironment(t, err, "etcd.sha256: no such file or directory")
	wantEnvironment(t, err, "remedy: put the file and its .sha256 there, or use --binaries auto")

	if err := os.WriteFile(filepath.Join(dir, place(kubelet(t))), garbled(s.files[place(kubelet(t))]), 0o644); err != nil {
		t.Fatal(err)
	}
	w.cache = t.TempDir()
	_, _, err = w.ensure("kubelet")
	wantEnvironment(t, err, "want SHA-256 "+sumOf(s.files[place(kubelet(t))]))
	wantEnvironment(t, err, "remedy: do not use the file")
	if bin := w.names("bin"); len(bin) != 0 {
		t.Errorf("a wrong file came into the cache: %q", bin)
	}
}

// TestRightSumOfAWrongFile: a mirror may publish the sum of a file that is another version.
func TestRightSumOfAWrongFile(t *testing.T) {
	w, s := newWorld(t), newSite(t)
	s.publish(kubelet(t), program("v1.36.2"))
	w.from = Origin{Mode: FromMirror, Mirror: s.URL}
	_, _, err := w.ensure("kubelet")
	wantEnvironment(t, err, `want line 1 to end in "v1.36.3", got "Some Program: v1.36.2"`)
	if bin := w.names("bin"); len(bin) != 0 {
		t.Errorf("a wrong file came into the cache: %q", bin)
	}
}

func TestAuto(t *testing.T) {
	w, s := newWorld(t), newSite(t)
	s.publish(kubelet(t), program("v1.36.3"))
	auto := Origin{Mode: Auto, Mirror: s.URL, official: nobody}

	// What was built before is good enough.
	built, _ := w.mustEnsure("etcd")
	w.from = auto
	if again, out := w.mustEnsure("etcd"); again["etcd"] != built["etcd"] || !strings.Contains(out, "cached") {
		t.Errorf("want the built one, got %v\n%s", again, out)
	}
	// The mirror comes first, and what it lacks is built.
	_, out := w.mustEnsure("kubelet", "kube-scheduler")
	if w.builds() != 2 || !strings.Contains(out, "kubelet v1.36.3         downloaded in") || !strings.Contains(out, "404 Not Found): next, download") ||
		!strings.Contains(out, "): next, build") || !strings.Contains(out, "kube-scheduler v1.36.3  built in") {
		t.Errorf("want kubelet from the mirror and kube-scheduler built, got %d builds\n%s", w.builds(), out)
	}
	// Only the cache: any way will do, and nothing is made.
	w.from = Origin{Mode: FromCache}
	if _, out := w.mustEnsure("etcd", "kube-scheduler"); strings.Count(out, "cached") != 2 {
		t.Errorf("got\n%s", out)
	}
	_, _, err := w.ensure("csi-attacher")
	wantEnvironment(t, err, "provide csi-attacher v4.12.0: it is not in the cache, and --binaries cache makes nothing")
	wantEnvironment(t, err, "remedy: bring them here with `headroom binaries fetch`")
	// A wrong sum is not worked around.
	c := kubelet(t)
	c.Name = "kube-controller-manager"
	s.publish(c, program("v1.36.3"))
	s.files[place(c)+".sha256"] = []byte(strings.Repeat("0", 64))
	w.from = auto
	_, _, err = w.ensure("kube-controller-manager")
	wantEnvironment(t, err, "want SHA-256 0000")
	if w.builds() != 2 {
		t.Errorf("want no build instead, got %d", w.builds()-2)
	}
	// Without Go and without a file there is nothing left.
	t.Setenv("PATH", t.TempDir())
	_, _, err = w.ensure("kube-apiserver")
	wantEnvironment(t, err, "404 Not Found")
	wantEnvironment(t, err, "remedy: install Go")
}

func TestDownloadBuildsOnlyWhatTheSiteLacks(t *testing.T) {
	w := newWorld(t)
	w.from = Origin{Mode: FromDownload, official: nobody}
	w.mustEnsure("etcd", "csi-attacher") // which the Kubernetes release site never had
	if w.builds() != 2 {
		t.Errorf("want 2 builds, got %d", w.builds())
	}
	_, _, err := w.ensure("kubelet")
	wantEnvironment(t, err, nobody+"/v1.36.3/bin/")
	wantEnvironment(t, err, "connection refused")
	if w.builds() != 2 {
		t.Error("want no build of what was to be downloaded")
	}
}

// TestKilledDownload leaves nothing that looks complete, and the next process goes on where it stopped.
func TestKilledDownload(t *testing.T) {
	w, s, c := newWorld(t), newSite(t), kubelet(t)
	s.publish(c, program("v1.36.3"))
	w.from = Origin{Mode: FromMirror, Mirror: s.URL}
	reached := make(chan struct{})
	s.wrong = onBinary(func(rw http.ResponseWriter, r *http.Request, content []byte, n int) bool {
		if n > 1 {
			return false
		}
		rw.Header().Set("Content-Length", fmt.Sprint(len(content)))
		_, _ = rw.Write(content[:half])
		_ = http.NewResponseController(rw).Flush()
		close(reached)
		<-r.Context().Done()
		return true
	})
	var out buffer
	other := w.another(&out, "kubelet")
	<-reached
	var part string
	eventually(t, "half of the file to arrive", func() bool {
		for _, name := range w.names("partial") {
			part = filepath.Join(w.cache, "partial", name)
			if info, err := os.Stat(part); err == nil && info.Size() == half {
				return true
			}
		}
		return false
	})
	if err := other.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = other.Wait()
	if status := w.state("kubelet"); status.State != Missing {
		t.Errorf("want missing, got %+v", status)
	}
	if bin := w.names("bin"); len(bin) != 0 {
		t.Errorf("a part came into the cache: %q", bin)
	}
	if info, err := os.Stat(part); err != nil || info.Mode()&0o111 != 0 {
		t.Errorf("want a part that is not executable, got %v (%v)", info.Mode(), err)
	}
	if _, out := w.mustEnsure("kubelet"); !strings.Contains(out, "downloaded in") {
		t.Errorf("got\n%s", out)
	}
	s.wantRequests(c, "", fmt.Sprintf(" from %d", half))
	if len(w.names("partial"))+len(w.names("tmp")) != 0 {
		t.Errorf("left behind: %q %q", w.names("partial"), w.names("tmp"))
	}
}

func TestTwoRunsShareOneDownload(t *testing.T) {
	w, s, c := newWorld(t), newSite(t), kubelet(t)
	s.publish(c, program("v1.36.3"))
	w.from = Origin{Mode: FromMirror, Mirror: s.URL}
	reached, goOn := make(chan struct{}), make(chan struct{})
	s.wrong = onBinary(func(http.ResponseWriter, *http.Request, []byte, int) bool {
		close(reached) // a second request would panic
		<-goOn
		return false
	})
	var first buffer
	other := w.another(&first, "kubelet")
	<-reached
	var second buffer
	done := make(chan error, 1)
	go func() {
		_, err := Ensure(t.Context(), Options{Cache: w.cache, Components: []string{"kubelet"}, From: w.from, Out: &second})
		done <- err
	}()
	waiting := fmt.Sprintf("  kubelet v1.36.3  waiting for another mirror (pid %d)\n", other.Process.Pid)
	eventually(t, "the second run to say that it waits", func() bool { return strings.Contains(second.String(), waiting) })
	close(goOn)
	if err := other.Wait(); err != nil {
		t.Errorf("first run: %v\n%s", err, first.String())
	}
	if err := <-done; err != nil {
		t.Errorf("second run: %v", err)
	}
	if !strings.Contains(second.String(), "downloaded by another run in ") {
		t.Errorf("second run printed:\n%s", second.String())
	}
	s.wantRequests(c, "")
}

func TestOriginCheck(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		from Origin
		want string // "" is right
	}{
		{Origin{}, ""}, {Origin{Mode: Auto}, ""}, {Origin{Mode: FromBuild}, ""}, {Origin{Mode: Auto, Mirror: dir}, ""}, {Origin{Mode: FromMirror, Mirror: dir}, ""},
		{Origin{Mode: FromMirror, Mirror: "https://mirror.example/kubernetes"}, ""}, {Origin{Mirror: "http://127.0.0.1:8000"}, ""},
		{Origin{Mode: "fetch"}, `--binaries "fetch": want one of auto, cache, mirror, download, build`},
		{Origin{Mode: FromMirror}, "--binaries mirror: it needs --mirror, a directory or a URL"},
		{Origin{Mode: FromBuild, Mirror: dir}, "--binaries build does not use a mirror"},
		{Origin{Mode: FromCache, Mirror: dir}, "--binaries cache does not use a mirror"},
		{Origin{Mode: FromDownload, Mirror: dir}, "--binaries download does not use a mirror"},
		{Origin{Mirror: filepath.Join(dir, "none")}, "no such file or directory"},
		{Origin{Mirror: file}, "want a directory or a URL, got a file"},
		{Origin{Mirror: "ftp://mirror.example/kubernetes"}, "want a directory, or a URL that begins with https:// or http://"},
		{Origin{Mirror: "https:///kubernetes"}, "want a directory, or a URL"},
	} {
		if err := c.from.Check(); (c.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: want %q, got %v", c.from, c.want, err)
		}
		if c.want == "" {
			continue
		}
		_, err := Ensure(t.Context(), Options{Cache: filepath.Join(dir, "cache"), From: c.from})
		if env := (*cluster.EnvironmentError)(nil); err == nil || errors.As(err, &env) {
			t.Errorf("%+v: want Ensure to refuse it as a mistake of the user's, got %v", c.from, err)
		}
	}
}

func TestPasswordsAreNotShown(t *testing.T) {
	s := newSite(t)
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword("me", "secret-word")
	r := newRelease("mirror", u.String(), t.TempDir())
	inputs, err := r.Inputs(t.Context(), kubelet(t))
	if err != nil {
		t.Fatal(err)
	}
	err = r.Fetch(t.Context(), kubelet(t), filepath.Join(t.TempDir(), "kubelet"), "")
	if text := fmt.Sprint(inputs, err); err == nil || strings.Contains(text, "secret-word") || !strings.Contains(text, "me:xxxxx@") {
		t.Errorf("got %s", text)
	}
}

// TestOtherAttacher takes a release of external-attacher that is not the one of the Kubernetes release.
func TestOtherAttacher(t *testing.T) {
	w := newWorld(t)
	get := func(v versions.Version) (Paths, error) {
		return Ensure(t.Context(), Options{Cache: w.cache, Attacher: v, Components: []string{"csi-attacher"}, From: w.from})
	}
	paths, err := get("v4.11.0")
	if err != nil || paths["csi-attacher"].Version != "v4.11.0" {
		t.Errorf("got %v, %v", paths, err)
	}
	if _, err := get("v4.9.0"); err == nil || !strings.Contains(err.Error(), "known: v4.11.0") {
		t.Errorf("an unknown one: got %v", err)
	}
}
