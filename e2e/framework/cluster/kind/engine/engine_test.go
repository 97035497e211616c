package engine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"headroom/e2e/framework/cluster"
)

// falseDocker puts a `docker` on the PATH that runs script, with the arguments as $*; what it was asked is in the file that is returned.
func falseDocker(t *testing.T, script string) (asked string) {
	t.Helper()
	dir := t.TempDir()
	asked = filepath.Join(dir, "asked")
	text := fmt.Sprintf("#!/bin/sh\necho \"$*\" >>%s\n%s\n", asked, script)
	if err := os.WriteFile(filepath.Join(dir, "docker"), []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":/usr/bin:/bin")
	return asked
}

func wantRemedy(t *testing.T, err error, words ...string) {
	t.Helper()
	var env *cluster.EnvironmentError
	if !errors.As(err, &env) || env.Remedy == "" {
		t.Fatalf("want an EnvironmentError with a remedy, got %v", err)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("want %q in the error, got %v", w, err)
		}
	}
}

func TestCheck(t *testing.T) {
	falseDocker(t, "echo 20.10")
	if err := Check(t.Context()); err != nil {
		t.Error(err)
	}
	falseDocker(t, "echo 'Cannot connect to the Docker daemon at unix:///x' >&2; exit 1")
	wantRemedy(t, Check(t.Context()), "Cannot connect", "docker-private.sh", "--provider local")
	t.Setenv("PATH", t.TempDir())
	wantRemedy(t, Check(t.Context()), "docker", "--provider local")
}

func TestCheckPrivileged(t *testing.T) {
	asked := falseDocker(t, "true")
	if err := CheckPrivileged(t.Context(), "i:1"); err != nil {
		t.Error(err)
	}
	if b, err := os.ReadFile(asked); err != nil || !strings.Contains(string(b), "--privileged") || !strings.Contains(string(b), ownerKey) {
		t.Errorf("want a privileged container with an owner, got %q (error: %v)", b, err)
	}
	falseDocker(t, "echo 'OCI runtime create failed: unable to apply caps: operation not permitted' >&2; exit 125")
	wantRemedy(t, CheckPrivileged(t.Context(), "i:1"), "unable to apply caps", "lacks a capability", "DOCKER_PRIVATE=1")
	falseDocker(t, "echo 'privileged mode is forbidden' >&2; exit 125")
	wantRemedy(t, CheckPrivileged(t.Context(), "i:1"), "forbidden", "let the engine run privileged containers")
}

func TestAlive(t *testing.T) {
	owner, err := Owner()
	if err != nil {
		t.Fatal(err)
	}
	_, value, _ := strings.Cut(owner, "=")
	pid, start, _ := strings.Cut(value, "-")
	for v, want := range map[string]bool{value: true, pid + "-" + start + "0": false, "999999999-" + start: false, "": false, "x": false} {
		if got := Alive(v); got != want {
			t.Errorf("owner %q: want alive %v, got %v", v, want, got)
		}
	}
}

// sweeping answers as an engine with a cluster of ours whose owner is dead, one whose owner lives, and a left-over container.
const sweeping = `case "$*" in
"network ls"*) printf 'dead\nlive\n' ;;
"network inspect dead") echo '[{"Id":"dead","Name":"headroom-a","Labels":{"headroom.dev/owner":"999999999-1"}}]' ;;
"network inspect live") echo '[{"Id":"live","Name":"headroom-b","Labels":{"headroom.dev/owner":"%s"}}]' ;;
"ps --all"*label=io.x-k8s.kind.cluster=headroom-a) printf 'n1\nn2\n' ;;
"ps --all"*network=dead) printf 'n2\nb1\n' ;;
"ps --all"*) ;;
"container ls"*) echo c1 ;;
"container inspect c1") echo '[{"Id":"c1","Name":"/builder","Config":{"Labels":{"headroom.dev/owner":"999999999-1"}}}]' ;;
"rm "* | "network rm "*) %s ;;
*) echo "not expected: $*" >&2; exit 1 ;;
esac`

func TestSweepTakesWhatTheDeadLeft(t *testing.T) {
	owner, err := Owner()
	if err != nil {
		t.Fatal(err)
	}
	_, self, _ := strings.Cut(owner, "=")
	asked := falseDocker(t, fmt.Sprintf(sweeping, self, "true"))
	removed, err := Sweep(t.Context())
	if got := strings.Join(removed, ", "); err != nil || got != "cluster headroom-a, container builder" {
		t.Errorf("want the dead cluster and the container removed, got %q (error: %v)", got, err)
	}
	b, err := os.ReadFile(asked)
	if err != nil {
		t.Fatal(err)
	}
	var changes []string
	for _, line := range strings.Split(string(b), "\n") {
		if strings.HasPrefix(line, "rm ") || strings.Contains(line, " rm ") {
			changes = append(changes, line)
		}
	}
	if want := "rm --force --volumes b1 n1 n2|network rm dead|rm --force --volumes c1"; strings.Join(changes, "|") != want {
		t.Errorf("want %q and no other change, got %q", want, changes)
	}
}

func TestSweepGoesOnAfterAnError(t *testing.T) {
	falseDocker(t, fmt.Sprintf(sweeping, "999999998-1", "echo busy >&2; exit 1"))
	removed, err := Sweep(t.Context())
	if err == nil || strings.Count(err.Error(), "busy") != 3 || len(removed) != 0 {
		t.Errorf("want each of the three tried, got %q (error: %v)", removed, err)
	}
}
