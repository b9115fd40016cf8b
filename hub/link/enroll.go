package link

import (
	"context"

	"google.golang.org/protobuf/types/known/durationpb"

	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// Enroll gives an agent its first certificate. It is the one call that needs
// none, so what it is asked is bounded before anybody looks at it.
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

// RotateCertificate gives an agent its next certificate.
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

// RenewLease records an agent's sign of life.
func (s *Server) RenewLease(ctx context.Context, request *fleetv1.RenewLeaseRequest) (*fleetv1.RenewLeaseResponse, error) {
	caller, err := callerFrom(ctx)
	if err != nil {
		return nil, err
	}
	if err := boundRenewal(request); err != nil {
		return nil, err
	}
	grant, err := s.directory.Renew(caller.Member, Renewal{
		Instance: request.GetInstance(), Sync: request.GetSync(), TrustBundleHash: request.GetTrustBundleHash(),
		LeadershipUncertain: request.GetLeadershipUncertain(),
	})
	if err != nil {
		return nil, err
	}
	s.syncs.renewed(caller.Member, request)
	term := s.options.HubTerm()
	return &fleetv1.RenewLeaseResponse{
		HubTerm: term, HubTermProof: s.toldTerm(caller.Member, term), Lease: durationpb.New(grant.Lease),
		RotateCertificate: s.options.Authority != nil && s.options.Authority.RotationDue(caller, request.GetTrustBundleHash()),
	}, nil
}
