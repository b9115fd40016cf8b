package link

import (
	"cmp"
	"context"
	"fmt"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/vdi-fleet/vdi-fleet/hub/link/protocol"
	"github.com/vdi-fleet/vdi-fleet/proto/convert"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// Enroll issues an agent's first certificate. Callers need none, so the request is
// bounded before anything is looked up.
func (s *Server) Enroll(ctx context.Context, request *fleetv1.EnrollRequest) (*fleetv1.EnrollResponse, error) {
	if s.options.Authority == nil {
		return nil, ErrNoAuthority
	}
	if err := boundEnroll(request); err != nil {
		return nil, err
	}
	end, err := s.meters.enrollment()
	if err != nil {
		return nil, err
	}
	defer end()
	issued, err := s.options.Authority.Enroll(ctx, request)
	if err != nil {
		return nil, ofAuthority(err)
	}
	return &fleetv1.EnrollResponse{Certificate: issued}, nil
}

// RotateCertificate issues an agent's next certificate.
func (s *Server) RotateCertificate(ctx context.Context, request *fleetv1.RotateCertificateRequest) (*fleetv1.RotateCertificateResponse, error) {
	caller, err := callerFrom(ctx)
	if err != nil {
		return nil, err
	}
	if s.options.Authority == nil {
		return nil, ErrNoAuthority
	}
	if err := boundRequest(request.GetCertificateRequest()); err != nil {
		return nil, err
	}
	issued, err := s.options.Authority.Rotate(ctx, caller, request.GetCertificateRequest())
	if err != nil {
		return nil, ofAuthority(err)
	}
	return &fleetv1.RotateCertificateResponse{Certificate: issued}, nil
}

// RenewLease records an agent's lease renewal.
func (s *Server) RenewLease(ctx context.Context, request *fleetv1.RenewLeaseRequest) (*fleetv1.RenewLeaseResponse, error) {
	caller, err := callerFrom(ctx)
	if err != nil {
		return nil, err
	}
	if err := boundRenewal(request); err != nil {
		return nil, err
	}
	lease, err := s.directory.Renew(caller.Member, Renewal{
		Instance: request.GetInstance(), LeadershipUncertain: request.GetLeadershipUncertain(),
	})
	if err != nil {
		return nil, err
	}
	if c := s.connections.of(caller.Member, request.GetInstance()); c != nil && request.GetSync() != nil {
		c.sync(request.GetSync())
	}
	term := s.terms.Current()
	return &fleetv1.RenewLeaseResponse{
		HubTerm: term, HubTermProof: s.terms.recordSent(caller.Member, term), Lease: durationpb.New(lease),
		RotateCertificate: s.options.Authority != nil && s.options.Authority.RotationDue(caller, request.GetTrustBundleHash()),
	}, nil
}

// Bounds of unary requests.
const (
	maxToken        = 256
	maxRequestBytes = 16 << 10
)

func boundRenewal(r *fleetv1.RenewLeaseRequest) error {
	c := &convert.Checks{}
	c.Token("instance", r.GetInstance(), convert.MaxToken)
	c.Token("trust_bundle_hash", r.GetTrustBundleHash(), convert.MaxToken)
	return violation(c.Err)
}

func boundEnroll(r *fleetv1.EnrollRequest) error {
	if convert.CheckToken("token", r.GetToken(), maxToken) != nil {
		// The token is in no error and in no log.
		return ErrToken
	}
	c := &convert.Checks{}
	c.Token("fingerprint", r.GetFingerprint(), convert.MaxToken)
	c.Token("agent_version", r.GetAgentVersion(), convert.MaxToken)
	return cmp.Or(violation(c.Err), boundRequest(r.GetCertificateRequest()))
}

func boundRequest(der []byte) error {
	if len(der) == 0 || len(der) > maxRequestBytes {
		return violation(fmt.Errorf("certificate_request: %d bytes, not 1 to %d", len(der), maxRequestBytes))
	}
	return nil
}

// violation wraps an error, if there is one, as protocol.ErrViolation.
func violation(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", protocol.ErrViolation, err)
}
