package binaries

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// This test binary is three programs: the tests; a false go command, when it is run as "go"; and a run of its own to be killed, when
// ensureEnv is set.
const (
	ensureEnv = "HEADROOM_TEST_ENSURE" // cache directory, mirror or "-", component names
	fakeEnv   = "HEADROOM_TEST_GO"     // directory of the false go command
)

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "go" {
		fakeGo(os.Getenv(fakeEnv), os.Args[1:])
		os.Exit(0)
	}
	if words := strings.Fields(os.Getenv(ensureEnv)); len(words) > 0 {
		from := Origin{Mode: FromMirror, Mirror: words[1]}
		if words[1] == "-" {
			from = Origin{Mode: FromBuild}
		}
		if _, err := Ensure(context.Background(), Options{Cache: words[0], Components: words[2:], From: from, Out: os.Stdout}); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "false go:", err)
		os.Exit(3)
	}
}

// fakeGo answers what Build asks. Files in dir steer it: "hang" makes builds wait until it is removed; "fail" has the text to fail with;
// "mod" has the text to fail with when asked for a module, "env" when asked for the environment; "says" replaces the version that binaries print; "version"
// is the Go release. It notes the toolchain of each command in "toolchains".
func fakeGo(dir string, args []string) {
	steer := func(name string) (string, bool) {
		text, err := os.ReadFile(filepath.Join(dir, name))
		return strings.TrimSpace(string(text)), err == nil
	}
	toolchains, err := os.OpenFile(filepath.Join(dir, "toolchains"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	must(err)
	fmt.Fprintln(toolchains, args[0], os.Getenv("GOTOOLCHAIN"))
	switch args[0] {
	case "env":
		if text, fail := steer("env"); fail {
			fmt.Fprintln(os.Stderr, text)
			os.Exit(1)
		}
		release, ok := steer("version")
		if !ok {
			release = cmp.Or(strings.TrimPrefix(os.Getenv("GOTOOLCHAIN"), "local"), "go1.26.8")
		}
		must(json.NewEncoder(os.Stdout).Encode(map[string]string{"GOVERSION": release, "GOAMD64": "v1"}))
	case "mod":
		if text, fail := steer("mod"); fail {
			must(json.NewEncoder(os.Stdout).Encode(map[string]string{"Error": text}))
			os.Exit(1)
		}
		module, version, _ := strings.Cut(args[len(args)-1], "@")
		text := fmt.Sprintf("module %s\n\ngo 1.26.0\n\nreplace k8s.io/api => ./staging/src/k8s.io/api\n", module)
		must(os.WriteFile(filepath.Join(dir, "go.mod"), []byte(text), 0o644))
		must(os.WriteFile(filepath.Join(dir, "go.sum"), []byte(module+" "+version+" h1:sum\n"), 0o644))
		must(json.NewEncoder(os.Stdout).Encode(map[string]string{"Dir": dir, "GoMod": filepath.Join(dir, "go.mod")}))
	case "build":
		fakeBuild(dir, args, steer)
	}
}

func fakeBuild(dir string, args []string, steer func(string) (string, bool)) {
	log, err := os.OpenFile(filepath.Join(dir, "builds"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	must(err)
	fmt.Fprintln(log, args[len(args)-1])
	module, err := os.ReadFile("go.mod")
	must(err)
	if _, hang := steer("hang"); hang {
		compiler := exec.Command("sleep", "1000")
		must(compiler.Start())
		pids := fmt.Sprintf("%d %d", os.Getpid(), compiler.Process.Pid)
		must(os.WriteFile(filepath.Join(dir, "pids.part"), []byte(pids), 0o644))
		must(os.Rename(filepath.Join(dir, "pids.part"), filepath.Join(dir, "pids")))
		for hang {
			time.Sleep(10 * time.Millisecond)
			_, hang = steer("hang")
		}
		must(compiler.Process.Kill())
		compiler.Wait()
	}
	if text, fail := steer("fail"); fail {
		fmt.Fprintln(os.Stderr, text)
		os.Exit(1)
	}
	_, version, _ := strings.Cut(string(module), "\nrequire ")
	version, _, _ = strings.Cut(version, "\n")
	version = strings.Fields(version)[1]
	if strings.Contains(string(module), "etcd") {
		version = strings.TrimPrefix(version, "v")
	}
	if text, ok := steer("says"); ok {
		version = text
	}
	for i, a := range args {
		if a == "-o" {
			must(os.WriteFile(args[i+1], []byte("#!/bin/sh\necho Some Program: "+version+"\necho more\n"), 0o755))
		}
	}
}

// world is a false go command and an empty cache. What is missing is built, unless from says otherwise.
type world struct {
	t          *testing.T
	dir, cache string
	from       Origin
}

func newWorld(t *testing.T) world {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	w := world{t: t, dir: t.TempDir(), cache: filepath.Join(t.TempDir(), "cache"), from: Origin{Mode: FromBuild}}
	path := t.TempDir()
	if err := os.Symlink(self, filepath.Join(path, "go")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", path+":"+os.Getenv("PATH"))
	t.Setenv(fakeEnv, w.dir)
	return w
}

func (w world) steer(name, text string) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

func (w world) unsteer(name string) {
	w.t.Helper()
	if err := os.Remove(filepath.Join(w.dir, name)); err != nil {
		w.t.Fatal(err)
	}
}

// ensure runs Ensure and returns its progress.
func (w world) ensure(components ...string) (Paths, string, error) {
	var out buffer
	paths, err := Ensure(w.t.Context(), Options{Cache: w.cache, Components: components, From: w.from, Out: &out})
	return paths, out.String(), err
}

func (w world) mustEnsure(components ...string) (Paths, string) {
	w.t.Helper()
	paths, out, err := w.ensure(components...)
	if err != nil {
		w.t.Fatal(err)
	}
	return paths, out
}

// another starts another process that ensures the components.
func (w world) another(out *buffer, components ...string) *exec.Cmd {
	w.t.Helper()
	self, err := os.Executable()
	if err != nil {
		w.t.Fatal(err)
	}
	cmd := exec.Command(self)
	mirror := "-"
	if w.from.Mirror != "" {
		mirror = w.from.Mirror
	}
	cmd.Env = append(os.Environ(), ensureEnv+"="+w.cache+" "+mirror+" "+strings.Join(components, " "))
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return cmd
}

// builds counts the builds that were begun.
func (w world) builds() int {
	text, err := os.ReadFile(filepath.Join(w.dir, "builds"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		w.t.Fatal(err)
	}
	return bytes.Count(text, []byte("\n"))
}

// names lists a directory of the cache.
func (w world) names(dir string) []string {
	w.t.Helper()
	entries, err := os.ReadDir(filepath.Join(w.cache, dir))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		w.t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// pids waits for a hanging build and returns its processes: the go command and a compiler.
func (w world) pids() (command, compiler int) {
	w.t.Helper()
	eventually(w.t, "a hanging build", func() bool {
		text, err := os.ReadFile(filepath.Join(w.dir, "pids"))
		n, _ := fmt.Sscan(string(text), &command, &compiler)
		return err == nil && n == 2
	})
	return command, compiler
}

func (w world) state(component string) Status {
	w.t.Helper()
	all, err := List(w.t.Context(), Options{Cache: w.cache, Components: []string{component}, From: w.from})
	if err != nil {
		w.t.Fatal(err)
	}
	return all[0]
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("wait for %s: not within 30s", what)
		}
	}
}

// gone tells that a process has ended; nobody may be there to reap it.
func gone(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, after, _ := strings.Cut(string(text), ") ")
	return err != nil || strings.HasPrefix(after, "Z") || strings.HasPrefix(after, "X")
}

// buffer is a bytes.Buffer for several goroutines.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
