package cluster

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"
)

// TailLines is how much of a log goes into an error.
const TailLines = 15

// LogTail is the end of a log, indented, for an error.
func LogTail(path string) string {
	lines, err := LastLines(path, TailLines)
	if err != nil {
		return fmt.Sprintf("\n  its log %s cannot be read: %v", path, err)
	}
	if len(lines) == 0 {
		return fmt.Sprintf("\n  its log %s is empty", path)
	}
	return fmt.Sprintf("\n  last lines of %s:\n    %s", path, strings.Join(lines, "\n    "))
}

// LastLines reads the last n lines of a file, from its last 64 KiB.
func LastLines(path string, n int) ([]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	const window = 64 << 10
	if info, err := f.Stat(); err == nil && info.Size() > window {
		if _, err := f.Seek(-window, 2); err != nil {
			return nil, err
		}
	}
	var lines []string
	in := bufio.NewScanner(f)
	in.Buffer(nil, window+1)
	for in.Scan() {
		lines = append(lines, in.Text())
		if len(lines) > n {
			lines = lines[1:]
		}
	}
	if err := in.Err(); err != nil && !errors.Is(err, bufio.ErrTooLong) {
		return nil, err
	}
	return lines, nil
}
