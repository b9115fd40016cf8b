package member

import "time"

// Health is how alive a member is.
type Health string

// The states of health.
const (
	// HealthUnknown: this hub has not heard of the member, and has not led, or not
	// been awake, for long enough to hold that against it.
	HealthUnknown Health = "Unknown"
	// HealthNeverConnected: no agent of the member has ever said hello.
	HealthNeverConnected Health = "NeverConnected"
	// HealthReady: its agent renews, and has done so for a while if it has been
	// in trouble. A stream that broke a moment ago does not count against it;
	// placement asks for an open one besides.
	HealthReady Health = "Ready"
	// HealthSuspect: silent for a while, or not yet stable again after trouble, or
	// cut off from its own API server; takes no new sessions.
	HealthSuspect Health = "Suspect"
	// HealthUnreachable: silent for long, or revoked.
	HealthUnreachable Health = "Unreachable"
)

// healths are all of them.
var healths = []Health{HealthUnknown, HealthNeverConnected, HealthReady, HealthSuspect, HealthUnreachable}

// cause is why a member is Suspect or Unreachable.
type cause string

const (
	// causeSilence: nothing was heard of its agent.
	causeSilence cause = "Silence"
	// causeStalled: its connection was ended since it did not keep up, and it
	// has opened no other.
	causeStalled cause = "Stalled"
	// causeRecovering: it is heard again, and not for long enough yet.
	causeRecovering cause = "Recovering"
	// causeQuarantined: it fell from Ready too often.
	causeQuarantined cause = "Quarantined"
	// causeUncertain: its agent can't renew its lock in the member's API server, and
	// writes nothing there.
	causeUncertain cause = "Uncertain"
	// causeRevoked: an operator took its access away.
	causeRevoked cause = "Revoked"
	// causeFenced: an operator has declared that nothing runs there any more.
	causeFenced cause = "Fenced"
)

// signs are what liveness is judged by: the hub's own receive clock alone, of
// which only differences count, so that a wall clock that jumps changes
// nothing.
type signs struct {
	// ever: the member has said hello once, to this or an earlier leader.
	ever bool
	// heard is the last sign of life, or when this hub began to lead.
	heard time.Time
	// heardHere: heard is a sign of life. Before the first there is nothing that
	// this hub could have seen go wrong.
	heardHere bool

	// slept: the hub did not run for a while since it last heard of the member,
	// which was well. woke is when the hub last ran again.
	slept bool
	woke  time.Time
	// lostFrom is when its being lost begins to count at the earliest, though it has
	// been silent for longer: see Fleet.outageEnds.
	lostFrom time.Time

	// troubled: this hub saw it fall from Ready, and not stable since.
	troubled bool
	// stalled: it fell because it did not keep up, and has opened no other
	// connection.
	stalled bool
	// since is when it was heard again, zero: not yet; renewals are how often
	// it has renewed since.
	since    time.Time
	renewals int
	// flips are its last falls from Ready, newest first; fallen counts all.
	flips  [quarantineFlips]time.Time
	fallen int
	// quarantined is until when it takes no sessions.
	quarantined time.Time
}

// opened notes that an agent opened a connection.
func (s *signs) opened(t Timings, now time.Time) {
	s.heed(t, now)
	s.stalled = false
	s.hear(now)
}

// renewed notes a renewal.
func (s *signs) renewed(t Timings, now time.Time) {
	s.heed(t, now)
	s.hear(now)
	if s.troubled && !s.stalled {
		s.renewals++
	}
}

func (s *signs) hear(now time.Time) {
	if s.troubled && !s.stalled && s.since.IsZero() {
		s.since = now
	}
	s.heard, s.heardHere, s.ever, s.slept = now, true, true, false
}

// stall notes that a connection was ended since the agent did not keep up. Right
// after the hub slept it may have been the hub that did not.
func (s *signs) stall(t Timings, now time.Time) {
	s.heed(t, now)
	if !s.woke.IsZero() && now.Sub(s.woke) < t.Suspect {
		return
	}
	s.fall(t, now)
	s.stalled = true
}

