package fence

import (
	"sync"
	"time"
)

// wallClock shows the time of day, without the monotonic reading that Go subtracts by
// where it is there.
func wallClock() time.Time { return time.Now().Round(0) }

// Elapsed is a clock that runs on while its machine is suspended, or paused by its
// hypervisor. The boot clock stands still in a pause; when the wall's clock is right
// again, it has gained as much. A gain of more than the skew between two readings
// counts as time that has passed, and so does a wall's clock that is set forward by
// more. It is safe for concurrent use.
type Elapsed struct {
	boot func() time.Duration
	wall func() time.Time
	skew time.Duration

	mu       sync.Mutex
	lastBoot time.Duration
	lastWall time.Time
	// paused is the time that the boot clock has missed.
	paused time.Duration
}

// NewElapsed makes a clock that ignores a wall's clock that is set by up to the skew.
func NewElapsed(skew time.Duration) *Elapsed { return newElapsed(SinceBoot, wallClock, skew) }

func newElapsed(boot func() time.Duration, wall func() time.Time, skew time.Duration) *Elapsed {
	return &Elapsed{boot: boot, wall: wall, skew: skew, lastBoot: boot(), lastWall: wall()}
}

// Now returns a moment, in time since the boot. It never falls.
func (e *Elapsed) Now() time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	boot, wall := e.boot(), e.wall()
	if gained := wall.Sub(e.lastWall) - (boot - e.lastBoot) - e.skew; gained > 0 {
		e.paused += gained
	}
	e.lastBoot, e.lastWall = boot, wall
	return boot + e.paused
}
