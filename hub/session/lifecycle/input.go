package lifecycle

import (
	"cmp"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/assignment"
	"github.com/vdi-fleet/vdi-fleet/hub/failover"
	"github.com/vdi-fleet/vdi-fleet/hub/member"
	"github.com/vdi-fleet/vdi-fleet/hub/policy"
	"github.com/vdi-fleet/vdi-fleet/hub/scheduling"
	"github.com/vdi-fleet/vdi-fleet/hub/session/memory"
)

// Input is all that Next depends on. Next changes nothing of it.
type Input struct {
	// Now is the hub's time.
	Now time.Time
	// Session as it was read.
	Session *v1alpha1.VDISession
	// Reports of the connected members on the session.
	Reports []*assignment.Report
	// Members that the session's status, home and reports name, by UID. The zero value is
	// that of a member that is unknown to the hub.
	Members map[types.UID]member.State
	// Template of the session.
	Template Template
	// Policies are all placement policies.
	Policies policy.Precedence
	// Home is the record of the session's PerUser home; nil if there is none.
	Home *v1alpha1.VDIHome
	// Order is the session's desired assignment, if the member's report has to be compared with
	// it; NoOrder is why there is none, a secret.NotAssignableError if it needs a remedy.
	Order   *assignment.Order
	NoOrder error
	// NotServed is why the hub does not serve the session's namespace; empty if it does.
	NotServed string
	// Known is this process's state of the session that is not stored.
	Known Known
	// Restore is the state of a hub that was restored from a backup.
	Restore Restore
	// Timings of sessions.
	Timings Timings
	// Console is the address of the console, without a path; empty if there is none.
	Console string
	// Answer to the request that Next made of the same Input; nil if there is none yet.
	Answer *scheduling.Answer
}

// Template is the state of a session's template.
type Template struct {
	// Current template; nil if there is none, or the session does not depend on it.
	Current  *v1alpha1.VDITemplate
	Revision string
	// Run is the spec of the revision that the session runs or last ran; nil if there
	// is none, or if it could not be read: Unread is the error.
	Run    *v1alpha1.TemplateSpec
	Unread error
}

// Known is the leading process's state of a session that is not stored. That of a new
// leader is empty.
type Known struct {
	memory.Known
	// NodeWait is how long the session's member still has to find a node for its Pod;
	// nil if the session does not wait for one.
	NodeWait *time.Duration
	// ForcedSince is since when an operator forces the session's cleanup; zero if none does.
	ForcedSince time.Time
}

// Restore is the state of a hub that was restored from a backup. The zero value is that
// of a hub that never was.
type Restore struct {
	// LastAssigned is the highest epoch that a hub of before the restore may have
	// assigned to the session; 0 if none.
	LastAssigned int64
	// Recovering is set while the hub waits for its members' reports.
	Recovering bool
	// Claim is a member that proves a later epoch than the hub has; empty if none does.
	Claim string
	// Unreported are the members that have not reported to this leader and may run
	// something.
	Unreported []string
}

// Defaults of Timings.
const (
	DefaultForceAfter = 10 * time.Second
	DefaultIdleAfter  = 5 * time.Minute
	DefaultMoveAfter  = 10 * time.Second
)

// Timings of sessions; zero values mean the defaults.
type Timings struct {
	// ForceAfter is how long a member has to confirm a forced withdrawal before the
	// session's finalizer is removed without confirmation.
	ForceAfter time.Duration
	// IdleAfter is how long a desktop is unused before its agent reports it as idle.
	IdleAfter time.Duration
	// MoveAfter is how long a member's kube-scheduler has to find a node for a session's
	// Pod before another member is tried.
	MoveAfter time.Duration
}

// OrDefaults returns the timings with the defaults in place of zero values.
func (t Timings) OrDefaults() Timings {
	return Timings{
		ForceAfter: cmp.Or(t.ForceAfter, DefaultForceAfter),
		IdleAfter:  cmp.Or(t.IdleAfter, DefaultIdleAfter),
		MoveAfter:  cmp.Or(t.MoveAfter, DefaultMoveAfter),
	}
}

// lossOf returns whether a session's member is lost, and whether the session may be
// rescheduled.
func (in *Input) lossOf(s failover.Session, from types.UID) failover.Verdict {
	return decideFailover(in.Members[from].Failover, s)
}

func decideFailover(member failover.Decider, s failover.Session) failover.Verdict {
	if member == nil {
		return failover.Verdict{}
	}
	return member.Decide(s)
}

// lost reports whether a member is lost.
func (in *Input) lost(member types.UID) bool {
	return in.lossOf(failover.Session{Mode: v1alpha1.FailoverHold}, member).Lost()
}

// gone reports whether a member was removed from the fleet permanently.
func (in *Input) gone(member types.UID) bool { return in.Members[member].Gone }

// fromBackup reports whether all of the hub's state of a session's placements is from
// before the last restore, so that members may have later placements.
func (in *Input) fromBackup(s *v1alpha1.VDISession) bool {
	return in.Restore.LastAssigned > 0 && s.Status.Epoch <= in.Restore.LastAssigned
}

// nextEpoch returns the epoch of a session's next placement.
func (in *Input) nextEpoch(s *v1alpha1.VDISession) int64 {
	return max(s.Status.Epoch, in.Restore.LastAssigned) + 1
}
