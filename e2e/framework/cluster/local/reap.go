package local

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// children knows the processes that this process started itself. As PID 1 of a cell it also inherits the orphans of its descendants, and must
// reap those without taking the exit status of its own children away from os/exec.
var children = &family{own: map[int]bool{}}

type family struct {
	mu  sync.Mutex
	own map[int]bool
}

// start starts cmd and counts it as own before its end can be seen.
func (f *family) start(cmd *exec.Cmd) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := cmd.Start(); err != nil {
		return err
	}
	f.own[cmd.Process.Pid] = true
	return nil
}

// wait waits for a process that start started.
func (f *family) wait(cmd *exec.Cmd) error {
	err := cmd.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.own, cmd.Process.Pid)
	return err
}

// reapOrphans collects adopted zombies for ever. An orphan's zombie costs a table entry and nothing else, so once a second is soon enough.
func (f *family) reapOrphans() {
	for {
		time.Sleep(time.Second)
		f.reap()
	}
}

func (f *family) reap() {
	f.mu.Lock()
	defer f.mu.Unlock()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || f.own[pid] {
			continue
		}
		if state, parent := processState(pid); state == 'Z' && parent == os.Getpid() {
			var status syscall.WaitStatus
			_, _ = syscall.Wait4(pid, &status, syscall.WNOHANG, nil) // gone already is as good
		}
	}
}

// processState reads a process's state letter and parent; zeros when it is gone.
func processState(pid int) (state byte, parent int) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0
	}
	// The name in parentheses may hold anything; what follows the last one is "S ppid ...".
	fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(fields) < 2 || len(fields[0]) != 1 {
		return 0, 0
	}
	parent, err = strconv.Atoi(string(fields[1]))
	if err != nil {
		return 0, 0
	}
	return fields[0][0], parent
}
