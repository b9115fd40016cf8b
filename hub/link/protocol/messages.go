package protocol

import (
	"errors"

	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// Reasons for which a connection ends.
var (
	// ErrViolation: the agent broke the protocol.
	ErrViolation = errors.New("protocol violation")
	// ErrStaleHub: the agent has seen a hub of a higher term than this one.
	ErrStaleHub = errors.New("the agent has seen a later hub")
	// ErrStalled: the agent has not acknowledged, or not read, for too long.
	ErrStalled = errors.New("the agent does not keep up")
	// ErrExcess: the agent reports more than the hub keeps of one member.
	ErrExcess = errors.New("the agent reports too much")
	// ErrVersion: the two sides have no version of the link in common.
	ErrVersion = errors.New("no version of the link in common")
	// ErrCapability: one side requires what the other does not know.
	ErrCapability = errors.New("a required capability is missing")
)

// Order is the hub's desired state of one session: exactly one of its fields is set.
// Whoever puts an order must not change it afterwards.
type Order struct {
	// Assign is to be stored in the member. Its annotation
	// v1alpha1.AnnotationSpecHash is set by the sender where it is absent.
	Assign *v1alpha1.SessionAssignment
	// Withdraw is to be stopped in the member.
	Withdraw *Withdrawal
}

// SessionUID is the UID of the session that the order is about.
func (o Order) SessionUID() types.UID {
	switch {
	case o.Assign != nil:
		return o.Assign.Spec.Session.UID
	case o.Withdraw != nil:
		return o.Withdraw.SessionUID
	}
	return ""
}

// Withdrawal asks that every epoch of a session up to one be stopped.
type Withdrawal struct {
	SessionUID types.UID
	// Namespace and Name of the assignment in the member.
	Namespace, Name string
	UpToEpoch       int64
	// Force is an operator override: the kubelet is not waited for.
	Force bool
}

// Code is what became of an order.
type Code string

// The codes.
const (
	// Stored: the member's API server has the assignment, or the withdrawal
	// (then SpecHash is empty).
	Stored Code = "Stored"
	// Stopped: the last Pod of every epoch up to Epoch is gone. It also comes
	// unasked, when an assignment was deleted in the member.
	Stopped Code = "Stopped"
	// Refused: the assignment was not stored and will not be; nothing of its
	// epoch runs.
	Refused Code = "Refused"
)

// Result is what became of an order, or a Stopped without an order.
type Result struct {
	SessionUID types.UID
	// Namespace and Name of the assignment in the member.
	Namespace, Name string
	// Epoch of the assignment, or up to which was withdrawn.
	Epoch int64
	// SpecHash of the assignment; empty where a withdrawal is answered.
	SpecHash string
	Code     Code
	// Reason (v1alpha1.Refused…) and Message say why it was refused.
	Reason, Message string
	// CountedFrom is the sequence of the first capacity report that counts the
	// assignment as used; zero if the agent does not report it.
	CountedFrom uint64
}

// Hello is the first message of an agent. Nothing of it decides which member it is.
type Hello struct {
	// Fingerprint is the UID of the cluster's kube-system namespace.
	Fingerprint string
	// Instance is the random identity of the agent's process.
	Instance string
	// AgentVersion, for people.
	AgentVersion string
	// AgentTerm grows with each process of the member's agent.
	AgentTerm int64
	// HighestHubTerm that the agent has seen.
	HighestHubTerm int64
	// HubTermProof shows that the member was sent that term.
	HubTermProof string
	// Restrictions of the member's administrator, for people; nil if the agent does not
	// report them.
	Restrictions *v1alpha1.MemberRestrictions
}

// Report is what an agent reports of one assignment.
type Report struct {
	// SessionAssignment as proto/convert.ReportFromWire makes it. Of one that is
	// Gone or Unread it has no more than its names, session and epoch.
	*v1alpha1.SessionAssignment
	// Hash is what the report adds to the digest of the reported set.
	Hash uint64
	// Gone: the member holds nothing of the assignment any more.
	Gone bool
	// Unread: the hub cannot read the status. The report only counts in the
	// digest, so that both sides agree on what was reported.
	Unread bool
}

// Sums are the digests of what the hub remembers of a member.
type Sums struct {
	// Reported is of what the agent has reported, Assigned of what the member holds as
	// far as the hub knows: session, epoch and spec hash.
	Reported, Assigned uint64
}

// Agreement is the outcome of comparing what the hub and a member's agent have of the
// member, by the digests on the renewals.
type Agreement string

// The agreements. Nothing is known before the first comparison.
const (
	// Agrees: the digests were equal when they were last compared.
	Agrees Agreement = "Agrees"
	// Resyncing: they differed twice in a row, and a resync was requested.
	Resyncing Agreement = "Resyncing"
	// Differs: they differ although a resync was requested a moment ago; there will be
	// another one.
	Differs Agreement = "Differs"
)