// sleep notes that the hub itself did not run between two times. Of a member that
// was well it is as after a new leader's start: nothing is held against it until it
// was heard again. For any other the time did not pass, so that a hub that sleeps
// often finds out all the same who is gone.
func (s *signs) sleep(t Timings, from, to time.Time) {
	s.heed(t, from)
	asleep := to.Sub(from)
	s.lostFrom = s.lostFrom.Add(asleep)
	switch {
	case s.slept:
		s.woke = s.woke.Add(asleep)
	case !s.heardHere, from.Sub(s.heard) >= t.Suspect:
		s.heard = s.heard.Add(asleep)
	default:
		s.slept, s.woke = true, to
		if !s.since.IsZero() {
			s.since = s.since.Add(asleep)
		}
	}
}

// heed notes what time has made of the member since it was last looked at: it
// may have become stable, and after that fallen silent.
func (s *signs) heed(t Timings, now time.Time) {
	silentAt := s.heard.Add(t.Suspect)
	silent := s.heardHere && now.Sub(s.heard) >= t.Suspect
	until := now
	if silent {
		until = silentAt
	}
	if s.troubled && s.renewals >= recoverRenewals && until.Sub(s.since) >= t.Stable {
		s.troubled = false
	}
	if silent && !s.slept {
		s.fall(t, silentAt)
	}
}

// fall notes the end of being Ready, or of a recovery.
func (s *signs) fall(t Timings, at time.Time) {
	if !s.troubled && !s.quarantined.After(at) {
		copy(s.flips[1:], s.flips[:])
		s.flips[0] = at
		s.fallen++
		if first := s.flips[quarantineFlips-1]; !first.IsZero() && at.Sub(first) < t.FlipWindow {
			s.quarantined = at.Add(t.Quarantine)
		}
	}
	s.troubled, s.since, s.renewals = true, time.Time{}, 0
}

// silent is whether nothing was heard of the member for a while, as far as this
// hub can tell.
func (s *signs) silent(t Timings, now time.Time) bool {
	return !s.heardHere || s.slept || now.Sub(s.heard) >= t.Suspect
}

// unreachableAt is since when a member is Unreachable that judge says is.
func (s *signs) unreachableAt(t Timings) time.Time {
	return s.lastSign().Add(t.Unreachable)
}

// lossAt is since when that counts for its sessions.
func (s *signs) lossAt(t Timings) time.Time {
	if at := s.unreachableAt(t); at.After(s.lostFrom) {
		return at
	}
	return s.lostFrom
}

// lastSign is the last time at which the member was well as far as this hub can tell.
func (s *signs) lastSign() time.Time {
	if s.slept {
		return s.woke
	}
	return s.heard
}

// verdict is how alive a member is, why, and after how long that may change by
// time alone (0: it will not).
type verdict struct {
	health  Health
	cause   cause
	recheck time.Duration
}

// judge says how alive a member is at a time.
func judge(t Timings, s signs, now time.Time) verdict {
	s.heed(t, now)
	silence := now.Sub(s.heard)
	awaited := silence
	if s.slept {
		awaited = now.Sub(s.woke)
	}
	next := t.Suspect - silence
	switch {
	case !s.ever:
		return verdict{health: HealthNeverConnected}
	case awaited >= t.Unreachable:
		return verdict{health: HealthUnreachable, cause: causeSilence}
	case !s.heardHere, s.slept && silence >= t.Suspect:
		return verdict{health: HealthUnknown, recheck: t.Unreachable - awaited}
	case silence >= t.Suspect:
		return verdict{HealthSuspect, causeSilence, t.Unreachable - silence}
	case s.stalled:
		return verdict{HealthSuspect, causeStalled, next}
	case s.quarantined.After(now):
		return verdict{HealthSuspect, causeQuarantined, soonest(next, s.quarantined.Sub(now))}
	case s.troubled:
		return verdict{HealthSuspect, causeRecovering, soonest(next, t.Stable-now.Sub(s.since))}
	default:
		return verdict{health: HealthReady, recheck: next}
	}
}
