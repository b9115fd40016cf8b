package boottime

import "time"

// Instant is a moment on both clocks of a machine.
type Instant struct {
	// Boot is the time since the machine booted: see Now.
	Boot time.Duration
	// Wall is the time of the wall clock, which may be set, without Go's monotonic reading.
	Wall time.Time
}

// Read reads both clocks.
func Read() Instant { return Instant{Boot: Now(), Wall: time.Now().Round(0)} }

// Since returns the time that has passed since an earlier instant. A machine that its
// hypervisor pauses stops its boot clock too, and only the wall clock shows that: it is the
// boot clock's time, or the wall clock's less the skew by which it may be set, whichever is
// more.
func (i Instant) Since(earlier Instant, skew time.Duration) time.Duration {
	return max(i.Boot-earlier.Boot, i.Wall.Sub(earlier.Wall)-skew)
}
