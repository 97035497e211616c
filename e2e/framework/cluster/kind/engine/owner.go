package engine

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// ownerKey labels what a process of ours made in the engine and takes away again. A process id alone may have been given to another process since; with
// its start time it is unique until the machine starts anew.
const ownerKey = "headroom.dev/owner"

// Owner is the label, key=value, of what this process makes.
func Owner() (string, error) {
	start, err := startTime(os.Getpid())
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s=%d-%s", ownerKey, os.Getpid(), start), nil
}

// Alive says whether the process that a label's value names still runs. What cannot be read names none.
func Alive(owner string) bool {
	id, start, _ := strings.Cut(owner, "-")
	pid, err := strconv.Atoi(id)
	if err != nil {
		return false
	}
	now, err := startTime(pid)
	return err == nil && now == start
}

// startTime is when a process started, in clock ticks since boot.
func startTime(pid int) (string, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", err
	}
	// The name in parentheses may hold anything; what follows the last one is "S ppid ...".
	fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	if len(fields) < 20 {
		return "", fmt.Errorf("/proc/%d/stat: want 22 fields", pid)
	}
	return fields[19], nil
}
