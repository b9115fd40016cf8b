//go:build !linux

package identity

import "time"

var started = time.Now()

// sinceBoot is the best there is for building and testing elsewhere: agents run
// on Linux.
func sinceBoot() (time.Duration, error) { return time.Since(started), nil }
