package fleet

import "time"

// Health is how alive a member is.
type Health string

// The states of health.
const (
	// HealthUnknown: this hub has not heard of the member, and has not led long
	// enough to hold that against it.
	HealthUnknown Health = "Unknown"
	// HealthNeverConnected: no agent of the member has ever said hello.
	HealthNeverConnected Health = "NeverConnected"
	// HealthReady: its agent renews. A stream that broke a moment ago does not
	// count against it; placement asks for an open one besides.
	HealthReady Health = "Ready"
	// HealthSuspect: silent for a while; takes no new sessions.
	HealthSuspect Health = "Suspect"
	// HealthUnreachable: silent for long.
	HealthUnreachable Health = "Unreachable"
)

// Timings of the link, before scaling (DESIGN section 5).
type Timings struct {
	// Renew is how often an agent renews.
	Renew time.Duration
	// Suspect and Unreachable are how long a silence makes a member so.
	Suspect, Unreachable time.Duration
	// Heartbeat is how often the hub renews the Lease object of a member that
	// is alive.
	Heartbeat time.Duration
	// Lease is how long a renewal lets fenced sessions run.
	Lease time.Duration
}

// DefaultTimings are those of DESIGN section 5, times a factor. The factor is
// for demonstrations and tests; 1 is for production.
func DefaultTimings(factor float64) Timings {
	scale := func(d time.Duration) time.Duration { return time.Duration(float64(d) * factor) }
	return Timings{
		Renew:       scale(5 * time.Second),
		Suspect:     scale(15 * time.Second),
		Unreachable: scale(40 * time.Second),
		Heartbeat:   scale(30 * time.Second),
		Lease:       scale(180 * time.Second),
	}
}

// signs are what liveness is judged by: the hub's own receive clock alone.
type signs struct {
	// ever: the member has said hello once, to this or an earlier leader.
	ever bool
	// heard is the last renewal, or when this hub began to lead.
	heard time.Time
	// heardHere: heard is a renewal.
	heardHere bool
}

// judge says how alive a member is at a time, and after how long that may
// change by silence alone (0: it will not).
func judge(t Timings, s signs, now time.Time) (Health, time.Duration) {
	if !s.ever {
		return HealthNeverConnected, 0
	}
	silence := now.Sub(s.heard)
	switch {
	case silence >= t.Unreachable:
		return HealthUnreachable, 0
	case !s.heardHere:
		return HealthUnknown, t.Unreachable - silence
	case silence >= t.Suspect:
		return HealthSuspect, t.Unreachable - silence
	default:
		return HealthReady, t.Suspect - silence
	}
}
