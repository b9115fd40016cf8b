package failover

import (
	"fmt"
	"time"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// Session is the state of a session that failover depends on.
type Session struct {
	// Mode of failover of its placement. Empty means Hold.
	Mode v1alpha1.FailoverMode
	// After is the session's own wait. If nil, it is Timings.After.
	After *time.Duration
	// Guarded is set if a guard beside the desktop stops it after its lease.
	Guarded bool
}

// Member is the state of the session's member. Times are of the hub's clock.
type Member struct {
	Name string
	// Unreachable is set if it has sent no heartbeat for so long that it counts as lost,
	// or its access was revoked.
	Unreachable bool
	// LostAt is when it became Unreachable.
	LostAt time.Time
	// LastHeartbeat is when it sent its last heartbeat, or zero if that is unknown.
	LastHeartbeat time.Time
	// GrantedAt is the last time at which any leader may have granted it a renewal.
	GrantedAt time.Time
	// Fenced is set while an operator's declaration that nothing runs there is in effect.
	Fenced bool
	// Removed is set if it is no longer a member, and Unknown if that is not certain yet.
	Removed, Unknown bool
}

// Fleet is the state of the fleet.
type Fleet struct {
	// Now is the time.
	Now time.Time
	// LedSince is when this hub began to lead, or the end of its last long pause since then.
	LedSince time.Time
	Degradation
}

// Degradation is the state of the members together, as far as failover depends on it.
type Degradation struct {
	// CutOff is set if no member outside the hub's own cluster sends heartbeats.
	CutOff bool
	// MassFailure is set if so many members are lost that sessions are rescheduled more slowly.
	MassFailure bool
}

// Verdict is the decision on a session.
type Verdict struct {
	// Due is set if it may be rescheduled.
	Due bool
	// Wait is the time until the next check, whether the session is due or not. It is 0 if
	// nothing changes by time alone.
	Wait time.Duration
	// Reason why its member is lost, MemberUnreachable or MemberFenced. Empty if it is not.
	Reason string
	// Message states what the session waits for, and the remedy. It does not change every
	// second.
	Message string
	// MassFailure is that of the fleet for an unreachable member, and false for an operator
	// override, which does not depend on how many members are lost.
	MassFailure bool
}

// Lost reports whether the session's member is lost.
func (v Verdict) Lost() bool { return v.Reason != "" }

// Decider decides whether the sessions of a member may be rescheduled.
type Decider interface {
	// Decide returns whether a session of the member may be rescheduled.
	Decide(s Session) Verdict
}

// Facts are what the failover of a member's sessions depends on.
type Facts struct {
	Timings Timings
	Member  Member
	Fleet   Fleet
}

// Decide returns whether a session of the member may be rescheduled.
func (facts Facts) Decide(s Session) Verdict {
	t, m, f := facts.Timings, facts.Member, facts.Fleet
	switch {
	case m.Unknown:
		return Verdict{
			Wait: f.LedSince.Add(t.Regain).Sub(f.Now), Reason: v1alpha1.ReasonMemberUnreachable,
			Message: "its member is not known to this hub, which has just begun to lead",
		}
	case m.Removed:
		return Verdict{Due: true, Reason: v1alpha1.ReasonMemberFenced, Message: m.name() + " was permanently removed from the fleet"}
	case m.Fenced:
		return Verdict{Due: true, Reason: v1alpha1.ReasonMemberFenced, Message: m.name() + " was declared fenced"}
	case !m.Unreachable:
		return Verdict{}
	}
	v := Verdict{Reason: v1alpha1.ReasonMemberUnreachable, MassFailure: f.MassFailure}
	switch {
	case s.Mode != v1alpha1.FailoverRestart && s.Mode != v1alpha1.FailoverFence:
		v.Message = m.missing() + ": with mode Hold the session stays there until it sends heartbeats again, " + m.fenceRemedy()
		return v
	case s.Mode == v1alpha1.FailoverFence && !s.Guarded:
		v.Message = m.missing() + ": no guard beside the desktop is known to stop it, so the session is held there as with mode Hold, until it sends heartbeats again, " + m.fenceRemedy()
		return v
	case f.CutOff && !f.Now.Before(f.LedSince.Add(t.Regain)):
		v.Message = m.missing() + ", and neither has any other member outside the hub's own cluster: the hub itself may be cut off, so no session is moved. " +
			"Check the hub's network; " + m.fenceRemedy()
		return v
	}
	at := dueAt(t, s, m, f)
	if !f.Now.Before(at) {
		v.Due, v.Message = true, m.missing()
		return v
	}
	v.Wait = at.Sub(f.Now)
	v.Message = fmt.Sprintf("%s: unless it reconnects, the session is rescheduled at %s%s", m.missing(), timestamp(at), because(t, s, m, f, at))
	return v
}

// dueAt returns when a session is rescheduled by time alone.
func dueAt(t Timings, s Session, m Member, f Fleet) time.Time {
	at := f.LedSince.Add(t.Regain)
	if s.Mode == v1alpha1.FailoverFence {
		return Later(at, m.GrantedAt.Add(t.Regain))
	}
	return Later(at, m.LostAt.Add(t.after(s)))
}

// because explains the time of the rescheduling, if the session's own wait does not.
func because(t Timings, s Session, m Member, f Fleet, at time.Time) string {
	switch {
	case s.Mode == v1alpha1.FailoverFence && at.Equal(m.GrantedAt.Add(t.Regain)):
		return ", when its lease there is over for certain"
	case at.Equal(m.LostAt.Add(t.after(s))):
		return ""
	}
	return fmt.Sprintf(": the hub has led, or run without a pause, only since %s, and gives members time to reconnect", timestamp(f.LedSince))
}

func (t Timings) after(s Session) time.Duration {
	if s.After != nil {
		return *s.After
	}
	return t.After
}

func (m Member) name() string {
	if m.Name == "" {
		return "its member"
	}
	return "member " + m.Name
}

func (m Member) missing() string {
	if m.LastHeartbeat.IsZero() {
		return m.name() + " sends no heartbeat"
	}
	return m.name() + " has sent no heartbeat since " + timestamp(m.LastHeartbeat)
}

func (m Member) fenceRemedy() string {
	return "or, once you have made sure that nothing runs there, until `kubectl vdi fence " + m.Name + "`"
}

func timestamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// Later returns the later of two times.
func Later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
