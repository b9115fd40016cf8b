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

// Reasons for which a call, connection or renewal is refused.
var (
	// ErrUnknownMember: no member has that UID, or it is being removed.
	ErrUnknownMember = errors.New("unknown member")
	// ErrAlreadyConnected: another agent of the member is connected. It keeps its
	// connection, unless it is not certain to lead and the other one is later.
	ErrAlreadyConnected = errors.New("another agent is connected for this member")
	// ErrFingerprint: the agent runs in another cluster than before.
	ErrFingerprint = errors.New("the cluster's fingerprint has changed")
	// ErrStaleAgent: a later process of the member's agent has been seen.
	ErrStaleAgent = errors.New("a later agent of this member has been seen")
	// ErrUnprovenTerm: the agent reports a higher hub term than this hub's without
	// a proof.
	ErrUnprovenTerm = errors.New("the agent does not prove that it has seen a later hub")
	// ErrNotConnected: a renewal from an agent that has no connection.
	ErrNotConnected = errors.New("this agent is not connected")
	// ErrRevoked: the member's access was revoked by an operator.
	ErrRevoked = errors.New("the member's access is revoked")
	// ErrFenced: the member is declared fenced. The hub removes the declaration since
	// its agent has returned.
	ErrFenced = errors.New("the member is declared fenced: its agent is admitted once the hub has removed the declaration")
	// ErrCertificate: the certificate has expired, or the next one was used.
	ErrCertificate = errors.New("the certificate is no longer valid")
	// ErrToken: the token is unknown, used, expired or of another member; which of
	// these is not disclosed.
	ErrToken = errors.New("the token is not valid")
	// ErrRequest: the certificate request is malformed.
	ErrRequest = errors.New("the certificate request is refused")
	// ErrNoAuthority: another authority issues certificates.
	ErrNoAuthority = errors.New("this hub does not issue certificates")
	// ErrNotLeading: this hub may have lost its leadership.
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

// Access has the facts of a member that determine what its agent may do.
type Access struct {
	// Removing: its MemberCluster is being deleted. Its agent is served until its
	// sessions have stopped.
	Removing bool
	// Revoked by an operator.
	Revoked bool
	// Serials of the certificates that the member may use. Nil permits any trusted
	// one: another authority issues them.
	Serials []string
}

// Renewal is a lease renewal of an agent.
type Renewal struct {
	// Instance of the agent's process.
	Instance string
	// LeadershipUncertain means that another replica of the agent may lead: this one
	// cannot renew its lock, and writes nothing to its API server.
	LeadershipUncertain bool
}

// Authority issues the certificates of the link. Its methods may be called by
// several goroutines.
type Authority interface {
	// Enroll issues an agent's first certificate for a token. Its errors include
	// ErrToken, ErrFingerprint and ErrRevoked.
	Enroll(ctx context.Context, request *fleetv1.EnrollRequest) (*fleetv1.IssuedCertificate, error)
	// Rotate issues the next certificate of the member's agent.
	Rotate(ctx context.Context, caller Caller, certificateRequest []byte) (*fleetv1.IssuedCertificate, error)
	// Used records that a certificate was used to connect, which makes the member's
	// earlier ones invalid. It is called before the connection is admitted, and
	// returns when that is durable.
	Used(ctx context.Context, caller Caller) error
	// RotationDue reports whether a member's agent must rotate at once, since the CA
	// is being rotated.
	RotationDue(caller Caller, trustBundleHash string) bool
	// Certificates returns the hub's current certificate and the authorities for
	// agents' certificates. It is called at each handshake and must not block.
	Certificates() (*tls.Certificate, *x509.CertPool, error)
}

// Peer is a member's connection, as the hub's member cache uses it. Its methods never
// block, may be called by several goroutines, and do nothing once the connection ended.
type Peer interface {
	// Put adds an order, which is kept until its result arrives. Of each session the
	// newest assignment and the newest withdrawal are kept; an order of an older epoch,
	// or equal to one that is kept, is dropped. Orders are sent only once Member.Part
	// has returned.
	Put(protocol.Order)
	// SetTemplates sets all templates that the agent evaluates. The set must not be
	// changed afterwards.
	SetTemplates(*fleetv1.TemplateSet)
	// SetDoor sets what the member's door needs, which must not be changed afterwards.
	SetDoor(*fleetv1.DoorConfig)
	// Close ends the connection; the reason is logged and sent to the agent.
	Close(reason error)
}

// Directory knows the members of the fleet. Its methods may be called by
// several goroutines.
type Directory interface {
	// Open admits the connection of the member with that UID, which is from the
	// certificate alone and not from Hello, or returns one of this package's errors. The context ends
	// with the connection. Open must not wait for the peer's agent.
	Open(ctx context.Context, member types.UID, hello *fleetv1.Hello, peer Peer) (Member, error)
	// Refused records that the member's agent was refused before Open was called, with
	// the remedy: ErrVersion, ErrCapability or ErrUnprovenTerm. It must not wait.
	Refused(member types.UID, reason error)
	// Renew records a lease renewal of the member and returns the lease: how long
	// fenced sessions may run, from when the agent sent the renewal.
	Renew(member types.UID, renewal Renewal) (lease time.Duration, err error)
	// Access of a member; false if there is none of that UID.
	Access(member types.UID) (Access, bool)
}

// Inventory is the hub's copy of what a member's agent reported.
type Inventory interface {
	// Differing returns the buckets in which the member's digest differs from the copy's.
	Differing(theirs *convert.Digest) convert.BucketSet
	// Part replaces some buckets, possibly none, by what the agent reported: those that
	// differed when the stream began, or those of a resync.
	Part(buckets convert.BucketSet, items []protocol.Report)
	// Changes applies reports of assignments that changed.
	Changes(items []protocol.Report)
	// Sums returns the digests as of the last call of Part or Changes.
	Sums() protocol.Sums
}

// Member is the hub's cache of one member, as one connection uses it. Sums and Agreed
// may be called by any goroutine and must not block. All others are called one at a
// time, in the order of the stream, except that Results may also be of an order that
// could not be sent. It owns its arguments.
//
// A connection begins with Differing and Part; Changes follow.
type Member interface {
	Inventory
	// Screen checks each page of an inventory before it is read. It may remove the
	// status from reports that the hub would not keep. An error, ErrExcess, ends the
	// connection.
	Screen(page *fleetv1.Inventory) error
	// Agreed receives the outcome of the comparison of the digests.
	Agreed(protocol.Agreement)
	// Results receives the results of orders.
	Results(results []protocol.Result)
	// CapacitySequence returns the number of the last capacity report of the agent's process, from an
	// earlier connection, 0 for none.
	CapacitySequence() uint64
	// Capacity receives the newest capacity report.
	Capacity(report *fleetv1.CapacityReport)
	// Closed is called last, once, for every connection that Open admitted. The error
	// is the reason, nil if the agent closed the stream.
	Closed(err error)
}
