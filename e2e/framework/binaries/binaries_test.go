package binaries

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"headroom/e2e/framework/cluster"
)

var six = []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "etcd", "csi-attacher"}

func TestEnsureBuildsOnceThenUsesTheCache(t *testing.T) {
	w := newWorld(t)
	paths, out := w.mustEnsure()
	if len(paths) != len(six) {
		t.Errorf("want %d paths, got %v", len(six), paths)
	}
	for _, name := range six {
		b := paths[name]
		if !filepath.IsAbs(b.Path) || filepath.Base(b.Path) != name || b.Version == "" {
			t.Errorf("%s: got %+v", name, b)
		}
		if err := exec.Command(b.Path).Run(); err != nil {
			t.Errorf("%s does not run: %v", name, err)
		}
	}
	want := regexp.MustCompile(`^  kube-apiserver v1\.36\.3           building \.\.\.\n` +
		`  kube-apiserver v1\.36\.3           built in [0-9.]+s\n` +
		`  kube-controller-manager v1\.36\.3  building \.\.\.\n(.*\n)*` +
		`  csi-attacher v4\.12\.0             built in [0-9.]+s\n$`)
	if !want.MatchString(out) {
		t.Errorf("progress: want %s, got:\n%s", want, out)
	}
	again, out := w.mustEnsure()
	if n := w.builds(); n != len(six) {
		t.Errorf("want %d builds over two runs, got %d", len(six), n)
	}
	if again["etcd"] != paths["etcd"] || strings.Count(out, "  cached\n") != len(six) {
		t.Errorf("second run: got %v\n%s", again, out)
	}
	if left := w.names("tmp"); len(left) != 0 {
		t.Errorf("left in tmp: %q", left)
	}
}

func TestEnsureOfSomeComponents(t *testing.T) {
	w := newWorld(t)
	paths, _ := w.mustEnsure("etcd", "kubelet")
	if len(paths) != 2 || w.builds() != 2 {
		t.Errorf("want 2 binaries in 2 builds, got %v in %d", paths, w.builds())
	}
	_, _, err := w.ensure("kubelett")
	const unknown = `"kubelett" is not known; known: kube-apiserver`
	if env := (*cluster.EnvironmentError)(nil); err == nil || errors.As(err, &env) || !strings.Contains(err.Error(), unknown) {
		t.Errorf("unknown component: got %v", err)
	}
	if _, err := Ensure(t.Context(), Options{Cache: w.cache, Kubernetes: "v1.2.3", From: w.from}); err == nil || !strings.Contains(err.Error(), "known: v1.32.13") {
		t.Errorf("unknown version: got %v", err)
	}
}

func TestWrongVersionIsRefused(t *testing.T) {
	w := newWorld(t)
	w.steer("says", "v1.36.3-dirty")
	_, out, err := w.ensure("kubelet")
	wantEnvironment(t, err, `kubelet --version: want line 1 to end in "v1.36.3", got "Some Program: v1.36.3-dirty"`)
	if !strings.HasSuffix(out, "  failed\n") {
		t.Errorf("progress: got %s", out)
	}
	if bin, tmp := w.names("bin"), w.names("tmp"); len(bin)+len(tmp) != 0 {
		t.Errorf("left behind: %q %q", bin, tmp)
	}
	w.unsteer("says")
	w.mustEnsure("kubelet")
}

func TestBuildFailureShowsCommandAndLastLines(t *testing.T) {
	w := newWorld(t)
	lines := []string{"the first line"}
	for range 25 {
		lines = append(lines, "filler")
	}
	w.steer("fail", strings.Join(append(lines, "x.go:1: undefined: y"), "\n"))
	_, _, err := w.ensure("kubelet")
	wantEnvironment(t, err, "provide kubelet v1.36.3: go build -buildvcs=false -o ")
	wantEnvironment(t, err, "-ldflags '-s -w -X k8s.io/component-base/version.gitVersion=v1.36.3")
	wantEnvironment(t, err, "k8s.io/kubernetes/cmd/kubelet: exit status 1")
	wantEnvironment(t, err, "\n    x.go:1: undefined: y")
	if strings.Contains(err.Error(), "the first line") {
		t.Errorf("want the last lines only, got %v", err)
	}
}

