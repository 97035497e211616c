package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// stuckVariable makes this test binary a command that hears the first signal and does not end.
const stuckVariable = "HEADROOM_STUCK"

// stuck never returns.
func stuck() {
	ctx, stop := interruptible()
	defer stop()
	fmt.Println("begun")
	<-ctx.Done()
	for {
		fmt.Println("heard")
		time.Sleep(10 * time.Millisecond) // a signal that comes before the handler is gone is heard no more
	}
}

// TestSecondSignalEnds: the first signal is heard, and leaves time to end in order; the second does not ask.
func TestSecondSignalEnds(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
		cmd.Env = append(os.Environ(), stuckVariable+"=1")
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		heard := false
		for lines := bufio.NewScanner(out); lines.Scan(); heard = heard || lines.Text() == "heard" {
			if err := cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
				t.Fatal(err)
			}
		}
		var exit *exec.ExitError
		if err := cmd.Wait(); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != signal || !heard {
			t.Errorf("%s: want the first heard (%t), and the second to end it, got %v", signal, heard, err)
		}
	}
}
