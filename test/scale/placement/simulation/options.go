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
	// Debounce is how long a member collects changes before it reports them.
	Debounce time.Duration
	// Link is how long a message takes between hub and member, including a write to
	// the receiver's API server.
	Link time.Duration
	// Schedule is the time from when an assignment is stored until its Pod is scheduled.
	Schedule time.Duration
	// Sample is how often utilization is measured.
	Sample time.Duration
	// Clock measures decisions; if it is nil, they are not measured.
	Clock func() time.Time
}

// Defaults returns delays measured on real API servers with little load, rounded
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

// Timings of hub and agents, unscaled (docs/design.md, sections 5 to 7).
const (
	suspectAfter = 15 * time.Second
	// failoverAfter is the 40 s until Unreachable, and 60 s more.
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

	// settling is how long a run continues after its trace, before sessions without
	// a node count as never placed.
	settling = time.Hour
)
