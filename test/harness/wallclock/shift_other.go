//go:build !linux || !amd64

package wallclock

import (
	"errors"
	"time"
)

// Shift is not offered here.
func Shift(int, time.Duration) error {
	return errors.New("the clock of another process can be shifted on Linux and amd64 alone")
}
