package identity

import "time"

// SteadyClock returns a clock that is never set: the wall clock as it is now, plus the
// time that has passed since. A wall clock that jumps by a day makes no certificate
// expire and lets none live on.
//
// It stands still while the machine is suspended. A leader that was suspended for
// long enough to matter has lost its leadership, and with it its process.
func SteadyClock() func() time.Time {
	start := time.Now()
	return steadyFrom(start, func() time.Duration { return time.Since(start) })
}

// steadyFrom drops what the start knows of the monotonic clock: two times of a
// steady clock are compared by its own readings alone.
func steadyFrom(start time.Time, since func() time.Duration) func() time.Time {
	wall := start.Round(0)
	return func() time.Time { return wall.Add(since()) }
}
