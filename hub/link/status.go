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
	// errGoodbye: the agent ended it in good order.
	errGoodbye = errors.New("the agent said goodbye")
	// errLimited: more than one caller may have or do.
	errLimited = errors.New("too much at once: try again later")
	// errTrouble is the hub's own, and none of the caller's business.
	errTrouble = errors.New("the hub can't do this now: try again later")
)

// answer is what is sent to a caller for an error.
type answer struct {
	err  error
	code codes.Code
	// reason is the label in metrics.
	reason string
	// detailed: the caller is sent the whole text, which is about nothing but itself.
	// Otherwise it gets the text of err alone, the same for every caller.
	detailed bool
}

// answers to the errors of this package, first match wins.
var answers = []answer{
	{errMethod, codes.PermissionDenied, "Method", false},
	{errNoCertificate, codes.Unauthenticated, "NoCertificate", false},
	{errCompressed, codes.Unimplemented, "Compressed", false},
	{errIdentity, codes.PermissionDenied, "Identity", false},
	{ErrUnknownMember, codes.PermissionDenied, "UnknownMember", false},
	{ErrAlreadyConnected, codes.AlreadyExists, "AlreadyConnected", false},
	{ErrFingerprint, codes.FailedPrecondition, "Fingerprint", true},
	// An agent that is not certain to lead takes the code for the end of its lead.
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

// answerTo an error; the text of one that is not this package's is the
// caller's choice, by Peer.Close or Directory.Open.
func answerTo(err error) answer {
	for _, a := range answers {
		if errors.Is(err, a.err) {
			return a
		}
	}
	return answer{err: err, code: codes.Aborted, reason: "Other", detailed: true}
}

// statusOf returns what is sent to an agent for an error.
func statusOf(err error) error {
	if errors.Is(err, errGoodbye) {
		return nil
	}
	a := answerTo(err)
	if a.detailed {
		return status.Error(a.code, err.Error())
	}
	return status.Error(a.code, a.err.Error())
}

// ofAuthority is the error of an Authority as a caller may see it: one of this
// package's, or that there is some trouble.
func ofAuthority(err error) error {
	switch answerTo(err).reason {
	case "Other", "Canceled", "DeadlineExceeded":
		return errors.Join(errTrouble, err)
	}
	return err
}
