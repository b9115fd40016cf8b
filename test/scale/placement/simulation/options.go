package simulation

import (
	"time"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// Options of a run.
type Options struct {
	Strategy v1alpha1.Strategy
	// HeadroomPercent is kept free in each member for failover.
	HeadroomPercent int32
	// Debounce is how long a member gathers changes before it reports them.
	Debounce time.Duration
	// Link is how long a message takes between hub and member, a write to the
	// API server at its end included.
	Link time.Duration
	// Schedule is how long after an assignment was stored its Pod is scheduled.
	Schedule time.Duration
	// Sample is how often utilization is measured.
	Sample time.Duration
	// Clock measures decisions; nil: they are not measured.
	Clock func() time.Time
}

// Defaults are what was measured on real API servers with little load, rounded
// up; the debounce is the agent's own.
func Defaults() Options {
	return Options{
		Strategy: v1alpha1.StrategyLeastLoaded,
		Debounce: 250 * time.Millisecond,
		Link:     50 * time.Millisecond,
		Schedule: 200 * time.Millisecond,
		Sample:   time.Minute,
	}
}

// What hub and agents do by, unscaled (docs/design.md, sections 5 to 7).
const (
	suspectAfter = 15 * time.Second
	// failoverAfter is Unreachable at 40 s, and 60 s more.
	failoverAfter = 100 * time.Second
	stableFor     = 30 * time.Second
	failoverPause = time.Second / 20

	refusalLasts  = 25 * time.Second
	refusalsInRow = 3
	backoffLeast  = time.Second
	backoffMost   = 30 * time.Second

	unschedulableFor = 10 * time.Second
	moveLeast        = 5 * time.Second
	moveMost         = 30 * time.Second

	// settling is how much longer than its trace a run goes on, before what has
	// no node is called never placed.
	settling = time.Hour
)
