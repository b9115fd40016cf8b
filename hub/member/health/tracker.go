package health

import "time"

// State is the health of a member.
type State string

// The states of health.
const (
	// Unknown: this hub has received no heartbeat of the member, and has not led, or
	// not run, for long enough to count that against it.
	Unknown State = "Unknown"
	// NeverConnected: no agent of the member has ever connected.
	NeverConnected State = "NeverConnected"
	// Ready: its agent renews, and has done so for a while if it has been in trouble.
	// A stream that broke a moment ago does not count against it; placement asks for
	// an open one besides.
	Ready State = "Ready"
	// Suspect: silent for a while, or not yet stable again after trouble, or cut off
	// from its own API server; takes no new sessions.
	Suspect State = "Suspect"
	// Unreachable: silent for long, or revoked.
	Unreachable State = "Unreachable"
)

// States returns all of them.
func States() []State { return []State{Unknown, NeverConnected, Ready, Suspect, Unreachable} }

// Cause is the reason for which a member is Suspect or Unreachable.
type Cause string

// The causes.
const (
	// Silence: no heartbeat of its agent.
	Silence Cause = "Silence"
	// Stalled: its connection was ended since it did not keep up, and it has opened
	// no other.
	Stalled Cause = "Stalled"
	// Recovering: its heartbeats are back, and not for long enough yet.
	Recovering Cause = "Recovering"
	// Quarantined: it fell from Ready too often.
	Quarantined Cause = "Quarantined"
	// Uncertain: its agent can't renew its lock in the member's API server, and
	// writes nothing there.
	Uncertain Cause = "Uncertain"
	// Revoked: an operator took its access away.
	Revoked Cause = "Revoked"
	// Fenced: an operator has declared that nothing runs there any more.
	Fenced Cause = "Fenced"
)

// Tracker is the record of one member's heartbeats.
type Tracker struct {
	// ever: the member has connected once, to this or an earlier leader.
	ever bool
	// last is the last heartbeat, or when this hub began to lead.
	last time.Time
	// received: last is a heartbeat. Before the first there is nothing that this hub
	// could have seen go wrong.
	received bool

	// paused: the hub did not run for a while since the last heartbeat of the member,
	// which was well. resumed is when the hub last ran again.
	paused  bool
	resumed time.Time
	// lostFrom is when its loss begins to count at the earliest, though it has been
	// silent for longer: see DelayLoss.
	lostFrom time.Time

	// troubled: this hub saw it fall from Ready, and not stable since.
	troubled bool
	// stalled: it fell because it did not keep up, and has opened no other
	// connection.
	stalled bool
	// since is when its heartbeats came back, zero: not yet; renewals are how often
	// it has renewed since.
	since    time.Time
	renewals int
	// flips are its last falls from Ready, newest first; falls counts all.
	flips [quarantineFlips]time.Time
	falls int
	// quarantined is until when it takes no sessions.
	quarantined time.Time
}

// NewTracker returns the record of a member that has connected before, or not, to a
// hub that began to lead at a time.
func NewTracker(ever bool, began time.Time) Tracker { return Tracker{ever: ever, last: began} }

// Reset forgets the heartbeats, for a member that must connect again: nothing counts
// against it, and nothing in its favor.
func (s *Tracker) Reset() { *s = Tracker{ever: s.ever, falls: s.falls} }

// EverConnected reports whether an agent of the member has ever connected.
func (s *Tracker) EverConnected() bool { return s.ever }

// Falls returns how often this hub saw the member fall from Ready.
func (s *Tracker) Falls() int { return s.falls }

// LastHeartbeat returns the last heartbeat that this hub received; zero: none.
func (s *Tracker) LastHeartbeat() time.Time {
	if !s.received {
		return time.Time{}
	}
	return s.last
}

// Silence returns for how long the member has been silent: since its last
// heartbeat, or since this hub began to lead.
func (s *Tracker) Silence(now time.Time) time.Duration { return now.Sub(s.last) }

