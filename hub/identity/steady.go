package identity

import "time"

// Steady is a clock that is never set: the wall clock as it was when the process
// started, plus the time that has passed since. A wall clock that jumps by a day
// makes no certificate expire and lets none live on.
//
// It stands still while the machine is suspended. A leader that was suspended for
// long enough to matter has lost its leadership, and with it its process.
type Steady struct {
	wall  time.Time
	since func() time.Duration
}

// NewSteady starts a clock.
func NewSteady() *Steady {
	start := time.Now()
	return steadyFrom(start, func() time.Duration { return time.Since(start) })
}

// steadyFrom drops what the start knows of the monotonic clock: two times of a
// steady clock are compared by its own readings alone.
func steadyFrom(start time.Time, since func() time.Duration) *Steady {
	return &Steady{wall: start.Round(0), since: since}
}

// Now is the time by this clock.
func (s *Steady) Now() time.Time { return s.wall.Add(s.since()) }
