package killtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// apartVariable is set in a test binary that has a mount namespace of its own.
const apartVariable = "KILLTEST_APART"

// withdraw starts the test binary anew in a mount namespace of its own: mounts that others make on the machine meanwhile, such as a Docker daemon's, do not
// get there, and what a run leaves does. Where that is not allowed, to an ordinary user, it does nothing.
func withdraw() error {
	if os.Getenv(apartVariable) != "" {
		return nil
	}
	runtime.LockOSThread() // the namespace is this thread's, which Exec makes the process
	if err := unix.Unshare(unix.CLONE_NEWNS); errors.Is(err, unix.EPERM) {
		return nil
	} else if err != nil {
		return err
	}
	// Private cuts it off from the machine's; shared again, it gets what a run's own namespaces would have passed on.
	for _, propagation := range []uintptr{unix.MS_PRIVATE, unix.MS_SHARED} {
		if err := unix.Mount("", "/", "", unix.MS_REC|propagation, ""); err != nil {
			return err
		}
	}
	return syscall.Exec("/proc/self/exe", os.Args, append(os.Environ(), apartVariable+"=1"))
}

// TestMountsOfOthersAreNoLeaks: what somebody else mounts on the machine is not seen, what a namespace made by a run passes on is.
func TestMountsOfOthersAreNoLeaks(t *testing.T) {
	if os.Getenv(apartVariable) == "" {
		t.Skip("an ordinary user's mount namespace is the machine's")
	}
	path := t.TempDir()
	seen := func() bool {
		for line := range mounts() {
			if strings.HasSuffix(line, " "+path) {
				return true
			}
		}
		return false
	}
	mount := func(enter ...string) {
		t.Helper()
		if out, err := exec.Command(enter[0], append(enter[1:], "mount", "-t", "tmpfs", "stray", path)...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	machine := fmt.Sprintf("--mount=/proc/%d/ns/mnt", os.Getppid())
	mount("nsenter", machine)
	if seen() {
		t.Error("want a mount of somebody else's not seen")
	}
	if out, err := exec.Command("nsenter", machine, "umount", path).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	mount("unshare", "--mount", "--propagation", "unchanged")
	if !seen() {
		t.Error("want a mount seen that came from a namespace made here")
	}
	unmount(t, path)()
}
