//go:build !linux

package fence

import (
	"time"

	"github.com/google/uuid"
)

var (
	start = time.Now()
	boot  = uuid.NewString()
)

// SinceBoot returns the monotonic clock, for developers whose machine is no Linux: it
// may stand still while the machine is suspended.
func SinceBoot() time.Duration { return time.Since(start) }

// bootID returns an ID of the process, whose clock is its own.
func bootID() (string, error) { return boot, nil }
