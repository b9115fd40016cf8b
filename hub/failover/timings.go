package failover

import (
	"fmt"
	"time"
)

// drift bounds the difference in rate of two clocks: one second of one clock is between
// 1-drift and 1+drift of the other's.
const drift = 0.05

// Timings of failover. One factor scales all of them.
type Timings struct {
	// After is how long a Restart session without a wait of its own waits after its member
	// became Unreachable.
	After time.Duration
	// Lease (L) is how long a renewal permits Fence sessions to run, from when the agent
	// sent it.
	Lease time.Duration
	// Regain (R) is how long after its last grant the hub waits before it places a Fence
	// session again, and how long a new leader waits before it places any.
	Regain time.Duration
	// Slack (S) bounds the time from the end of a lease until the last Pod is gone: an
	// agent's takeover, a Pod's grace of at most 30 s, probes.
	Slack time.Duration
}

// DefaultTimings returns the timings of docs/design.md, section 7, times a factor. The factor
// is for demonstrations and tests; 1 is for production.
func DefaultTimings(factor float64) Timings {
	return Timings{
		After: 60 * time.Second, Lease: 180 * time.Second, Regain: 300 * time.Second, Slack: 70 * time.Second,
	}.Scaled(factor)
}

// Scaled returns the timings times a factor.
func (t Timings) Scaled(factor float64) Timings {
	scale := func(d time.Duration) time.Duration { return time.Duration(float64(d) * factor) }
	return Timings{After: scale(t.After), Lease: scale(t.Lease), Regain: scale(t.Regain), Slack: scale(t.Slack)}
}

// Validate returns an error, with the remedy, for inconsistent timings.
func (t Timings) Validate() error {
	switch {
	case t.After < 0:
		return fmt.Errorf("the timings of failover: after is %s, and must not be negative", t.After)
	case t.Lease <= 0, t.Slack <= 0:
		return fmt.Errorf("the timings of failover: lease is %s and slack %s, and both must be more than 0", t.Lease, t.Slack)
	case t.Regain < t.minRegain():
		return fmt.Errorf("the timings of failover: a Fence session might run twice: regain is %s, and with a lease of %s it must be at least %s; "+
			"raise it, or make the lease shorter", t.Regain, t.Lease, t.minRegain().Round(time.Millisecond))
	}
	return nil
}

// minRegain returns the shortest Regain after which nothing that the lease permitted runs
// any more: (1+ρ)(L/(1-ρ)+S) by the hub's clock.
func (t Timings) minRegain() time.Duration {
	return time.Duration((1 + drift) * (float64(t.Lease)/(1-drift) + float64(t.Slack)))
}