// DelayLoss has the loss of the member count from a time on at the earliest.
func (s *Tracker) DelayLoss(until time.Time) { s.lostFrom = until }

// ConfirmedAt returns when a declaration that nothing runs in the member begins to
// count that is read at a time: at once if this hub has received heartbeats of it,
// and else not before the member is Unreachable.
func (s *Tracker) ConfirmedAt(t Timings, now time.Time) time.Time {
	if s.received && !s.paused {
		return now
	}
	if at := s.unreachableAt(t); at.After(now) {
		return at
	}
	return now
}

// Connected notes that an agent opened a connection.
func (s *Tracker) Connected(t Timings, now time.Time) {
	s.Update(t, now)
	s.stalled = false
	s.heartbeat(now)
}

// Renewed notes a renewal.
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

// Stalled notes that a connection was ended since the agent did not keep up. Right
// after the hub paused it may have been the hub that did not.
func (s *Tracker) Stalled(t Timings, now time.Time) {
	s.Update(t, now)
	if !s.resumed.IsZero() && now.Sub(s.resumed) < t.Suspect {
		return
	}
	s.fall(t, now)
	s.stalled = true
}

// Paused notes that the hub itself did not run between two times. Of a member that
// was well it is as after a new leader's start: nothing counts against it until its next
// heartbeat. For any other the time did not pass, so that a hub that pauses often
// finds out all the same who is gone.
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

// Update notes what time has changed since the last update: the member may have
// become stable, and after that fallen silent.
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
		s.fall(t, silentAt)
	}
}

// fall notes the end of being Ready, or of a recovery.
func (s *Tracker) fall(t Timings, at time.Time) {
	if !s.troubled && !s.quarantined.After(at) {
		copy(s.flips[1:], s.flips[:])
		s.flips[0] = at
		s.falls++
		if first := s.flips[quarantineFlips-1]; !first.IsZero() && at.Sub(first) < t.FlipWindow {
			s.quarantined = at.Add(t.Quarantine)
		}
	}
	s.troubled, s.since, s.renewals = true, time.Time{}, 0
}

// Silent reports whether the member has sent no heartbeat for a while, as far as
// this hub can tell.
func (s *Tracker) Silent(t Timings, now time.Time) bool {
	return !s.received || s.paused || now.Sub(s.last) >= t.Suspect
}

// unreachableAt returns since when a member is Unreachable that Assess says is.
func (s *Tracker) unreachableAt(t Timings) time.Time {
	return s.LastWell().Add(t.Unreachable)
}

// LossAt returns since when an Unreachable member counts as lost for its sessions.
func (s *Tracker) LossAt(t Timings) time.Time {
	if at := s.unreachableAt(t); at.After(s.lostFrom) {
		return at
	}
	return s.lostFrom
}

// LastWell returns the last time at which the member was well as far as this hub can
// tell.
func (s *Tracker) LastWell() time.Time {
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
	// Recheck is after how long that may change by time alone; 0: it will not.
	Recheck time.Duration
}

// Overrides are what is known of a member besides its heartbeats.
type Overrides struct {
	// Revoked: an operator took its access away. Fenced: one declared that nothing
	// runs there.
	Revoked, Fenced bool
	// Uncertain: its agent reports that it may not lead any more.
	Uncertain bool
}

// Assess returns the health of the member at a time.
func (s Tracker) Assess(t Timings, o Overrides, now time.Time) Verdict {
	switch {
	case o.Revoked:
		return Verdict{State: Unreachable, Cause: Revoked}
	case o.Fenced:
		return Verdict{State: Unreachable, Cause: Fenced}
	}
	v := s.assess(t, now)
	if v.State == Ready && o.Uncertain {
		// What it is sent it can't store.
		v.State, v.Cause = Suspect, Uncertain
	}
	return v
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

// Soonest returns the least of the waits that are more than nothing; 0: there is none.
func Soonest(waits ...time.Duration) (least time.Duration) {
	for _, w := range waits {
		if w > 0 && (least == 0 || w < least) {
			least = w
		}
	}
	return least
}
