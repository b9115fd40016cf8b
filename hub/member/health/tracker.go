package health

import (
	"time"

	"github.com/vdi-fleet/vdi-fleet/hub/failover"
)

// State is the health of a member.
type State string

// The states of health.
const (
	// Unknown means that this hub has received no heartbeat of the member, and has not led,
	// or not run, for long enough to count that against it.
	Unknown State = "Unknown"
	// NeverConnected means that no agent of the member has ever connected.
	NeverConnected State = "NeverConnected"
	// Ready means that its agent renews, and has done so for a while after any failure. A
	// recently broken stream does not count against it; placement requires an open one as
	// well.
	Ready State = "Ready"
	// Suspect means that it sends no heartbeats, is not yet stable again after a failure, or
	// is cut off from its own API server. It accepts no new sessions.
	Suspect State = "Suspect"
	// Unreachable means that it has sent no heartbeats for long, is revoked or is fenced.
	Unreachable State = "Unreachable"
)

// States returns all states.
func States() []State { return []State{Unknown, NeverConnected, Ready, Suspect, Unreachable} }

// Cause is the reason why a member is Suspect or Unreachable.
type Cause string

// The causes.
const (
	// Silence means no heartbeat of its agent.
	Silence Cause = "Silence"
	// Stalled means that its connection was ended because it did not keep up, and that it
	// has opened no other.
	Stalled Cause = "Stalled"
	// Recovering means that its heartbeats have returned, but not for long enough yet.
	Recovering Cause = "Recovering"
	// Quarantined means that it lost Ready too often.
	Quarantined Cause = "Quarantined"
	// Uncertain means that its agent can't renew its lock in the member's API server, and
	// writes nothing there.
	Uncertain Cause = "Uncertain"
	// Revoked means that an operator revoked its access.
	Revoked Cause = "Revoked"
	// Fenced means that an operator has declared that nothing runs there any more.
	Fenced Cause = "Fenced"
)

// Tracker is the record of one member's heartbeats.
type Tracker struct {
	// ever is set once the member has connected, to this or an earlier leader.
	ever bool
	// last is the last heartbeat, or when this hub began to lead.
	last time.Time
	// received is set if last is a heartbeat. Before the first, this hub could not have
	// observed any failure.
	received bool

	// paused is set if the hub did not run for a while since the last heartbeat of the
	// member, which was healthy. resumed is when the hub last ran again.
	paused bool
	// troubled is set if it lost Ready while this hub led, and is not stable again.
	troubled bool
	// stalled is set if it did not keep up, and has opened no other connection.
	stalled bool
	// quarantined is until when it accepts no sessions.
	quarantined time.Time
	resumed     time.Time
	// lostFrom is the earliest time from which its loss counts, even if its heartbeats
	// have been missing for longer: see DelayLoss.
	lostFrom time.Time

	// since is when its heartbeats returned, or zero before that; renewals counts its
	// renewals since then.
	since    time.Time
	renewals int
	// flips are its last losses of Ready, newest first; losses counts all.
	flips  [quarantineFlips]time.Time
	losses int
}

// NewTracker returns the record of a member that has, or has not, connected before, for a
// hub that began to lead at a time.
func NewTracker(ever bool, began time.Time) Tracker { return Tracker{ever: ever, last: began} }

// Reset drops the record of heartbeats, for a member that must connect again.
func (s *Tracker) Reset() { *s = Tracker{ever: s.ever, losses: s.losses} }

// EverConnected reports whether an agent of the member has ever connected.
func (s *Tracker) EverConnected() bool { return s.ever }

// LossesOfReady returns how often the member lost Ready while this hub led.
func (s *Tracker) LossesOfReady() int { return s.losses }

// Silence returns the time since the member's last heartbeat, or since this hub began to lead.
func (s *Tracker) Silence(now time.Time) time.Duration { return now.Sub(s.last) }

// DelayLoss sets the earliest time from which the loss of the member counts.
func (s *Tracker) DelayLoss(until time.Time) { s.lostFrom = until }

// ConfirmedAt returns when a declaration that nothing runs in the member, read now, begins
// to count: at once if this hub has received heartbeats of it, otherwise not before the
// member is Unreachable.
func (s *Tracker) ConfirmedAt(t Timings, now time.Time) time.Time {
	if s.received && !s.paused {
		return now
	}
	return failover.Later(s.unreachableAt(t), now)
}

// Connected records that an agent opened a connection.
func (s *Tracker) Connected(t Timings, now time.Time) {
	s.Update(t, now)
	s.stalled = false
	s.heartbeat(now)
}

// Renewed records a renewal.
func (s *Tracker) Renewed(t Timings, now time.Time) {
	s.Update(t, now)
	s.heartbeat(now)
	if s.troubled && !s.stalled {
		s.renewals++
	}
}

func (s *Tracker) heartbeat(now time.Time) {
	if s.troubled && !s.stalled && s.since.IsZero() {
		s.since = now
	}
	s.last, s.received, s.ever, s.paused = now, true, true, false
}

// Stalled records that a connection was ended because the agent did not keep up, unless the
// hub was paused right before: then it may have been the hub that did not.
func (s *Tracker) Stalled(t Timings, now time.Time) {
	s.Update(t, now)
	if !s.resumed.IsZero() && now.Sub(s.resumed) < t.Suspect {
		return
	}
	s.loseReady(t, now)
	s.stalled = true
}

