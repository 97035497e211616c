package engine_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"headroom/e2e/framework/cluster/kind/archive"
	"headroom/e2e/framework/cluster/kind/engine"
)

// victimEnv makes this test binary a run that is killed: it makes a network and a node like kind's, says so, and waits.
const victimEnv = "HEADROOM_TEST_VICTIM"

const testImage = "headroom.dev/test:sweep"

func TestMain(m *testing.M) {
	if name := os.Getenv(victimEnv); name != "" {
		if err := victim(name); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println("made")
		time.Sleep(time.Hour)
	}
	os.Exit(m.Run())
}

func victim(name string) error {
	ctx := context.Background()
	if err := engine.MakeNetwork(ctx, name); err != nil {
		return err
	}
	_, err := engine.Run(ctx, node(name, name)...)
	return err
}

// node is a container as kind makes them: in the cluster's network, with its label and an anonymous volume. It is not started.
func node(cluster, network string) []string {
	return []string{"create", "--name", cluster + "-control-plane", "--label", "io.x-k8s.kind.cluster=" + cluster, "--network", network, "--volume", "/var", testImage, "/none"}
}

func needEngine(t *testing.T) {
	t.Helper()
	if err := engine.Check(t.Context()); err != nil {
		t.Skipf("needs a container engine: %v", err)
	}
}

// TestSweepAfterKill needs an engine: one that is killed in the middle leaves nothing after the sweep, and what is not ours is untouched.
func TestSweepAfterKill(t *testing.T) {
	needEngine(t)
	ctx := context.WithoutCancel(t.Context())
	docker := func(args ...string) string {
		t.Helper()
		out, err := engine.Run(ctx, args...)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	var image bytes.Buffer
	if err := archive.Write(&image, archive.Image{Ref: testImage, Files: []archive.File{{Path: "/none", Data: []byte("x")}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := engine.Feed(ctx, &image, "load"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = engine.Run(ctx, "rmi", "--force", testImage) }) // a picture of a few bytes
	volumeOf := func(cluster string) string {
		return docker("inspect", "--format", "{{range .Mounts}}{{.Name}}{{end}}", cluster+"-control-plane")
	}

	name, foreign := fmt.Sprintf("headroom-test-%d", os.Getpid()), fmt.Sprintf("foreign-%d", os.Getpid())
	docker("network", "create", foreign)
	t.Cleanup(func() { docker("network", "rm", foreign) })
	docker(node(foreign, foreign)...) // somebody's own kind cluster
	t.Cleanup(func() { docker("rm", "--volumes", foreign+"-control-plane") })

	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), victimEnv+"="+name)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "made\n" {
		t.Fatalf("want the victim to make its cluster, got %q (error: %v)", line, err)
	}
	ours, theirs := volumeOf(name), volumeOf(foreign)
	if removed, err := engine.Sweep(ctx); err != nil || slices.Contains(removed, "cluster "+name) {
		t.Fatalf("while its owner lives: want the cluster spared, got %q (error: %v)", removed, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	removed, err := engine.Sweep(ctx)
	if err != nil || !slices.Contains(removed, "cluster "+name) {
		t.Fatalf("want the cluster removed, got %q (error: %v)", removed, err)
	}
	for _, list := range [][]string{{"ps", "--all", "--format", "{{.Names}}"}, {"network", "ls", "--format", "{{.Name}}"}} {
		text := docker(list...)
		if strings.Contains(text, name) || !strings.Contains(text, foreign) {
			t.Errorf("docker %s: want nothing of %s and all of %s, got %q", list[0], name, foreign, text)
		}
	}
	if text := docker("volume", "ls", "--quiet"); strings.Contains(text, ours) || !strings.Contains(text, theirs) {
		t.Errorf("docker volume: want %s gone and %s there, got %q", ours, theirs, text)
	}
}
