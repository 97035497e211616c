package binaries

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/versions"
)

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
	wantRefused(t, err, "provide etcd v3.6.16: --binaries mirror takes only what the mirror has: ")
	wantRefused(t, err, "etcd.sha256: no such file or directory")
	wantRefused(t, err, "remedy: put the file and its .sha256 there, or use --binaries auto")

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
	wantRefused(t, err, "provide csi-attacher v4.12.0: it is not in the cache, and --binaries cache makes nothing")
	wantRefused(t, err, "remedy: bring them here with `headroom binaries fetch`")
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

// TestWishThatCannotBeMet: where all that may be asked answer that they do not have it, another try changes nothing, and the wish is refused. As soon as one
// could not be asked, or broke off, it is the environment's failure.
func TestWishThatCannotBeMet(t *testing.T) {
	const unknown = "k8s.io/kubernetes@v1.36.3: invalid version: unknown revision v1.36.3"
	answers := func(code int) func(*testing.T) string {
		return func(t *testing.T) string {
			s := newSite(t)
			s.wrong = func(w http.ResponseWriter, _ *http.Request, _ []byte, _ int) bool { w.WriteHeader(code); return true }
			return s.URL
		}
	}
	away := func(*testing.T) string { return nobody }
	for name, c := range map[string]struct {
		mode    Mode
		site    func(*testing.T) string
		mod     string // what the go command says instead of a module, or "env: ..." instead of its environment
		refused bool
		want    string
	}{
		"mirror, 404":                        {FromMirror, answers(404), "", true, "--binaries mirror takes only what the mirror has: http://127.0.0.1:"},
		"mirror, 403":                        {FromMirror, answers(403), "", true, "403 Forbidden"},
		"mirror, 407":                        {FromMirror, answers(407), "", false, "407 Proxy Authentication Required"},
		"mirror, away":                       {FromMirror, away, "", false, "connection refused"},
		"download, 404":                      {FromDownload, answers(404), "", true, "--binaries download takes Kubernetes' components only from its release site: http"},
		"download, 410":                      {FromDownload, answers(410), "", true, "410 Gone"},
		"download, away":                     {FromDownload, away, "", false, "connection refused"},
		"build, unknown":                     {FromBuild, away, unknown, true, "--binaries build makes only what there is a Go module of: go mod download k8s.io/kubernetes@v1.36.3"},
		"build, 404":                         {FromBuild, away, "reading https://proxy.example/k8s.io/x/@v/v1.36.3.info: 404 Not Found", true, "404 Not Found"},
		"build, nobody there":                {FromBuild, away, "dial tcp: lookup proxy.example: no such host", false, "set GOPROXY"},
		"build, 404 and a repository's away": {FromBuild, away, "unknown revision; git ls-remote: dial tcp: i/o timeout", false, "set GOPROXY"},
		"build, no toolchain":                {FromBuild, away, "env: go: download go1.99: toolchain not available", true, "toolchain not available"},
		"auto, nobody has it":                {Auto, answers(404), unknown, true, "none of the sources that --binaries auto asks has it: http"},
		"auto, no toolchain":                 {Auto, answers(404), "env: go: download go1.99: toolchain not available", true, "none of the sources that --binaries auto asks has it: http"},
		"auto, the site is away":             {Auto, away, unknown, false, "unknown revision"},
		"auto, the module's is away":         {Auto, answers(404), "dial tcp: lookup proxy.example: no such host", false, "set GOPROXY"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.from = Origin{Mode: c.mode, official: c.site(t)}
			if c.mode == FromMirror {
				w.from.Mirror = w.from.official
			}
			if text, env := strings.CutPrefix(c.mod, "env: "); env {
				w.steer("env", text)
			} else if c.mod != "" {
				w.steer("mod", c.mod)
			}
			_, _, err := w.ensure("kubelet")
			if c.refused {
				wantRefused(t, err, c.want)
				wantRefused(t, err, "kubelet v1.36.3: ")
			} else {
				wantEnvironment(t, err, c.want)
			}
			if w.builds() != 0 {
				t.Errorf("want no build, got %d", w.builds())
			}
		})
	}
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
