package session

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/member"
	"github.com/vdi-fleet/vdi-fleet/hub/placement"
)

// Fleet is the part of the members' registry that the session controller uses.
type Fleet interface {
	Members
	Recovery
}

// Members are the members of the fleet.
type Members interface {
	// RefOf returns the name and UID of the member that currently has a name.
	RefOf(name string) (v1alpha1.ClusterRef, bool)
	// State returns the state of a member.
	State(member types.UID) member.State
	// Gone reports whether a member was removed from the fleet permanently.
	Gone(member types.UID) bool
	// Listen calls the listener on every change of a member.
	Listen(listener func(member.Change))
	// Evaluating reports whether some members have not reported yet whether they can run
	// a template.
	Evaluating(template placement.TemplateKey) bool
	// ReportedAt returns when a member's last capacity report arrived.
	ReportedAt(member types.UID) time.Time
	// ShowDrain records the progress of a member's drain.
	ShowDrain(member types.UID, counts v1alpha1.DrainStatus)
}

// Reservations are the reservations of capacity.
type Reservations interface {
	// Reserve reserves capacity for a run of a session that is already placed in a member.
	Reserve(s *v1alpha1.VDISession, epoch, run int64, member types.UID)
	// Release releases what was reserved last, unless it was written.
	Release(session types.UID)
	// Observe counts a session for its members.
	Observe(s *v1alpha1.VDISession, gone bool)
	// Ended releases the reservation for an epoch that a member's own reports count.
	Ended(session types.UID, epoch int64, member types.UID)
}

// Recovery is the recovery of a hub that was restored from a backup.
type Recovery interface {
	// Recovering reports whether the hub waits for its members' reports.
	Recovering() bool
	// Claims returns a member that proves a later epoch of a session than the given one.
	Claims(assignment types.NamespacedName, session types.UID, epoch int64) (member string, yes bool)
	// Unreported returns the members that have not reported to this leader and may run
	// something.
	Unreported() []string
}
