//go:build !linux

package election

import "time"

var start = time.Now()

// sinceBoot is the monotonic clock, for developers whose machine is no Linux: it
// may stand still while the machine is suspended.
func sinceBoot() time.Duration { return time.Since(start) }
