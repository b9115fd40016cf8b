package link

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// Reasons for which a Directory does not let a connection or renewal in.
var (
	// ErrUnknownMember: no member has that UID, or it is being removed.
	ErrUnknownMember = errors.New("unknown member")
	// ErrAlreadyConnected: another agent speaks for the member already; the
	// incumbent stays.
	ErrAlreadyConnected = errors.New("another agent is connected for this member")
	// ErrFingerprint: the agent speaks for another cluster than before.
	ErrFingerprint = errors.New("the cluster's fingerprint has changed")
	// ErrStaleAgent: a later process of the member's agent has been seen.
	ErrStaleAgent = errors.New("a later agent of this member has been seen")
	// ErrStaleHub: the agent has seen a hub of a higher term than this one.
	ErrStaleHub = errors.New("the agent has seen a later hub")
	// ErrNotConnected: a renewal from an agent that has no connection.
	ErrNotConnected = errors.New("this agent is not connected")
)

// Order is the hub's word about one session: exactly one of its fields.
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
	// Force is an operator's last word: the kubelet is not waited for.
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

// Result is what became of an order, or a Stopped that nobody ordered.
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
	// assignment as used; zero if the agent does not say.
	CountedFrom uint64
}

// Peer is what a member's connection offers to the hub's picture of the
// member. Its methods never block and may be called by several goroutines;
// after the connection's end they do nothing.
type Peer interface {
	// Put gives an order to the connection, which keeps it until its result is
	// in. Of a session it keeps the newest assignment and the newest
	// withdrawal; an order of an older epoch than one it keeps is dropped, and
	// one equal to what it keeps or has in flight changes nothing. Orders leave
	// only once Member.Inventory has returned.
	Put(Order)
	// SetTemplates says which templates the agent must judge, always whole; it
	// must not be changed afterwards.
	SetTemplates(*fleetv1.TemplateSet)
	// Close ends the connection; the reason is logged and told to the agent.
	Close(reason error)
}

// Hello is how an agent introduces itself. Nothing of it decides who it is.
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
}

// Directory knows the members of the fleet. Its methods may be called by
// several goroutines.
type Directory interface {
	// Open lets in the connection of the member with that UID, which is from
	// the certificate alone, or says why not with one of this package's
	// errors. The context ends with the connection. Open must not wait for the
	// peer's agent.
	Open(ctx context.Context, member types.UID, hello Hello, peer Peer) (Member, error)
	// Renew records a sign of life of the member and returns how long its
	// lease holds.
	Renew(member types.UID, instance string) (lease time.Duration, err error)
}

// Member is the hub's picture of one member as one connection sees it. It is
// called by one goroutine, in the order of the stream. It owns what it is
// given.
type Member interface {
	// Inventory is all that the member holds; called once, before all others.
	// The items are as proto/convert.ReportFromWire makes them.
	Inventory(items []*v1alpha1.SessionAssignment)
	// Reports are assignments that changed, as they are now.
	Reports(items []*v1alpha1.SessionAssignment)
	// Results answer orders, item by item.
	Results(results []Result)
	// Capacity is the newest room of the member.
	Capacity(report *fleetv1.CapacityReport)
	// Closed is called last, once, for every connection that Open let in. The
	// error says why it ended, nil when the agent ended it in good order.
	Closed(err error)
}
