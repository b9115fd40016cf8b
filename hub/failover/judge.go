package failover

import (
	"fmt"
	"time"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// Session is what matters of a session whose member may be lost.
type Session struct {
	// Mode that holds for its placement; empty is Hold.
	Mode v1alpha1.FailoverMode
	// After is the session's own wait, if it has one.
	After *time.Duration
	// Guarded: beside the desktop a guard runs that stops it when the lease is over.
	Guarded bool
}

// Member is what is known of the session's member. Instants are of the hub's
// clock.
type Member struct {
	Name string
	// Unreachable: it was silent for so long that it counts as lost, or its access
	// was taken away.
	Unreachable bool
	// LostAt is when it became so.
	LostAt time.Time
	// HeardAt is when it sent its last heartbeat; zero: nobody knows.
	HeardAt time.Time
	// GrantedAt is the last time at which any leader may have granted it a renewal.
	GrantedAt time.Time
	// Fenced: an operator's word that nothing runs there any more holds.
	Fenced bool
	// Removed: it is no member any more.
	Removed bool
}

// Fleet is what is known of the fleet.
type Fleet struct {
	// Now is the time.
	Now time.Time
	// LedSince is since when this hub has led without having slept for long.
	LedSince time.Time
	// CutOff: no member outside the hub's own cluster sends heartbeats.
	CutOff bool
}

// Verdict on a session.
type Verdict struct {
	// Due: it may be rescheduled.
	Due bool
	// Wait is after what time to look again, whether it is due or not. Without one
	// nothing changes by time alone.
	Wait time.Duration
	// Reason for which its member is lost, MemberUnreachable or MemberFenced;
	// empty: it is not.
	Reason string
	// Message is a sentence: what is waited for, and what would help. It does not
	// change by the second.
	Message string
}

// Lost is whether the session's member is lost.
func (v Verdict) Lost() bool { return v.Reason != "" }

// Judge says whether a session may be rescheduled.
func Judge(t Timings, s Session, m Member, f Fleet) Verdict {
	switch {
	case m.Removed:
		return Verdict{Due: true, Reason: v1alpha1.ReasonMemberFenced, Message: m.name() + " was removed from the fleet for good"}
	case m.Fenced:
		return Verdict{Due: true, Reason: v1alpha1.ReasonMemberFenced, Message: m.name() + " was declared fenced"}
	case !m.Unreachable:
		return Verdict{}
	}
	v := Verdict{Reason: v1alpha1.ReasonMemberUnreachable}
	switch {
	case s.Mode != v1alpha1.FailoverRestart && s.Mode != v1alpha1.FailoverFence:
		v.Message = m.missing() + ": with mode Hold the session stays there until it sends heartbeats again, " + m.orFence()
		return v
	case s.Mode == v1alpha1.FailoverFence && !s.Guarded:
		v.Message = m.missing() + ": no guard beside the desktop is known to stop it, so the session is held there as with mode Hold, until it sends heartbeats again, " + m.orFence()
		return v
	case f.CutOff && !f.Now.Before(f.LedSince.Add(t.Regain)):
		v.Message = m.missing() + ", and no other outside the hub's own cluster is: it may be the hub that is cut off, so that nothing is moved. " +
			"Look at the hub's network; " + m.orFence()
		return v
	}
	at := dueAt(t, s, m, f)
	if !f.Now.Before(at) {
		v.Due, v.Message = true, m.missing()
		return v
	}
	v.Wait = at.Sub(f.Now)
	v.Message = fmt.Sprintf("%s: unless it reconnects, the session is rescheduled at %s%s", m.missing(), moment(at), because(t, s, m, f, at))
	return v
}

// dueAt is when a session is rescheduled by time alone.
func dueAt(t Timings, s Session, m Member, f Fleet) time.Time {
	at := f.LedSince.Add(t.Regain)
	if s.Mode == v1alpha1.FailoverFence {
		return later(at, m.GrantedAt.Add(t.Regain))
	}
	return later(at, m.LostAt.Add(t.after(s)))
}

// because says why it is then and not earlier, where the session does not.
func because(t Timings, s Session, m Member, f Fleet, at time.Time) string {
	switch {
	case s.Mode == v1alpha1.FailoverFence && at.Equal(m.GrantedAt.Add(t.Regain)):
		return ", when its lease there is over for certain"
	case at.Equal(m.LostAt.Add(t.after(s))):
		return ""
	}
	return fmt.Sprintf(": the hub has led, or run without a pause, only since %s, and gives members time to come back", moment(f.LedSince))
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
	if m.HeardAt.IsZero() {
		return m.name() + " sends no heartbeat"
	}
	return m.name() + " has sent no heartbeat since " + moment(m.HeardAt)
}

func (m Member) orFence() string {
	return "or, once you have made sure that nothing runs there, until `kubectl vdi fence " + m.Name + "`"
}

func moment(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
