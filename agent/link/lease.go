package link

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// maxMissedRenewals is how many missed renewals in a row end the stream, whatever the state
// of TCP.
const maxMissedRenewals = 3

// renewInterval returns the hub's interval, bounded so that no hub can make an agent spin.
func renewInterval(w *fleetv1.Welcome) time.Duration {
	return min(max(w.GetRenewInterval().AsDuration(), 50*time.Millisecond), time.Minute)
}

// renew renews the lease by unary calls, so that it and the stream don't delay each other.
func (s *stream) renew(ctx context.Context) error {
	select {
	case <-s.welcomed:
	case <-ctx.Done():
		return ctx.Err()
	}
	missed := 0
	for sequence := uint64(1); ; sequence++ {
		err := s.renewOnce(ctx, sequence)
		switch {
		case err == nil:
			missed = 0
		case refused(err) || missed+1 >= maxMissedRenewals:
			return fmt.Errorf("renewing the lease: %w", err)
		default:
			missed++
		}
		select {
		case <-time.After(jittered(s.renewEvery, rand.Float64())):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *stream) renewOnce(ctx context.Context, sequence uint64) error {
	ctx, cancel := context.WithTimeout(ctx, max(s.renewEvery, time.Second))
	defer cancel()
	request := &fleetv1.RenewLeaseRequest{
		Instance: s.options.Instance, Sequence: sequence, TrustBundleHash: s.credential.TrustBundleHash,
		Sync: s.syncState(ctx), LeadershipUncertain: !s.options.Leading(),
	}
	// The lease counts from now.
	granted := s.member.Lease.Sending()
	response, err := s.rpc.RenewLease(ctx, request)
	metricRenewals.WithLabelValues(status.Code(err).String()).Inc()
	if err != nil {
		return err
	}
	if response.GetRotateCertificate() {
		s.options.Credentials.RotateNow()
	}
	s.mu.Lock()
	highest := s.machine.hello.HighestHubTerm
	s.mu.Unlock()
	if term := response.GetHubTerm(); term < highest {
		return fmt.Errorf("%w: %d after %d", ErrStaleHub, term, highest)
	}
	s.observeRenewal(HubTerm{Term: response.GetHubTerm(), Proof: response.GetHubTermProof()})
	granted(response.GetLease().AsDuration())
	return nil
}

// refused reports whether the hub has answered with an error that a retry does not cure.
func refused(err error) bool {
	switch status.Code(err) {
	case codes.PermissionDenied, codes.FailedPrecondition, codes.AlreadyExists, codes.Unauthenticated, codes.Unknown:
		return true
	}
	return false
}

// jittered returns an interval ±10%.
func jittered(d time.Duration, random float64) time.Duration {
	return time.Duration(float64(d) * (0.9 + 0.2*random))
}
