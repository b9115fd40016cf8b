package fence

import (
	"sync"
	"time"

	"github.com/vdi-fleet/vdi-fleet/proto/boottime"
)

// wallClock returns the time without its monotonic reading, which time.Sub would use.
func wallClock() time.Time { return time.Now().Round(0) }

// Elapsed is a clock that also counts the time while its machine is suspended, or paused by
// its hypervisor, which stops the boot clock. If the wall clock gains more than the skew
// between two readings, after a pause or because it was set, the gain counts as elapsed. It
// is safe for concurrent use.
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

// NewElapsed returns a clock that ignores wall clock changes of up to the skew.
func NewElapsed(skew time.Duration) *Elapsed { return newElapsed(boottime.Now, wallClock, skew) }

func newElapsed(boot func() time.Duration, wall func() time.Time, skew time.Duration) *Elapsed {
	return &Elapsed{boot: boot, wall: wall, skew: skew, lastBoot: boot(), lastWall: wall()}
}

// Now returns the time since the boot. It never decreases.
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
