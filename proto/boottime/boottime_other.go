//go:build !linux

package boottime

import (
	"time"

	"github.com/google/uuid"
)

var (
	start = time.Now()
	boot  = uuid.NewString()
)

// Now returns the monotonic clock, for development without Linux: it may stop while the
// machine is suspended.
func Now() time.Duration { return time.Since(start) }

// ID returns an ID of the process.
func ID() (string, error) { return boot, nil }
