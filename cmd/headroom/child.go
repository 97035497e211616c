package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// childLimit is what an interrupted child may take to end its cluster and to judge.
const childLimit = 2 * time.Minute

// child runs this program once more, with all that it prints in a log, and returns its exit code. When ctx ends it is interrupted, and judges what there
// is. The error says why there is no exit code.
func child(ctx context.Context, log string, args []string) (code int, err error) {
	out, err := os.Create(log)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Args[0] = "headroom"
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL} // Ctrl-C reaches this process first
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = childLimit
	runtime.LockOSThread() // the death signal comes when the starting thread ends
	defer runtime.UnlockOSThread()
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode(), nil
	}
	return 0, err
}
