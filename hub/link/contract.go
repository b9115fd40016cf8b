package link

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/proto/convert"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// Reasons for which a Directory does not let a connection or renewal in.
var (
	// ErrUnknownMember: no member has that UID, or it is being removed.
	ErrUnknownMember = errors.New("unknown member")
	// ErrAlreadyConnected: another agent speaks for the member already; the
	// incumbent stays, unless it is not certain to lead and the other one is later.
	ErrAlreadyConnected = errors.New("another agent is connected for this member")
	// ErrFingerprint: the agent speaks for another cluster than before.
	ErrFingerprint = errors.New("the cluster's fingerprint has changed")
	// ErrStaleAgent: a later process of the member's agent has been seen.
	ErrStaleAgent = errors.New("a later agent of this member has been seen")
	// ErrStaleHub: the agent has seen a hub of a higher term than this one.
	ErrStaleHub = errors.New("the agent has seen a later hub")
	// ErrUnprovenTerm: the agent claims to have seen a hub of a higher term than
	// this one, and does not prove it.
	ErrUnprovenTerm = errors.New("the agent does not prove that it has seen a later hub")
	// ErrNotConnected: a renewal from an agent that has no connection.
	ErrNotConnected = errors.New("this agent is not connected")
	// ErrRevoked: the member's access was revoked by an operator.
	ErrRevoked = errors.New("the member's access is revoked")
	// ErrFenced: the member is declared fenced, and the hub is taking the declaration
	// away since its agent has returned.
	ErrFenced = errors.New("the member is declared fenced: its agent is let in once the hub has taken the declaration away")
	// ErrCertificate: the certificate is not one that the member may use any
	// more: it has expired, or the next one was used.
	ErrCertificate = errors.New("the certificate is no longer valid")
	// ErrToken: the token is unknown, used, expired or of another member; which
	// of these is not said.
	ErrToken = errors.New("the token is not valid")
	// ErrRequest: what was sent to be certified can't be.
	ErrRequest = errors.New("the certificate request is refused")
	// ErrNoAuthority: certificates are issued by somebody else.
	ErrNoAuthority = errors.New("this hub does not issue certificates")
	// ErrStalled: the agent has not acknowledged, or not read, for too long.
	ErrStalled = errors.New("the agent does not keep up")
	// ErrExcess: the agent reports more than the hub keeps of one member.
	ErrExcess = errors.New("the agent reports too much")
	// ErrVersion: the two sides have no version of the link in common.
	ErrVersion = errors.New("no version of the link in common")
	// ErrCapability: one side requires what the other does not know.
	ErrCapability = errors.New("a required capability is missing")
	// ErrNotLeading: this hub may have lost its leadership, and grants nothing
	// until it knows better.
	ErrNotLeading = errors.New("this hub does not lead")
)

// Caller is who makes a call, by the certificate alone.
type Caller struct {
	// Member whose agent it is.
	Member types.UID
	// Serial of the certificate, in hexadecimal digits.
	Serial string
	// NotAfter is when the certificate expires, by the hub's clock.
	NotAfter time.Time
	// PublicKeyHash is the SHA-256 of the certificate's public key
	// (SubjectPublicKeyInfo), in lower case hexadecimal digits.
	PublicKeyHash string
	// IssuerHash is v1alpha1.CertificateHash of the CA that issued it.
	IssuerHash string
}

// Access is what the hub knows of a member that bears on what its agent may
// do.
type Access struct {
	// Removing: its MemberCluster is being deleted. Its agent goes on until its
	// sessions have stopped.
	Removing bool
	// Revoked by an operator.
	Revoked bool
	// Serials of the certificates that the member may use; nil where somebody
	// else than this hub issues them, and any that is trusted will do.
	Serials []string
}

// Renewal is an agent's sign of life.
type Renewal struct {
	// Instance of the agent's process.
	Instance string
	// Sync is what both sides should agree on; nil where the agent does not say.
	Sync *fleetv1.SyncState
	// TrustBundleHash of the CAs that the agent verifies the hub with; empty
	// where it does not say.
	TrustBundleHash string
	// LeadershipUncertain means that another replica of the agent may lead by now: this
	// one can't renew its lock, and writes nothing to its API server.
	LeadershipUncertain bool
}

// Grant answers a renewal.
type Grant struct {
	// Lease is how long fenced sessions may run, from when the agent sent the
	// renewal.
	Lease time.Duration
}

