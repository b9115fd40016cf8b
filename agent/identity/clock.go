package identity

import (
	"fmt"
	"math/rand/v2"
	"time"

	"golang.org/x/sys/unix"
)

// readClocks asks the system, and chance.
func readClocks() (reading, error) {
	var boot unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot); err != nil {
		return reading{}, fmt.Errorf("reading the boot-time clock: %w", err)
	}
	return reading{wall: time.Now(), boot: time.Duration(boot.Nano()), random: rand.Float64()}, nil
}
