package identity

import "time"

// SteadyClock returns a clock of the present wall time plus the time since, so that
// setting the wall clock affects no certificate.
//
// It does not run while the machine is suspended, after which the leader has lost its
// leadership and ends.
func SteadyClock() func() time.Time {
	start := time.Now()
	return steadyFrom(start, func() time.Duration { return time.Since(start) })
}

// steadyFrom removes the monotonic reading of the start, so that two times of a steady
// clock are compared by its own readings.
func steadyFrom(start time.Time, since func() time.Duration) func() time.Time {
	wall := start.Round(0)
	return func() time.Time { return wall.Add(since()) }
}
