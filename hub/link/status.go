package link

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Reasons for which the hub ends a connection.
var (
	errDraining         = errors.New("this hub is shutting down")
	errHelloTimeout     = errors.New("no hello in time")
	errInventoryTimeout = errors.New("no inventory in time")
	errPanic            = errors.New("internal error")
)

// codesOf the errors of this package, first match wins.
var codesOf = []struct {
	err  error
	code codes.Code
}{
	{errIdentity, codes.PermissionDenied},
	{ErrUnknownMember, codes.PermissionDenied},
	{ErrAlreadyConnected, codes.AlreadyExists},
	{ErrFingerprint, codes.FailedPrecondition},
	{ErrStaleAgent, codes.FailedPrecondition},
	{ErrStaleHub, codes.FailedPrecondition},
	{ErrNotConnected, codes.FailedPrecondition},
	{ErrRevoked, codes.PermissionDenied},
	{ErrCertificate, codes.Unauthenticated},
	{ErrToken, codes.PermissionDenied},
	{ErrNoAuthority, codes.Unimplemented},
	{ErrStalled, codes.DeadlineExceeded},
	{ErrNotLeading, codes.Unavailable},
	{errProtocol, codes.InvalidArgument},
	{errHelloTimeout, codes.DeadlineExceeded},
	{errInventoryTimeout, codes.DeadlineExceeded},
	{errDraining, codes.Unavailable},
	{errPanic, codes.Internal},
	{context.Canceled, codes.Canceled},
}

// statusOf is what an agent is told of an error; the message of one that is
// not this package's is the caller's choice, by Peer.Close or Directory.Open.
func statusOf(err error) error {
	if err == nil {
		return nil
	}
	return status.Error(codeOf(err), err.Error())
}

func codeOf(err error) codes.Code {
	for _, c := range codesOf {
		if errors.Is(err, c.err) {
			return c.code
		}
	}
	return codes.Aborted
}
