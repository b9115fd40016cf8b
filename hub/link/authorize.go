package link

import (
	"errors"
	"fmt"
	"slices"
	"time"

	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

var (
	// errNoCertificate: the caller has shown none.
	errNoCertificate = errors.New("a client certificate is required")
	// errMethod: not one of the methods that anybody may call.
	errMethod = errors.New("this method is not open to agents")
	// errCompressed: the call has a grpc-encoding other than identity.
	errCompressed = errors.New("compressed messages are not supported: send them uncompressed")
)

// rule is who may call a method.
type rule struct {
	// anybody may: the method proves by other means who calls.
	anybody bool
	// name in metrics and logs.
	name string
}

// rules of all methods that may be called at all: one that is not here is
// refused to everybody.
var rules = map[string]rule{
	fleetv1.FleetService_Connect_FullMethodName:           {name: "Connect"},
	fleetv1.FleetService_RenewLease_FullMethodName:        {name: "RenewLease"},
	fleetv1.FleetService_RotateCertificate_FullMethodName: {name: "RotateCertificate"},
	// Enroll proves it by a token.
	fleetv1.FleetService_Enroll_FullMethodName: {name: "Enroll", anybody: true},
}

// authorize decides whether a call is admitted: by the method, the identity in
// the caller's certificate (nil: it has none), what the hub knows of that
// member, and the time. No message has a part in it.
//
// The order is such that each answer tells a caller only what its certificate
// entitles it to: one that has expired learns nothing of the member, and one
// of a member that is gone learns the same as one of a member that never was.
// Whether another session or member exists is in none of them. A member that
// is being removed goes on until its sessions have stopped.
func authorize(method string, caller *Caller, access Access, known bool, now time.Time) error {
	r, open := rules[method]
	switch {
	case !open:
		return fmt.Errorf("%w: %s", errMethod, method)
	case r.anybody:
		return nil
	case caller == nil || caller.Member == "":
		return errNoCertificate
	case !now.Before(caller.NotAfter):
		return fmt.Errorf("%w: it expired at %s", ErrCertificate, caller.NotAfter.UTC().Format(time.RFC3339))
	case !known:
		return ErrUnknownMember
	case access.Revoked:
		return ErrRevoked
	case access.Serials != nil && !slices.Contains(access.Serials, caller.Serial):
		return fmt.Errorf("%w: a later one was used, or it was never issued for this member (serial %s)", ErrCertificate, caller.Serial)
	}
	return nil
}