func TestDamagedEntriesAreBuiltAgain(t *testing.T) {
	for _, c := range []struct {
		name, want string
		damage     func(binary, meta string) error
	}{
		{"truncated", "bytes, got 3", func(b, _ string) error { return os.WriteFile(b, []byte("abc"), 0o755) }},
		{"no binary", "no such file", func(b, _ string) error { return os.Remove(b) }},
		{"not executable", "want an executable file", func(b, _ string) error { return os.Chmod(b, 0o644) }},
		{"no metadata", "no such file", func(_, m string) error { return os.Remove(m) }},
		{"torn metadata", "unexpected EOF", func(_, m string) error { return os.WriteFile(m, []byte(`{"comp`), 0o644) }},
		{"foreign metadata", "other inputs", func(_, m string) error { return os.WriteFile(m, []byte(`{"component":"etcd"}`), 0o644) }},
		{"newer metadata", "unknown field", func(_, m string) error { return os.WriteFile(m, []byte(`{"new":1}`), 0o644) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			paths, _ := w.mustEnsure("kubelet")
			file := paths["kubelet"].Path
			if err := c.damage(file, filepath.Join(filepath.Dir(file), metaFile)); err != nil {
				t.Fatal(err)
			}
			if s := w.state("kubelet"); s.State != Damaged || !strings.Contains(s.Detail, c.want) {
				t.Errorf("want damaged with %q, got %+v", c.want, s)
			}
			_, out := w.mustEnsure("kubelet")
			if !strings.Contains(out, "damaged, building again: ") || w.builds() != 2 {
				t.Errorf("want a second build, got %d:\n%s", w.builds(), out)
			}
			if s := w.state("kubelet"); s.State != Cached || s.Size == 0 {
				t.Errorf("after: got %+v", s)
			}
		})
	}
}

func TestVerifyReadsContents(t *testing.T) {
	w := newWorld(t)
	paths, _ := w.mustEnsure("kubelet", "etcd")
	text, err := os.ReadFile(paths["kubelet"].Path)
	if err != nil {
		t.Fatal(err)
	}
	text[len(text)-2] ^= 1
	if err := os.WriteFile(paths["kubelet"].Path, text, 0o755); err != nil {
		t.Fatal(err)
	}
	if s := w.state("kubelet"); s.State != Cached {
		t.Errorf("the size is right, so List should not see it; got %+v", s)
	}
	all, err := Verify(t.Context(), Options{Cache: w.cache, Components: []string{"kubelet", "etcd"}, From: w.from})
	if err != nil {
		t.Fatal(err)
	}
	if all[0].State != Damaged || !strings.Contains(all[0].Detail, "want SHA-256") || all[1].State != Cached {
		t.Errorf("got %+v", all)
	}
	if s := w.state("kubelet"); s.State != Missing {
		t.Errorf("want it removed, got %+v", s)
	}
}

func TestCacheThatCannotBeWritten(t *testing.T) {
	w := newWorld(t)
	w.cache = filepath.Join(w.dir, "file", "cache") // Below a file: root is stopped by this too.
	w.steer("file", "")
	_, _, err := w.ensure("kubelet")
	wantEnvironment(t, err, "remedy: make "+w.cache+" writable, or set HEADROOM_CACHE")
}

func TestNoGoCommand(t *testing.T) {
	w := newWorld(t)
	t.Setenv("PATH", t.TempDir())
	_, _, err := w.ensure("kubelet")
	wantEnvironment(t, err, "remedy: install Go and put it on PATH")
}

func TestCacheKey(t *testing.T) {
	w := newWorld(t)
	get := func(o Options) string {
		t.Helper()
		o.Cache, o.From = w.cache, w.from
		k, err := CacheKey(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	base := get(Options{})
	if !regexp.MustCompile(`^headroom-binaries-v1\.36\.3-[a-z0-9]+-[a-z0-9]+-[0-9a-f]{16}$`).MatchString(base) {
		t.Errorf("form of the key: %q", base)
	}
	t.Setenv("GOFLAGS", "-trimpath")
	t.Setenv("CGO_ENABLED", "1")
	if again := get(Options{Kubernetes: "v1.36.3", Cache: "/elsewhere"}); again != base {
		t.Errorf("the caller's settings should not matter: want %q, got %q", base, again)
	}
	if w.names("."); len(w.names(".")) != 0 {
		t.Errorf("asking for the key left %q in the cache", w.names("."))
	}
	keys := map[string]string{base: "base", get(Options{Kubernetes: "v1.35.4"}): "version", get(Options{Components: []string{"etcd"}}): "components"}
	w.steer("version", "go1.27.0")
	keys[get(Options{})] = "go release"
	if len(keys) != 4 {
		t.Errorf("want 4 different keys, got %v", keys)
	}
}

func wantEnvironment(t *testing.T, err error, text string) {
	t.Helper()
	env := (*cluster.EnvironmentError)(nil)
	if !errors.As(err, &env) || !strings.Contains(err.Error(), text) {
		t.Fatalf("want an environment error with %q, got: %v", text, err)
	}
}

// wantRefused wants a wish that cannot be met: it is the user's to change.
func wantRefused(t *testing.T, err error, text string) {
	t.Helper()
	env, input := (*cluster.EnvironmentError)(nil), (*cluster.InputError)(nil)
	if errors.As(err, &env) || !errors.As(err, &input) || input.Remedy == "" || !strings.Contains(err.Error(), text) {
		t.Fatalf("want an input error with %q and a remedy, got: %v", text, err)
	}
}
