package link

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/hub/link/protocol"
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
	// ErrNoAuthority: another authority issues certificates.
	ErrNoAuthority = errors.New("this hub does not issue certificates")
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

// Access is what the hub knows of a member that decides what its agent may do.
type Access struct {
	// Removing: its MemberCluster is being deleted. Its agent goes on until its
	// sessions have stopped.
	Removing bool
	// Revoked by an operator.
	Revoked bool
	// Serials of the certificates that the member may use; nil where another authority
	// issues them, and any that is trusted will do.
	Serials []string
}

// Renewal is a lease renewal of an agent.
type Renewal struct {
	// Instance of the agent's process.
	Instance string
	// LeadershipUncertain means that another replica of the agent may lead by now: this
	// one can't renew its lock, and writes nothing to its API server.
	LeadershipUncertain bool
}

// Authority issues the certificates of the link. Its methods may be called by
// several goroutines.
type Authority interface {
	// Enroll gives an agent its first certificate for a token: ErrToken,
	// ErrFingerprint, ErrRevoked or another error that says why not.
	Enroll(ctx context.Context, request *fleetv1.EnrollRequest) (*fleetv1.IssuedCertificate, error)
	// Rotate gives the member's agent its next certificate.
	Rotate(ctx context.Context, caller Caller, certificateRequest []byte) (*fleetv1.IssuedCertificate, error)
	// Used records that a certificate was used to connect: from now on those that
	// the member had before are not valid any more. It is called before the
	// connection is let in, and returns when that is durable.
	Used(ctx context.Context, caller Caller) error
	// RotationDue reports whether a member's agent must rotate at once, since the CA
	// is being rotated.
	RotationDue(caller Caller, trustBundleHash string) bool
	// Certificates is what the hub serves with, and the authorities that
	// agents' certificates are verified with, as they stand. It is asked at
	// each handshake and must not block.
	Certificates() (*tls.Certificate, *x509.CertPool, error)
}

// Peer is what a member's connection offers to the hub's member cache. Its methods never block and may be called by several goroutines;
// after the connection's end they do nothing.
type Peer interface {
	// Put gives an order to the connection, which keeps it until its result is
	// in. Of a session it keeps the newest assignment and the newest
	// withdrawal; an order of an older epoch than one it keeps is dropped, and
	// one equal to what it keeps or has in flight changes nothing. Orders leave
	// only once Member.Part has returned.
	Put(protocol.Order)
	// SetTemplates says which templates the agent must judge, always whole; it
	// must not be changed afterwards.
	SetTemplates(*fleetv1.TemplateSet)
	// Close ends the connection; the reason is logged and sent to the agent.
	Close(reason error)
}

// Directory knows the members of the fleet. Its methods may be called by
// several goroutines.
type Directory interface {
	// Open lets in the connection of the member with that UID, which is from
	// the certificate alone, or says why not with one of this package's
	// errors. The context ends with the connection. Open must not wait for the
	// peer's agent.
	Open(ctx context.Context, member types.UID, hello protocol.Hello, peer Peer) (Member, error)
	// Refused records that an agent with the member's certificate was refused
	// before Open was called, with what to do: ErrVersion or ErrCapability, since the
	// two sides don't understand each other, or ErrUnprovenTerm. It must not wait.
	Refused(member types.UID, reason error)
	// Renew records a lease renewal of the member and returns the lease: how long
	// fenced sessions may run, from when the agent sent the renewal.
	Renew(member types.UID, renewal Renewal) (lease time.Duration, err error)
	// Access of a member; false if there is none of that UID.
	Access(member types.UID) (Access, bool)
}

// Inventory is what the hub remembers of what a member's agent reported.
type Inventory interface {
	// Differing returns the buckets in which the member may hold something else than
	// what the hub remembers of it.
	Differing(theirs *convert.Digest) convert.BucketSet
	// Part is all that the member holds in some buckets, which may be none: in
	// those that differed when the stream began, or of a resync later on.
	Part(buckets convert.BucketSet, items []protocol.Report)
	// Changes are assignments that changed, as they are now.
	Changes(items []protocol.Report)
	// Sums are the digests as of the last call of Part or Changes.
	Sums() protocol.Sums
}

// Member is the hub's cache of one member as one connection sees it. Sums
// and Agreed may be called by any goroutine and must not block. All others are
// called one at a time, and but for Results, which may also answer an order
// that could not be sent, in the order of the stream. It owns what it is given.
//
// A connection begins with Differing and Part, and goes on with Changes.
type Member interface {
	Inventory
	// Screen is given each page of an inventory before it is read and put together
	// with the others. It may take the status off reports that the hub would not
	// keep. An error, ErrExcess, ends the connection.
	Screen(page *fleetv1.Inventory) error
	// Agreed takes the outcome of the comparison of the digests.
	Agreed(protocol.Agreement)
	// Results answer orders, item by item.
	Results(results []protocol.Result)
	// Capacity is the newest capacity report.
	Capacity(report *fleetv1.CapacityReport)
	// Closed is called last, once, for every connection that Open let in. The
	// error says why it ended, nil when the agent ended it in good order.
	Closed(err error)
}
