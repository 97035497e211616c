package killtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const privateDocker = "../../scripts/docker-private.sh"

// TestPrivateDaemonOfAKilledStarter: a daemon whose starter was killed is stopped by the next one, and not by a command that was there all the time.
func TestPrivateDaemonOfAKilledStarter(t *testing.T) {
	askedFor(t)
	dir := filepath.Join(t.TempDir(), "docker")
	before := mounts()
	private := func(args ...string) *exec.Cmd {
		cmd := exec.Command(privateDocker, append([]string{dir}, args...)...)
		cmd.Env = append(os.Environ(), "DOCKER_PRIVATE=1")
		cmd.Stderr = os.Stderr
		return cmd
	}
	t.Cleanup(func() { _ = private("stop").Run() }) // where the test failed
	first := private("sh", "-c", "echo up; exec sleep 600")
	first.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // the daemon has a session of its own
	out, err := first.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	said := make([]byte, 3)
	if _, err := out.Read(said); err != nil || string(said) != "up\n" {
		t.Fatalf("want the command to run, got %q (%v)", said, err)
	}
	if err := private("docker", "version", "--format", "{{.Server.Version}}").Run(); err != nil {
		t.Errorf("a second command: want the daemon to answer, got %v", err)
	}
	if daemons(dir) != 1 {
		t.Errorf("while its starter lives: want the daemon spared by a second command, got %d daemons", daemons(dir))
	}
	if err := syscall.Kill(-first.Process.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = first.Wait() // it was killed
	if daemons(dir) != 1 {
		t.Fatalf("after the kill: want the daemon left, or this test shows nothing, got %d daemons", daemons(dir))
	}
	if err := private("true").Run(); err != nil {
		t.Errorf("the next command: %v", err)
	}
	for deadline := time.Now().Add(goneLimit); daemons(dir) > 0; time.Sleep(4 * pollInterval) {
		if time.Now().After(deadline) {
			t.Fatalf("want the daemon stopped by the next starter, got %d processes that name %s", daemons(dir), dir)
		}
	}
	for line := range mounts() {
		if before[line] == 0 && strings.Contains(line, dir) {
			t.Errorf("want no mount left, got %s", line)
		}
	}
}

// daemons counts the dockerd processes of a directory.
func daemons(dir string) (n int) {
	for pid := range processes() {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if argv := strings.Split(string(b), "\x00"); err == nil && filepath.Base(argv[0]) == "dockerd" && strings.Contains(string(b), dir) {
			n++
		}
	}
	return n
}
