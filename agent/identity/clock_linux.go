package identity

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// sinceBoot grows steadily, in suspension too.
func sinceBoot() (time.Duration, error) {
	var boot unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot); err != nil {
		return 0, fmt.Errorf("reading the boot-time clock: %w", err)
	}
	return time.Duration(boot.Nano()), nil
}
