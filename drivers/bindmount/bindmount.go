// Package bindmount mounts folders elsewhere, as drivers whose volumes are folders do, in a user namespace too.
package bindmount

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Bind mounts source at target. Read-only takes a second call, because the kernel ignores the flag on the first; flags that the mount below
// has must then be repeated, or an unprivileged namespace is refused.
func Bind(source, target string, readOnly bool) error {
	if err := unix.Mount(source, target, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind %q to %q: %w", source, target, err)
	}
	if !readOnly {
		return nil
	}
	var st unix.Statfs_t
	err := unix.Statfs(target, &st)
	if err == nil {
		// These flags have the same value in both calls, relatime does not (its value of statfs is MS_BIND of mount).
		const same = unix.ST_NOSUID | unix.ST_NODEV | unix.ST_NOEXEC | unix.ST_NOATIME | unix.ST_NODIRATIME
		flags := uintptr(st.Flags&same) | unix.MS_BIND | unix.MS_REMOUNT | unix.MS_RDONLY
		if st.Flags&unix.ST_RELATIME != 0 {
			flags |= unix.MS_RELATIME
		}
		err = unix.Mount("", target, "", flags, "")
	}
	if err != nil {
		if undo := unix.Unmount(target, 0); undo != nil {
			return fmt.Errorf("make %q read-only: %w (and unmount it again: %w)", target, err, undo)
		}
		return fmt.Errorf("make %q read-only: %w", target, err)
	}
	return nil
}

// Count is how many mounts are stacked at target. It reads the kernel's table, because comparing device numbers does not show a bind
// mount of the same file system.
func Count(target string) (int, error) {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return 0, err
	}
	n := 0
	for line := range strings.Lines(string(b)) {
		if fields := strings.Fields(line); len(fields) > 4 && unescape(fields[4]) == target {
			n++
		}
	}
	return n, nil
}

// Remove takes all mounts at target away, and target itself. That there is none is no error.
func Remove(target string) error {
	mounted, err := Count(target)
	if err != nil {
		return err
	}
	for ; mounted > 0; mounted-- {
		// EINVAL: not mounted any more. Shared mounts come and go in pairs, so one call can take two away.
		if err := unix.Unmount(target, unix.UMOUNT_NOFOLLOW); err != nil && !errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("unmount %q: %w", target, err)
		}
	}
	// Remove, never RemoveAll: were it still mounted, that would delete the volume's data.
	if err := os.Remove(target); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// unescape undoes the octal escapes of mountinfo (space, tab, newline, backslash).
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+4 <= len(s) {
			if c, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(c))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
