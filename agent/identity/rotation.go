package identity

import "time"

// A certificate is rotated at a random part of its lifetime between these two, so that
// agents that joined together do not rotate together.
const (
	earliestRotation = 0.5
	latestRotation   = 0.8
)

// checkPart of the lifetime is the longest interval between two checks of the age: timers
// stop while the machine is suspended.
const checkPart = 1.0 / 100

// Delays between attempts to rotate, as parts of the lifetime: from 43 seconds to 29 minutes
// for 24 hours.
const (
	firstRetryPart = 1.0 / 2000
	lastRetryPart  = 1.0 / 50
)

// reading is the time on two clocks, and a random number.
type reading struct {
	// wall is the wall clock, which may be wrong and may be set.
	wall time.Time
	// boot is the time since the machine booted, including suspension.
	boot time.Duration
	// random is from [0, 1).
	random float64
}

// rotationAge returns the age at which a certificate is due. Random is from [0, 1).
func rotationAge(lifetime time.Duration, random float64) time.Duration {
	return part(lifetime, earliestRotation+random*(latestRotation-earliestRotation))
}

// ageByWall returns the age of a certificate that an earlier process stored. The wall clock
// may have been wrong: an age that is not between zero and the lifetime counts as the
// lifetime.
func ageByWall(issued, now time.Time, lifetime time.Duration) time.Duration {
	age := now.Sub(issued)
	if issued.IsZero() || age < 0 || age > lifetime {
		return lifetime
	}
	return age
}

// retryDelay returns the delay before the next attempt to rotate, after so many failures,
// half of it jitter. Random is from [0, 1).
func retryDelay(failures int, lifetime time.Duration, random float64) time.Duration {
	limit := part(lifetime, firstRetryPart)
	for range failures - 1 {
		limit = min(2*limit, part(lifetime, lastRetryPart))
	}
	return part(limit, 0.5+0.5*random)
}

func part(d time.Duration, p float64) time.Duration { return time.Duration(p * float64(d)) }
