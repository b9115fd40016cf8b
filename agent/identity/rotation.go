package identity

import "time"

// A certificate is rotated at a random part of its lifetime between these two,
// so that the agents of a fleet that joined together do not rotate together.
const (
	earliestRotation = 0.5
	latestRotation   = 0.8
)

// lookParts of a lifetime is how often the age is looked at: a timer stands
// still while the machine is suspended, the age does not.
const lookParts = 100

// Pauses between attempts to rotate, as parts of the lifetime: for 24 hours
// they grow from 43 seconds to 29 minutes.
const (
	firstPausePart = 1.0 / 2000
	lastPausePart  = 1.0 / 50
)

// reading is what an instant is known by, and a draw from [0, 1).
type reading struct {
	// wall is the member's clock, which may be wrong and may be set.
	wall time.Time
	// boot grows steadily, in suspension too, until the machine is restarted.
	boot   time.Duration
	random float64
}

// rotationAge returns the age at which a certificate is due. Random is from [0, 1).
func rotationAge(lifetime time.Duration, random float64) time.Duration {
	return part(lifetime, earliestRotation+random*(latestRotation-earliestRotation))
}

// ageByWall returns how old a certificate is that another process of this agent
// stored: all that is known is when, by the wall clock of then. A clock that
// was set back or far ahead can't be distinguished from one that is right, so an age
// that is not between zero and the lifetime counts as used up.
func ageByWall(issued, now time.Time, lifetime time.Duration) time.Duration {
	age := now.Sub(issued)
	if issued.IsZero() || age < 0 || age > lifetime {
		return lifetime
	}
	return age
}

// pause before the next attempt to rotate, after so many that failed. Random
// is from [0, 1): half of the pause is left to chance.
func pause(failures int, lifetime time.Duration, random float64) time.Duration {
	limit := part(lifetime, firstPausePart)
	for range failures - 1 {
		limit = min(2*limit, part(lifetime, lastPausePart))
	}
	return part(limit, 0.5+0.5*random)
}

func part(d time.Duration, p float64) time.Duration { return time.Duration(p * float64(d)) }