// Paused records that the hub itself did not run between two times. A healthy member is
// treated as after a new leader's start: nothing counts against it until its next
// heartbeat. For other members the pause does not count, so that a hub that pauses often
// still detects the lost ones.
func (s *Tracker) Paused(t Timings, from, to time.Time) {
	s.Update(t, from)
	pause := to.Sub(from)
	s.lostFrom = s.lostFrom.Add(pause)
	switch {
	case s.paused:
		s.resumed = s.resumed.Add(pause)
	case !s.received, from.Sub(s.last) >= t.Suspect:
		s.last = s.last.Add(pause)
	default:
		s.paused, s.resumed = true, to
		if !s.since.IsZero() {
			s.since = s.since.Add(pause)
		}
	}
}

// Update applies the time since the last update: the member may have become stable, and
// may have stopped its heartbeats after that.
func (s *Tracker) Update(t Timings, now time.Time) {
	silentAt := s.last.Add(t.Suspect)
	silent := s.received && now.Sub(s.last) >= t.Suspect
	until := now
	if silent {
		until = silentAt
	}
	if s.troubled && s.renewals >= recoverRenewals && until.Sub(s.since) >= t.Stable {
		s.troubled = false
	}
	if silent && !s.paused {
		s.loseReady(t, silentAt)
	}
}

// loseReady records the end of Ready, or of a recovery.
func (s *Tracker) loseReady(t Timings, at time.Time) {
	if !s.troubled && !s.quarantined.After(at) {
		copy(s.flips[1:], s.flips[:])
		s.flips[0] = at
		s.losses++
		if first := s.flips[quarantineFlips-1]; !first.IsZero() && at.Sub(first) < t.FlipWindow {
			s.quarantined = at.Add(t.Quarantine)
		}
	}
	s.troubled, s.since, s.renewals = true, time.Time{}, 0
}

// Silent reports whether the member has sent no heartbeat for a while, as far as this hub
// has observed.
func (s *Tracker) Silent(t Timings, now time.Time) bool {
	return !s.received || s.paused || now.Sub(s.last) >= t.Suspect
}

// unreachableAt returns since when a member is Unreachable, if Assess returns that state.
func (s *Tracker) unreachableAt(t Timings) time.Time {
	return s.LastHealthy().Add(t.Unreachable)
}

// LossAt returns since when an Unreachable member counts as lost for its sessions.
func (s *Tracker) LossAt(t Timings) time.Time {
	return failover.Later(s.unreachableAt(t), s.lostFrom)
}

// LastHealthy returns the last time at which the member was healthy as far as this hub has
// observed.
func (s *Tracker) LastHealthy() time.Time {
	if s.paused {
		return s.resumed
	}
	return s.last
}

// Verdict is the health of a member at a time.
type Verdict struct {
	State State
	// Cause of Suspect and Unreachable.
	Cause Cause
	// Recheck is the time until that may change by time alone, or 0 if it can't.
	Recheck time.Duration
}

// Same reports whether two verdicts have the same state and cause.
func (v Verdict) Same(other Verdict) bool { return v.State == other.State && v.Cause == other.Cause }

// Overrides are the facts about a member that override its heartbeats.
type Overrides struct {
	// Revoked is set if an operator revoked its access, Fenced if one declared that nothing
	// runs there.
	Revoked, Fenced bool
	// Uncertain is set if its agent reports that it may no longer lead.
	Uncertain bool
}

// Assess returns the health of the member at a time.
func (s *Tracker) Assess(t Timings, o Overrides, now time.Time) Verdict {
	switch {
	case o.Revoked:
		return Verdict{State: Unreachable, Cause: Revoked}
	case o.Fenced:
		return Verdict{State: Unreachable, Cause: Fenced}
	}
	v := Verdict{State: Ready, Recheck: t.Suspect - now.Sub(s.last)}
	if !s.untroubled(t.Suspect, now) {
		v = s.assess(t, now)
	}
	if v.State == Ready && o.Uncertain {
		// Its agent can't store orders.
		v.State, v.Cause = Suspect, Uncertain
	}
	return v
}

// untroubled reports whether nothing but time has to be considered for a member that is Ready:
// what assess would find, without a copy of the record, since each placement decision assesses
// every member.
func (s *Tracker) untroubled(suspect time.Duration, now time.Time) bool {
	return s.received && !s.paused && !s.troubled && !s.stalled && now.Sub(s.last) < suspect && !s.quarantined.After(now)
}

func (s Tracker) assess(t Timings, now time.Time) Verdict {
	s.Update(t, now)
	silence := now.Sub(s.last)
	awaited := silence
	if s.paused {
		awaited = now.Sub(s.resumed)
	}
	next := t.Suspect - silence
	switch {
	case !s.ever:
		return Verdict{State: NeverConnected}
	case awaited >= t.Unreachable:
		return Verdict{State: Unreachable, Cause: Silence}
	case !s.received, s.paused && silence >= t.Suspect:
		return Verdict{State: Unknown, Recheck: t.Unreachable - awaited}
	case silence >= t.Suspect:
		return Verdict{Suspect, Silence, t.Unreachable - silence}
	case s.stalled:
		return Verdict{Suspect, Stalled, next}
	case s.quarantined.After(now):
		return Verdict{Suspect, Quarantined, Soonest(next, s.quarantined.Sub(now))}
	case s.troubled:
		return Verdict{Suspect, Recovering, Soonest(next, t.Stable-now.Sub(s.since))}
	default:
		return Verdict{State: Ready, Recheck: next}
	}
}

// Soonest returns the shortest of the waits above zero, or 0.
func Soonest(waits ...time.Duration) (least time.Duration) {
	for _, w := range waits {
		if w > 0 && (least == 0 || w < least) {
			least = w
		}
	}
	return least
}
