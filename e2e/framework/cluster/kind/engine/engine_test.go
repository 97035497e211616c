package engine

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
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

// TestPullTellsSilenceFromRefusal with the words of several releases of the engine.
func TestPullTellsSilenceFromRefusal(t *testing.T) {
	for said, silent := range map[string]bool{
		`Get "https://registry-1.docker.io/v2/": dial tcp: lookup registry-1.docker.io on 127.0.0.1:53: server misbehaving`:                                   true,
		`Get "https://registry-1.docker.io/v2/": net/http: request canceled while waiting for connection (Client.Timeout exceeded while awaiting headers)`:    true,
		`failed to resolve reference "docker.io/kindest/node:v1": failed to do request: Head "https://r/v2/kindest/node/manifests/v1": dial tcp: i/o timeout`: true,
		`dial tcp 10.0.0.1:443: connect: no route to host`:                                                                                                true,
		`manifest for kindest/node:v9 not found: manifest unknown: manifest unknown`:                                                                      false,
		`pull access denied for nobody/node, repository does not exist or may require 'docker login': denied: requested access to the resource is denied`: false,
	} {
		falseDocker(t, "cat >&2 <<'END'\nError response from daemon: "+said+"\nEND\nexit 1")
		err := Pull(t.Context(), "i:1")
		if err == nil || errors.Is(err, ErrNoRegistry) != silent || !strings.Contains(err.Error(), said) {
			t.Errorf("%s: want no registry %v, got %v", said, silent, err)
		}
	}
}

func TestHasImage(t *testing.T) {
	for script, want := range map[string]bool{
		"echo sha256:1": true, "echo 'Error response from daemon: No such image: i:1' >&2; exit 1": false, "echo 'Error: No such image: i:1' >&2; exit 1": false,
	} {
		falseDocker(t, script)
		if got, err := HasImage(t.Context(), "i:1"); err != nil || got != want {
			t.Errorf("%s: want %v, got %v (error: %v)", script, want, got, err)
		}
	}
	falseDocker(t, "echo 'permission denied' >&2; exit 1")
	if _, err := HasImage(t.Context(), "i:1"); err == nil || !strings.Contains(err.Error(), "permission denied") {
		t.Errorf("want the engine's refusal, got %v", err)
	}
}

func TestAlive(t *testing.T) {
	value := self(t)
	pid, start, _ := strings.Cut(value, "-")
	for v, want := range map[string]bool{value: true, pid + "-" + start + "0": false, "999999999-" + start: false, "": false, "x": false} {
		if got := Alive(v); got != want {
			t.Errorf("owner %q: want alive %v, got %v", v, want, got)
		}
	}
}

// sweeping answers as an engine with a cluster of ours whose owner is dead, with a guest of somebody else's in its network, one whose owner lives, and a
// container and images that are left over.
const sweeping = `gone=$(dirname "$0")/gone
case "$*" in
"network ls"*) printf 'dead\nlive\n' ;;
"network inspect dead") echo '[{"Id":"dead","Name":"headroom-a","Labels":{"headroom.dev/owner":"999999999-1"}}]' ;;
"network inspect live") echo '[{"Id":"live","Name":"headroom-b","Labels":{"headroom.dev/owner":"%[1]s"}}]' ;;
"ps "*label=io.x-k8s.kind.cluster=headroom-a) [ -e "$gone" ] || printf 'n1\nn2\n' ;;
"ps "*network=dead*) case "$*" in
	*Names*) echo 'g1 guest'; [ -e "$gone" ] || printf 'n2 headroom-a-worker\nb1 headroom-a-build\n' ;;
	*) echo g1 ;;
	esac ;;
"ps "*) ;;
"container ls"*) echo c1 ;;
"container inspect c1") echo '[{"Id":"c1","Name":"/builder","Config":{"Labels":{"headroom.dev/owner":"999999999-1"}}}]' ;;
"images "*headroom.dev/stage) printf '%[1]s\n999999999-1\n' ;;
"rm "* | "rmi "* | "network rm "* | "network disconnect "*) %[2]s; case "$*" in *n1*) touch "$gone" ;; esac ;;
*) echo "not expected: $*" >&2; exit 1 ;;
esac`

// self is this process as an owner.
func self(t *testing.T) string {
	t.Helper()
	owner, err := Owner()
	if err != nil {
		t.Fatal(err)
	}
	_, value, _ := strings.Cut(owner, "=")
	return value
}

// changes are the commands that the engine was given which change something.
func changes(t *testing.T, asked string) []string {
	t.Helper()
	b, err := os.ReadFile(asked)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, line := range strings.Split(string(b), "\n") {
		if first, _, _ := strings.Cut(strings.TrimPrefix(line, "network "), " "); slices.Contains([]string{"rm", "rmi", "disconnect"}, first) {
			out = append(out, line)
		}
	}
	return out
}

func TestSweepTakesWhatTheDeadLeft(t *testing.T) {
	asked := falseDocker(t, fmt.Sprintf(sweeping, self(t), "true"))
	removed, err := Sweep(t.Context())
	if got := strings.Join(removed, ", "); err != nil || got != "cluster headroom-a, container builder, image headroom.dev/stage:999999999-1" {
		t.Errorf("want the dead cluster, the container and the image removed, got %q (error: %v)", got, err)
	}
	want := []string{
		"rm --force --volumes b1 n1 n2", "network disconnect --force dead g1", "network rm dead", "rm --force --volumes c1", "rmi --force headroom.dev/stage:999999999-1",
	}
	if got := changes(t, asked); !slices.Equal(got, want) {
		t.Errorf("want %q and no other change, got %q", want, got)
	}
}

// TestSweepWaitsForCommandsOfTheDead: kind's commands outlive it, and may make a node after the first look.
func TestSweepWaitsForCommandsOfTheDead(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	late := exec.Command("cat", pipe)
	late.Env = []string{NetworkEnv + "=headroom-a"}
	if err := late.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = late.Wait() // it ends once the pipe was written to
	}()
	t.Cleanup(func() { _ = late.Process.Kill(); <-ended })
	if got, want := commandsOf("headroom-a"), fmt.Sprintf("process %d (cat %s)", late.Process.Pid, pipe); !slices.Contains(got, want) {
		t.Errorf("want %q found, got %q", want, got)
	}
	if got := commandsOf("headroom"); len(got) != 0 {
		t.Errorf("want none of another network, got %q", got)
	}
	early := fmt.Sprintf("case \"$*\" in \"network rm dead\") if kill -0 %d 2>/dev/null; then echo early >&2; exit 1; fi ;; esac", late.Process.Pid)
	// It ends at the sixth look; without it there would be three.
	end := fmt.Sprintf(`dir=$(dirname "$0")
if [ "$(grep -c label=io.x-k8s "$dir/asked")" -ge 6 ] && mkdir "$dir/ended" 2>/dev/null; then echo >%s & fi
`, pipe)
	falseDocker(t, end+fmt.Sprintf(sweeping, self(t), early))
	if _, err := Sweep(t.Context()); err != nil {
		t.Errorf("want the network removed after the command's end, got %v", err)
	}
}

func TestSweepGoesOnAfterAnError(t *testing.T) {
	falseDocker(t, fmt.Sprintf(sweeping, "999999998-1", "echo busy >&2; exit 1"))
	removed, err := Sweep(t.Context())
	if err == nil || strings.Count(err.Error(), "busy") != 5 || len(removed) != 0 {
		t.Errorf("want each of the five tried, got %q (error: %v)", removed, err)
	}
}
