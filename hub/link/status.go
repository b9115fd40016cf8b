package link

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/vdi-fleet/vdi-fleet/hub/link/protocol"
)

// Reasons for which the hub ends a connection.
var (
	errDraining         = errors.New("this hub is shutting down")
	errHelloTimeout     = errors.New("no hello in time")
	errInventoryTimeout = errors.New("no inventory in time")
	errPanic            = errors.New("internal error")
	// errClosedByAgent is no failure.
	errClosedByAgent = errors.New("the agent closed the stream")
	// errLimited: the caller reached one of the Limits.
	errLimited = errors.New("a limit of the hub is reached: try again later")
	// errTrouble stands for an error of the hub that is not disclosed to callers.
	errTrouble = errors.New("the hub can't do this now: try again later")
)

// response is the gRPC status for an error.
type response struct {
	err  error
	code codes.Code
	// reason is the label in metrics.
	reason string
	// detailed: the whole text is sent, which is about nothing but the caller itself.
	// Otherwise the text of err alone is, the same for every caller.
	detailed bool
}

// responses to the errors of this package; the first match wins.
var responses = []response{
	{errMethod, codes.PermissionDenied, "Method", false},
	{errNoCertificate, codes.Unauthenticated, "NoCertificate", false},
	{errCompressed, codes.Unimplemented, "Compressed", false},
	{errIdentity, codes.PermissionDenied, "Identity", false},
	{ErrUnknownMember, codes.PermissionDenied, "UnknownMember", false},
	{ErrAlreadyConnected, codes.AlreadyExists, "AlreadyConnected", false},
	{ErrFingerprint, codes.FailedPrecondition, "Fingerprint", true},
	// On this code an agent that is not certain to lead stops leading.
	{ErrStaleAgent, codes.AlreadyExists, "StaleAgent", true},
	{ErrUnprovenTerm, codes.FailedPrecondition, "UnprovenTerm", true},
	{protocol.ErrStaleHub, codes.FailedPrecondition, "StaleHub", true},
	{ErrNotConnected, codes.FailedPrecondition, "NotConnected", false},
	{ErrRevoked, codes.PermissionDenied, "Revoked", false},
	{ErrFenced, codes.FailedPrecondition, "Fenced", false},
	{ErrCertificate, codes.Unauthenticated, "Certificate", false},
	{ErrToken, codes.PermissionDenied, "Token", false},
	{ErrRequest, codes.InvalidArgument, "Request", true},
	{ErrNoAuthority, codes.Unimplemented, "NoAuthority", false},
	{protocol.ErrVersion, codes.FailedPrecondition, "Version", true},
	{protocol.ErrCapability, codes.FailedPrecondition, "Capability", true},
	{protocol.ErrExcess, codes.ResourceExhausted, "Excess", true},
	{protocol.ErrStalled, codes.DeadlineExceeded, "Stalled", true},
	{ErrNotLeading, codes.Unavailable, "NotLeading", false},
	{errLimited, codes.ResourceExhausted, "Limited", true},
	{errTrouble, codes.Unavailable, "Trouble", false},
	{protocol.ErrViolation, codes.InvalidArgument, "Protocol", true},
	{errHelloTimeout, codes.DeadlineExceeded, "HelloTimeout", false},
	{errInventoryTimeout, codes.DeadlineExceeded, "InventoryTimeout", false},
	{errDraining, codes.Unavailable, "Draining", false},
	{errPanic, codes.Internal, "Panic", false},
	{context.Canceled, codes.Canceled, "Canceled", true},
	{context.DeadlineExceeded, codes.DeadlineExceeded, "DeadlineExceeded", true},
}

// responseTo returns the response to an error. The text of an error of another package,
// from Peer.Close or Directory.Open, is sent.
func responseTo(err error) response {
	for _, r := range responses {
		if errors.Is(err, r.err) {
			return r
		}
	}
	return response{err: err, code: codes.Aborted, reason: "Other", detailed: true}
}

// statusOf returns the gRPC status that an agent is sent for an error.
func statusOf(err error) error {
	if errors.Is(err, errClosedByAgent) {
		return nil
	}
	r := responseTo(err)
	if r.detailed {
		return status.Error(r.code, err.Error())
	}
	return status.Error(r.code, r.err.Error())
}

// ofAuthority hides an error of an Authority from the caller, unless it is one of this
// package's.
func ofAuthority(err error) error {
	switch responseTo(err).reason {
	case "Other", "Canceled", "DeadlineExceeded":
		return errors.Join(errTrouble, err)
	}
	return err
}
