package policy

import (
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Machine is the clock of this machine since its boot (CLOCK_BOOTTIME): the same for every process, and unmoved by changes of the date.
type Machine struct{}

// Now implements Clock. It panics where the kernel has no such clock, which Linux has had since 2.6.39.
func (Machine) Now() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic(fmt.Sprintf("policy: clock_gettime: %v", err))
	}
	return time.Duration(ts.Nano())
}

// Boot names the current boot of this machine.
func Boot() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b)), err
}
