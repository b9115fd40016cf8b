package health

import (
	"fmt"
	"time"

	"github.com/vdi-fleet/vdi-fleet/hub/failover"
)

// Timings of the link, before scaling (docs/design.md, section 5).
type Timings struct {
	// Renew is how often an agent renews, but in a large fleet: see RenewInterval.
	Renew time.Duration
	// Suspect and Unreachable are the times without heartbeats after which a member is
	// Suspect or Unreachable.
	Suspect, Unreachable time.Duration
	// Stable is how long a member that lost Ready must renew without such a gap to be
	// Ready again.
	Stable time.Duration
	// FlipWindow is the time within which repeated losses of Ready quarantine a member;
	// Quarantine is how long that lasts.
	FlipWindow, Quarantine time.Duration
	// Heartbeat is how often the hub renews the Lease object of a live member.
	Heartbeat time.Duration
	// Failover are the timings of failover. A renewal grants its Lease.
	Failover failover.Timings
	// Recovery is how long a hub that was restored from a backup waits for its members'
	// reports before it places anything.
	Recovery time.Duration
}

const (
	// recoverRenewals are how many renewals a member that lost Ready must send, in addition
	// to being stable: a single one may be an old one that a network had delayed.
	recoverRenewals = 3
	// quarantineFlips is how many losses of Ready within FlipWindow quarantine a member.
	quarantineFlips = 3
)

// DefaultTimings returns the timings of docs/design.md, section 5, times a factor. The factor
// is for demonstrations and tests; 1 is for production.
func DefaultTimings(factor float64) Timings {
	scale := func(d time.Duration) time.Duration { return time.Duration(float64(d) * factor) }
	return Timings{
		Renew:       scale(5 * time.Second),
		Suspect:     scale(15 * time.Second),
		Unreachable: scale(40 * time.Second),
		Stable:      scale(30 * time.Second),
		FlipWindow:  scale(10 * time.Minute),
		Quarantine:  scale(10 * time.Minute),
		Heartbeat:   scale(30 * time.Second),
		Failover:    failover.DefaultTimings(factor),
		Recovery:    scale(300 * time.Second),
	}
}

const (
	// largeFleet is the number of members from which on each renews less often.
	largeFleet = 750
	// renewJitter is by how much the time between two renewals may be longer than the interval.
	renewJitter = 0.1
)

// RenewInterval returns the interval in which the agents of a fleet renew. In a large fleet it is longer, so that
// the hub handles no more renewals a second than those of largeFleet members, but never so long that a single
// lost renewal makes a member Suspect.
func (t Timings) RenewInterval(members int) time.Duration {
	fewer := time.Duration(members) * t.Renew / largeFleet
	longest := time.Duration(float64(t.Suspect) / 2 / (1 + renewJitter))
	return max(t.Renew, min(fewer, longest))
}

// Validate returns an error for inconsistent timings.
func (t Timings) Validate() error {
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"renew", t.Renew}, {"suspect", t.Suspect}, {"unreachable", t.Unreachable}, {"stable", t.Stable},
		{"flip window", t.FlipWindow}, {"quarantine", t.Quarantine}, {"heartbeat", t.Heartbeat},
		{"recovery", t.Recovery},
	} {
		if d.value <= 0 {
			return fmt.Errorf("the link's timings: %s is %s, and must be more than 0", d.name, d.value)
		}
	}
	switch {
	case t.Suspect < 2*t.Renew:
		return fmt.Errorf("the link's timings: suspect (%s) must be at least twice renew (%s), or one renewal that is lost makes a member Suspect", t.Suspect, t.Renew)
	case t.Unreachable <= t.Suspect:
		return fmt.Errorf("the link's timings: unreachable (%s) must be more than suspect (%s)", t.Unreachable, t.Suspect)
	case t.Recovery <= t.Unreachable:
		return fmt.Errorf("the link's timings: recovery (%s) must be more than unreachable (%s), or the hub does not wait for a member that is slow to reconnect", t.Recovery, t.Unreachable)
	case t.Failover.Lease <= t.Unreachable:
		return fmt.Errorf("the link's timings: the lease (%s) must be longer than unreachable (%s), or sessions end in a member that is not Unreachable yet", t.Failover.Lease, t.Unreachable)
	}
	return t.Failover.Validate()
}
