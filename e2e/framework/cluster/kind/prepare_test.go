package kind

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"headroom/e2e/framework/cluster"
)

// falseDocker puts a `docker` on the PATH that runs script.
func falseDocker(t *testing.T, script string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "docker"), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":/usr/bin:/bin")
}

// TestFoundBeforeAnythingStarts: what an engine lacks is an error of the environment that says what to do.
func TestFoundBeforeAnythingStarts(t *testing.T) {
	taken := &nascent{shape: shape{Name: "headroom-x"}}
	for name, c := range map[string]struct {
		docker string
		check  func(context.Context) error
		want   []string
	}{
		"name taken": {"echo headroom-x-control-plane", func(context.Context) error { return taken.nameFree() }, []string{`"headroom-x"`, "kind delete cluster --name headroom-x"}},
		"disk full":  {"echo /", func(ctx context.Context) error { return checkDisk(ctx, 1<<62) }, []string{"/ has", "free, want", "docker system df"}},
		"no registry": {
			`case $1 in images) ;; *) echo "dial tcp: lookup registry: no such host" >&2; exit 1 ;; esac`,
			func(ctx context.Context) error { return pull(ctx, "kindest/node:v9@sha256:1") }, []string{"kindest/node:v9@sha256:1", "no such host", "leave `image` out"},
		},
	} {
		falseDocker(t, c.docker)
		err := c.check(t.Context())
		var env *cluster.EnvironmentError
		if !errors.As(err, &env) || env.Remedy == "" {
			t.Errorf("%s: want an EnvironmentError with a remedy, got %v", name, err)
			continue
		}
		for _, w := range c.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: want %q in the error, got %v", name, w, err)
			}
		}
	}
}

func TestNothingIsFoundWhereAllIsWell(t *testing.T) {
	falseDocker(t, "case $1 in images) echo id ;; info) echo / ;; esac")
	free := &nascent{shape: shape{Name: "headroom-x"}}
	for name, err := range map[string]error{"name": free.nameFree(), "disk": checkDisk(t.Context(), 0), "image that is there": pull(t.Context(), "i:1")} {
		if err != nil {
			t.Errorf("%s: want nothing, got %v", name, err)
		}
	}
	falseDocker(t, "echo /nowhere/on/this/machine")
	if err := checkDisk(t.Context(), 1<<62); err != nil {
		t.Errorf("disk of an engine elsewhere: want nothing, got %v", err)
	}
}

func TestStatic(t *testing.T) {
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"/bin/sh": "linked dynamically", script: "want an executable", "/nowhere": "/nowhere"} {
		if err := static(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: want %q in the error, got %v", path, want, err)
		}
	}
}