// Authority issues the certificates of the link. Its methods may be called by
// several goroutines.
type Authority interface {
	// Enroll gives an agent its first certificate for a token: ErrToken,
	// ErrFingerprint, ErrRevoked or another error that says why not.
	Enroll(ctx context.Context, request *fleetv1.EnrollRequest) (*fleetv1.IssuedCertificate, error)
	// Rotate gives the member's agent its next certificate.
	Rotate(ctx context.Context, caller Caller, certificateRequest []byte) (*fleetv1.IssuedCertificate, error)
	// Used says that a certificate was used to connect: from now on those that
	// the member had before are not valid any more. It is called before the
	// connection is let in, and returns when that is durable.
	Used(ctx context.Context, caller Caller) error
	// RotationDue is whether a member's agent must rotate at once, since the CA
	// is being rotated.
	RotationDue(caller Caller, trustBundleHash string) bool
	// Certificates is what the hub serves with, and the authorities that
	// agents' certificates are verified with, as they stand. It is asked at
	// each handshake and must not block.
	Certificates() (*tls.Certificate, *x509.CertPool, error)
}

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

// Peer is what a member's connection offers to the hub's member cache. Its methods never block and may be called by several goroutines;
// after the connection's end they do nothing.
type Peer interface {
	// Put gives an order to the connection, which keeps it until its result is
	// in. Of a session it keeps the newest assignment and the newest
	// withdrawal; an order of an older epoch than one it keeps is dropped, and
	// one equal to what it keeps or has in flight changes nothing. Orders leave
	// only once Member.Part has returned.
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
	// HubTermProof shows that the member was told that term.
	HubTermProof string
	// Restrictions of the member's administrator, for people; nil: the agent does not
	// report them.
	Restrictions *v1alpha1.MemberRestrictions
}

// Directory knows the members of the fleet. Its methods may be called by
// several goroutines.
type Directory interface {
	// Open lets in the connection of the member with that UID, which is from
	// the certificate alone, or says why not with one of this package's
	// errors. The context ends with the connection. Open must not wait for the
	// peer's agent.
	Open(ctx context.Context, member types.UID, hello Hello, peer Peer) (Member, error)
	// Refused says that an agent with the member's certificate was turned away
	// before Open was asked, with what to do: ErrVersion or ErrCapability, since the
	// two sides don't understand each other, or ErrUnprovenTerm. It must not wait.
	Refused(member types.UID, reason error)
	// Renew records a sign of life of the member and returns what is granted.
	Renew(member types.UID, renewal Renewal) (Grant, error)
	// Access of a member; false if there is none of that UID.
	Access(member types.UID) (Access, bool)
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
	// Unread: the hub can't read the status. The report only counts in the
	// digest, so that the two sides agree on what was said.
	Unread bool
}

// Sums are the digests of what the hub believes of a member.
type Sums struct {
	// Reported is of what the agent has said, Assigned of what the member is
	// believed to hold: session, epoch and spec hash.
	Reported, Assigned uint64
}

// Agreement is whether the hub and a member's agent agree on what the member
// holds, by the digests on the renewals.
type Agreement string

// The agreements. Nothing is known before the first comparison.
const (
	// Agrees: the digests were equal when they were last compared.
	Agrees Agreement = "Agrees"
	// Resyncing: they differed twice in a row, and the agent was asked for all.
	Resyncing Agreement = "Resyncing"
	// Differs: they differ although the agent was asked for all a moment ago;
	// it will be asked again.
	Differs Agreement = "Differs"
)

// Member is the hub's cache of one member as one connection sees it. Sums
// and Agreed may be called by any goroutine and must not block. All others are
// called one at a time, and but for Results, which may also answer an order
// that could not be sent, in the order of the stream. It owns what it is given.
//
// A connection begins with Differing and Part, and goes on with Changes.
type Member interface {
	// Screen is given each page of an inventory before it is read and put together
	// with the others. It may take the status off reports that the hub would not
	// keep. An error, ErrExcess, ends the connection.
	Screen(page *fleetv1.Inventory) error
	// Differing says in which buckets what the member holds may be another than
	// what the hub remembers of it.
	Differing(theirs *convert.Digest) convert.BucketSet
	// Part is all that the member holds in some buckets, which may be none: in
	// those that differed when the stream began, or of a resync later on.
	Part(buckets convert.BucketSet, items []Report)
	// Changes are assignments that changed, as they are now.
	Changes(items []Report)
	// Sums are the digests as of the last call of Part or Changes.
	Sums() Sums
	// Agreed says what the comparison of the digests has shown.
	Agreed(Agreement)
	// Results answer orders, item by item.
	Results(results []Result)
	// Capacity is the newest room of the member.
	Capacity(report *fleetv1.CapacityReport)
	// Closed is called last, once, for every connection that Open let in. The
	// error says why it ended, nil when the agent ended it in good order.
	Closed(err error)
}
