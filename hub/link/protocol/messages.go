package protocol

import (
	"errors"

	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// Reasons for which a connection ends.
var (
	// ErrViolation: the agent violated the protocol.
	ErrViolation = errors.New("protocol violation")
	// ErrStaleHub: the agent has seen a hub of a higher term than this one.
	ErrStaleHub = errors.New("the agent has seen a later hub")
	// ErrStalled: the agent has acknowledged or read nothing for too long.
	ErrStalled = errors.New("the agent does not keep up")
	// ErrExcess: the agent reports more than the hub keeps of one member.
	ErrExcess = errors.New("the agent reports too much")
	// ErrVersion: the two sides have no version of the link in common.
	ErrVersion = errors.New("no version of the link in common")
	// ErrCapability: one side requires a capability that the other does not have.
	ErrCapability = errors.New("a required capability is missing")
)

// Order is the hub's desired state of one session in a member: exactly one of its fields
// is set. It must not be changed after Put.
type Order struct {
	// Assign is to be stored in the member. If it has no annotation
	// v1alpha1.AnnotationSpecHash, the sender sets it.
	Assign *v1alpha1.SessionAssignment
	// Withdraw is to be stopped in the member: all epochs of the session up to one.
	Withdraw *fleetv1.Withdrawal
}

// SessionUID returns the UID of the order's session.
func (o Order) SessionUID() types.UID {
	switch {
	case o.Assign != nil:
		return o.Assign.Spec.Session.UID
	case o.Withdraw != nil:
		return types.UID(o.Withdraw.GetSessionUid())
	}
	return ""
}

// Code is the outcome of an order.
type Code string

// The codes.
const (
	// Stored: the member's API server has the assignment, or the withdrawal
	// (then SpecHash is empty).
	Stored Code = "Stored"
	// Stopped: the last Pod of every epoch up to Epoch is gone. It is also sent without
	// an order, when an assignment was deleted in the member.
	Stopped Code = "Stopped"
	// Refused: the assignment was not stored and will not be; nothing of its
	// epoch runs.
	Refused Code = "Refused"
)

// Result is the outcome of an order, or a Stopped without an order.
type Result struct {
	SessionUID types.UID
	// Namespace and Name of the assignment in the member.
	Namespace, Name string
	// Epoch of the assignment, or the last one that was withdrawn.
	Epoch int64
	// SpecHash of the assignment; empty for a withdrawal.
	SpecHash string
	Code     Code
	// Reason (v1alpha1.Refused…) and Message of a refusal.
	Reason, Message string
	// CountedFrom is the sequence of the first capacity report that counts the
	// assignment as used; zero if the agent does not report it.
	CountedFrom uint64
}

// Report is an agent's report of one assignment.
type Report struct {
	// SessionAssignment is from proto/convert.ReportFromWire. If it is Gone or Unread, it
	// has only names, session and epoch.
	*v1alpha1.SessionAssignment
	// Hash of the report in the digest of the reported set.
	Hash uint64
	// Gone: nothing of the assignment is left in the member.
	Gone bool
	// Unread: the status is malformed. The report counts only in the digest, so that
	// the digests of both sides are equal.
	Unread bool
}

// Sums are the digests of the hub's copy of a member.
type Sums struct {
	// Reported is of the agent's reports, Assigned of session, epoch and spec hash of
	// the assignments that the member has according to the hub.
	Reported, Assigned uint64
}

// Agreement is the outcome of comparing the digests of a hub and an agent.
type Agreement string

// The agreements. Before the first comparison there is none.
const (
	// Agrees: the digests were equal when they were last compared.
	Agrees Agreement = "Agrees"
	// Resyncing: they differed twice in a row, and a resync was requested.
	Resyncing Agreement = "Resyncing"
	// Differs: they still differ shortly after a resync; another one will follow.
	Differs Agreement = "Differs"
)
