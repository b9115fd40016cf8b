package lifecycle

import (
	"time"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/placement"
	"github.com/vdi-fleet/vdi-fleet/hub/scheduling"
	"github.com/vdi-fleet/vdi-fleet/hub/session/drain"
)

// Plan is the next status of a session and the actions that go with it, in the order of
// its fields.
type Plan struct {
	// Err prevents a decision. The other fields apply only if it is nil.
	Err error
	// Request is the session's request for capacity, or nil. Until it is answered, the
	// other fields apply.
	Request *Request
	// Hold is set if nothing is to be written yet.
	Hold bool
	// Waits is the reason other than capacity for which the session waits, or empty.
	Waits string
	// Again is how long until the next plan is computed at the latest; zero means on
	// the next event.
	Again time.Duration
	// Release is set if capacity that is reserved for the session is released.
	Release bool
	// Found is set if the session's member is not lost, Lost if it is and the session is to run.
	Found, Lost bool
	// FreeHome is set if the session's PerUser home is released.
	FreeHome bool
	// Drain is the session's part in the drain of its member; nil if it does not change.
	// LeavesDrain is set if it is no longer there and needs no budget.
	Drain       *drain.Session
	LeavesDrain bool
	// EndMove is set if the request to move the session is completed. NotMoved is the reason
	// for the event if it is not moved, or empty.
	EndMove  bool
	NotMoved string
	// Write is what is written; it applies unless Hold is set.
	Write
	// End is set if the session's finalizer is removed, Forced if an operator forces that.
	End, Forced bool
	// Stopped is set if a member has confirmed that the session has stopped.
	Stopped bool
}

// Request is a request to the scheduler, with its preconditions.
type Request struct {
	scheduling.Request
	// Evaluate is set if the request waits until the members have evaluated the template,
	// which takes them a moment when it is new.
	Evaluate bool
	// Evict is set if the request waits until the budget of a drain allows it.
	Evict *drain.Session
}

// Write is the write of a session's status, with what precedes and follows it.
type Write struct {
	// Session with its next status, which is written if it differs.
	Session *v1alpha1.VDISession
	// Settle is how long the write may wait for further changes; zero if it may not wait.
	Settle time.Duration
	// Revision is the current template's, which is stored before the write; empty if
	// the session runs a stored one.
	Revision string
	// Home is the record of the session's PerUser home, which is stored before the
	// write; nil if it does not change.
	Home *v1alpha1.VDIHome
	// Placed is the placement that the scheduler decided on, or nil; Decision is the
	// decision.
	Placed   *v1alpha1.Placement
	Decision placement.Decision
	// Mirrored is set if the status shows a new report of the session's member.
	Mirrored bool
	// Epoch that the write assigns; 0 if none.
	Epoch int64
	// Reserve is set if capacity is reserved for a run that the scheduler did not decide on,
	// Counted if the member's own reports count it.
	Reserve, Counted bool
	// Moved is why the session is moved out of a member that remains in the fleet and has not
	// stopped it, as in the metric; empty if it is not.
	Moved string
	// Refused is the report by which the session's member has refused it, or nil.
	Refused *v1alpha1.SessionAssignment
	// LostSince is when the member sent its last heartbeat out of which the session fails
	// over; zero if it does not.
	LostSince time.Time
	// Result of the pass, for the metric of placements; empty if none.
	Result string
	// Events to record, and Lines to log.
	Events []Event
	Lines  []Line
}

// Reasons of moves from a healthy member, as label values of the metric. The others are
// reasons of conditions.
const (
	MovedByDrain     = "Drain"
	MovedByRebalance = "Rebalance"
)

// Event is recorded on the session once the status that it reports is written. Events report
// transitions only.
type Event struct {
	// Type is Normal or Warning.
	Type, Reason, Action, Message string
}

// Line is logged once the status that it reports is written.
type Line struct {
	Message string
	Values  []any
}

// Results of placement decisions, as label values of the metric.
const (
	ResultPlaced        = "placed"
	ResultResumed       = "resumed"
	ResultFailedOver    = "failedOver"
	ResultUnschedulable = "unschedulable"
	ResultRefused       = "refused"
)
