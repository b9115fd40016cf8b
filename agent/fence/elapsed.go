package fence

import (
	"sync"
	"time"

	"github.com/vdi-fleet/vdi-fleet/proto/boottime"
)

// Elapsed is a clock that also counts the time while its machine is suspended, or paused by
// its hypervisor, which stops the boot clock. If the wall clock gains more than the skew
// between two readings, after a pause or because it was set, the gain counts as elapsed. It
// is safe for concurrent use.
type Elapsed struct {
	clock func() boottime.Instant
	skew  time.Duration

	mu sync.Mutex
	// last is the last reading, and now the time then.
	last boottime.Instant
	now  time.Duration
}

// NewElapsed returns a clock that ignores wall clock changes of up to the skew.
func NewElapsed(skew time.Duration) *Elapsed { return newElapsed(boottime.Read, skew) }

func newElapsed(clock func() boottime.Instant, skew time.Duration) *Elapsed {
	first := clock()
	return &Elapsed{clock: clock, skew: skew, last: first, now: first.Boot}
}

// Now returns the time since the boot. It never decreases.
func (e *Elapsed) Now() time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	reading := e.clock()
	e.now += reading.Since(e.last, e.skew)
	e.last = reading
	return e.now
}
