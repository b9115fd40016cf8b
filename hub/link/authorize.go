package link

import (
	"errors"
	"fmt"
	"slices"
	"time"

	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

var (
	errNoCertificate = errors.New("a client certificate is required")
	errMethod        = errors.New("this method is not open to agents")
	// errCompressed is returned for a grpc-encoding other than identity.
	errCompressed = errors.New("compressed messages are not supported: send them uncompressed")
)

// rule of a method.
type rule struct {
	// public methods need no client certificate: they authenticate by other means.
	public bool
	// name in metrics and logs.
	name string
}

// rules of the methods that may be called; all others are refused.
var rules = map[string]rule{
	fleetv1.FleetService_Connect_FullMethodName:           {name: "Connect"},
	fleetv1.FleetService_RenewLease_FullMethodName:        {name: "RenewLease"},
	fleetv1.FleetService_RotateCertificate_FullMethodName: {name: "RotateCertificate"},
	// Enroll authenticates by a token.
	fleetv1.FleetService_Enroll_FullMethodName: {name: "Enroll", public: true},
}

// authorize decides whether a call is admitted, by the method, the caller's certificate
// (nil if there is none), the member's access and the time, and never by a message.
//
// The order of the checks limits what an error discloses: an expired certificate gets
// nothing about the member, a removed member's gets the same as an unknown one's, and
// none gets whether another session or member exists. A member that is being removed
// is admitted until its sessions have stopped.
func authorize(method string, caller *Caller, access Access, known bool, now time.Time) error {
	r, open := rules[method]
	switch {
	case !open:
		return fmt.Errorf("%w: %s", errMethod, method)
	case r.public:
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
