package binaries

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"headroom/e2e/framework/cluster"
)

func TestTwoRunsShareOneBuild(t *testing.T) {
	w := newWorld(t)
	w.steer("hang", "")
	var first, second buffer
	other := w.another(&first, "kubelet")
	w.pids()
	done := make(chan error, 1)
	go func() {
		_, err := Ensure(t.Context(), Options{Cache: w.cache, Components: []string{"kubelet"}, From: w.from, Out: &second})
		done <- err
	}()
	waiting := fmt.Sprintf("  kubelet v1.36.3  waiting for another build (pid %d)\n", other.Process.Pid)
	eventually(t, "the second run to say that it waits", func() bool { return strings.Contains(second.String(), waiting) })
	w.unsteer("hang")
	if err := other.Wait(); err != nil {
		t.Errorf("first run: %v\n%s", err, first.String())
	}
	if err := <-done; err != nil {
		t.Errorf("second run: %v", err)
	}
	if n := w.builds(); n != 1 {
		t.Errorf("want 1 build, got %d", n)
	}
	if !strings.Contains(second.String(), "built by another run in ") {
		t.Errorf("second run printed:\n%s", second.String())
	}
}

func TestKilledBuildLeavesNothingComplete(t *testing.T) {
	w := newWorld(t)
	w.steer("hang", "")
	var out buffer
	other := w.another(&out, "kubelet")
	command, compiler := w.pids()
	t.Cleanup(func() { syscall.Kill(compiler, syscall.SIGKILL) }) // As a real compiler would, it goes on until its file is done.
	if err := other.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	other.Wait()
	eventually(t, "the go command to end with its parent", func() bool { return gone(command) })
	if s := w.state("kubelet"); s.State != Missing {
		t.Errorf("want missing, got %+v", s)
	}
	if left := w.names("tmp"); len(left) != 1 {
		t.Fatalf("want the killed build's directory, got %q", left)
	}
	w.unsteer("hang")
	w.mustEnsure("etcd") // Another component sweeps too.
	if left := w.names("tmp"); len(left) != 0 {
		t.Errorf("leftovers: %q", left)
	}
	if _, out := w.mustEnsure("kubelet"); !strings.Contains(out, "built in") || strings.Contains(out, "waiting") {
		t.Errorf("want a build without waiting, got:\n%s", out)
	}
}

func TestSweepSparesRunningBuilds(t *testing.T) {
	w := newWorld(t)
	w.steer("hang", "")
	var out buffer
	other := w.another(&out, "kubelet")
	w.pids()
	stale := filepath.Join(w.cache, "tmp", "etcd-v0.0.1-x.123")
	foreign := filepath.Join(w.cache, "tmp", "README")
	for _, dir := range []string{stale, foreign} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	open(w.cache).sweep("")
	left := strings.Join(w.names("tmp"), " ")
	if strings.Contains(left, "etcd") || !strings.Contains(left, "kubelet-v1.36.3") || !strings.Contains(left, "README") {
		t.Errorf("want the stale directory removed and the others kept, got %q", left)
	}
	w.unsteer("hang")
	if err := other.Wait(); err != nil {
		t.Errorf("the swept-around build: %v\n%s", err, out.String())
	}
	if s := w.state("kubelet"); s.State != Cached {
		t.Errorf("got %+v", s)
	}
}

func TestCancelKillsTheWholeBuild(t *testing.T) {
	w := newWorld(t)
	w.steer("hang", "")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out buffer
	done := make(chan error, 1)
	go func() {
		_, err := Ensure(ctx, Options{Cache: w.cache, Components: []string{"kubelet"}, From: w.from, Out: &out})
		done <- err
	}()
	command, compiler := w.pids()
	cancel()
	err := <-done
	if env := (*cluster.EnvironmentError)(nil); !errors.Is(err, context.Canceled) || errors.As(err, &env) {
		t.Errorf("want context.Canceled and no environment error, got: %v", err)
	}
	for _, pid := range []int{command, compiler} {
		eventually(t, fmt.Sprintf("process %d to end", pid), func() bool { return gone(pid) })
	}
	if !strings.HasSuffix(out.String(), "  cancelled\n") {
		t.Errorf("progress: got %s", out.String())
	}
	if bin, tmp := w.names("bin"), w.names("tmp"); len(bin)+len(tmp) != 0 {
		t.Errorf("left behind: %q %q", bin, tmp)
	}
}

func TestCancelWhileWaiting(t *testing.T) {
	w := newWorld(t)
	lock := filepath.Join(w.cache, "lock", "k")
	unlock, waited, err := acquire(t.Context(), lock, func(string) { t.Error("a free lock needs no waiting") })
	if err != nil || waited {
		t.Fatalf("got waited %t, %v", waited, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, _, err = acquire(ctx, lock, func(holder string) {
		if want := fmt.Sprintf(" (pid %d)", os.Getpid()); holder != want {
			t.Errorf("holder: want %q, got %q", want, holder)
		}
		cancel()
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("want context.Canceled, got %v", err)
	}
	unlock()
	if unlock, _, err = acquire(t.Context(), lock, func(string) {}); err != nil {
		t.Fatal(err)
	}
	unlock()
}

func TestTwoFailuresDoNotShare(t *testing.T) {
	w := newWorld(t)
	w.steer("hang", "")
	w.steer("fail", "broken")
	var out, second buffer
	other := w.another(&out, "kubelet")
	w.pids()
	done := make(chan error, 1)
	go func() {
		_, err := Ensure(t.Context(), Options{Cache: w.cache, Components: []string{"kubelet"}, From: w.from, Out: &second})
		done <- err
	}()
	eventually(t, "the second run to wait", func() bool { return strings.Contains(second.String(), "waiting") })
	w.unsteer("hang")
	if err := other.Wait(); err == nil {
		t.Error("want the first run to fail")
	}
	wantEnvironment(t, <-done, "broken")
	if n := w.builds(); n != 2 {
		t.Errorf("want the second run to try by itself, got %d builds", n)
	}
}
