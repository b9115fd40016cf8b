package link

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// renewer is a hub that answers renewals as a test sets, and a lease that records
// the order of the calls.
type renewer struct {
	fleetv1.FleetServiceClient
	response *fleetv1.RenewLeaseResponse
	err      error
	calls    []string
	granted  time.Duration
}

func (r *renewer) RenewLease(context.Context, *fleetv1.RenewLeaseRequest, ...grpc.CallOption) (*fleetv1.RenewLeaseResponse, error) {
	r.calls = append(r.calls, "requested")
	return r.response, r.err
}

func (r *renewer) Sending() func(time.Duration) {
	r.calls = append(r.calls, "sending")
	return func(length time.Duration) { r.granted = length }
}

func TestALeaseIsExtendedByAcceptedRenewalsOnly(t *testing.T) {
	lease := durationpb.New(3 * time.Minute)
	for name, tc := range map[string]struct {
		response *fleetv1.RenewLeaseResponse
		err      error
		want     time.Duration
	}{
		"granted":                     {&fleetv1.RenewLeaseResponse{HubTerm: 7, Lease: lease}, nil, 3 * time.Minute},
		"by a newer hub":              {&fleetv1.RenewLeaseResponse{HubTerm: 8, Lease: lease}, nil, 3 * time.Minute},
		"by a hub that does not lead": {&fleetv1.RenewLeaseResponse{HubTerm: 6, Lease: lease}, nil, 0},
		"refused":                     {nil, status.Error(codes.PermissionDenied, "revoked"), 0},
		"answered too late":           {&fleetv1.RenewLeaseResponse{HubTerm: 7, Lease: lease}, context.DeadlineExceeded, 0},
		"by a hub without leases":     {&fleetv1.RenewLeaseResponse{HubTerm: 7}, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := &renewer{response: tc.response, err: tc.err}
			c := NewClient(Options{Instance: "i", Leading: func() bool { return true }}, Member{Lease: r})
			s := &stream{
				Client: c, rpc: r, credential: &Credential{}, renewEvery: time.Second,
				machine: NewMachine(&fleetv1.Hello{HighestHubTerm: 7}, c.reporter, c.results),
			}
			err := s.renewOnce(t.Context(), 1)
			if r.granted != tc.want || (err == nil) != (tc.err == nil && tc.response.GetHubTerm() >= 7) {
				t.Errorf("granted %s, error %v", r.granted, err)
			}
			if len(r.calls) != 2 || r.calls[0] != "sending" {
				t.Errorf("in the order %v: a lease counts from before it is requested", r.calls)
			}
		})
	}
}
