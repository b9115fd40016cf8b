package identity

import (
	"context"
	"crypto"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/identity/pki"
	"github.com/vdi-fleet/vdi-fleet/hub/link"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// maxFingerprint bytes hold a UID.
const maxFingerprint = 64

// applicant is an agent that requests its first certificate.
type applicant struct {
	token, tokenID string
	key            crypto.PublicKey
	keyHash        string
	fingerprint    string
}

// Enroll issues an agent's first certificate for a token (link.Authority). The link logs
// the reason of a refusal, and sends the agent only that its token is not valid.
func (a *Authority) Enroll(ctx context.Context, request *fleetv1.EnrollRequest) (*fleetv1.IssuedCertificate, error) {
	who, err := readApplicant(request)
	if err != nil {
		return nil, counted(err)
	}
	certificate, member, err := a.enroll(ctx, who)
	if err != nil {
		return nil, counted(err)
	}
	metricIssued.WithLabelValues("enrollment").Inc()
	log.FromContext(ctx).Info("Enrolled an agent",
		"cluster", member, "secret", v1alpha1.JoinTokenPrefix+who.tokenID, "serial", certificate.serial())
	return certificate.wire(), nil
}

// readApplicant checks a request before anything is looked up for it.
func readApplicant(request *fleetv1.EnrollRequest) (applicant, error) {
	who := applicant{token: request.GetToken(), fingerprint: request.GetFingerprint()}
	var ok bool
	if who.tokenID, ok = v1alpha1.JoinTokenID(who.token); !ok {
		return who, refuse(refusedTokenMalformed, link.ErrToken, "the token is malformed")
	}
	if who.fingerprint == "" || len(who.fingerprint) > maxFingerprint {
		return who, refuse(refusedRequest, link.ErrRequest, "the cluster's fingerprint is missing or too long")
	}
	var err error
	who.key, who.keyHash, err = readKey(request.GetCertificateRequest())
	return who, err
}

// readKey returns the public key of a certificate request, and its hash.
func readKey(request []byte) (crypto.PublicKey, string, error) {
	key, err := pki.ReadRequest(request)
	if err != nil {
		return nil, "", refuse(refusedRequest, link.ErrRequest, "%v", err)
	}
	hash, err := pki.KeyHash(key)
	if err != nil {
		return nil, "", refuse(refusedRequest, link.ErrRequest, "%v", err)
	}
	return key, hash, nil
}

// enroll binds the token to the key after all checks, and stores the certificate's serial
// number before it is sent.
func (a *Authority) enroll(ctx context.Context, who applicant) (certificate issued, member string, err error) {
	var g grant
	for range attempts {
		if g, err = a.tokens.redeem(ctx, who); err != nil {
			return issued{}, g.member, err
		}
		mc, err := a.members.get(ctx, g.member, g.memberUID)
		if errors.Is(err, link.ErrUnknownMember) {
			return issued{}, g.member, g.invalid(refusedTokenMember, "its MemberCluster %s is gone, or is another of the same name", g.member)
		}
		if err != nil {
			return issued{}, g.member, err
		}
		if err := mayEnroll(mc, who.fingerprint); err != nil {
			return issued{}, g.member, err
		}
		if err = a.tokens.bind(ctx, g, who.keyHash); err == nil {
			certificate, err = a.enrollWith(ctx, g, who)
			return certificate, g.member, err
		}
		if !apierrors.IsConflict(err) {
			return issued{}, g.member, err
		}
	}
	return issued{}, g.member, fmt.Errorf("the Secret %s of a token keeps changing: try again", g.secret.Name)
}

func (a *Authority) enrollWith(ctx context.Context, g grant, who applicant) (certificate issued, err error) {
	err = a.members.change(ctx, g.member, g.memberUID, func(mc *v1alpha1.MemberCluster) error {
		if err := mayEnroll(mc, who.fingerprint); err != nil {
			return err
		}
		if certificate, err = a.ca.issueAgent(mc.UID, who.key); err != nil {
			return err
		}
		mc.Status.Fingerprint = who.fingerprint
		recordIssued(&mc.Status, certificate)
		return nil
	})
	return certificate, err
}

// mayEnroll returns why a cluster may not be enrolled as a member.
func mayEnroll(mc *v1alpha1.MemberCluster, fingerprint string) error {
	switch {
	case !mc.DeletionTimestamp.IsZero():
		return refuse(refusedUnknownMember, link.ErrUnknownMember, "%s is being deleted", mc.Name)
	case mc.Spec.Access == v1alpha1.AccessRevoked:
		return refuse(refusedRevoked, link.ErrRevoked, "%s", mc.Name)
	case mc.Status.Fingerprint != "" && mc.Status.Fingerprint != fingerprint:
		return refuse(refusedFingerprint, link.ErrFingerprint,
			"this is not the cluster that %s was enrolled for: create a new MemberCluster for it", mc.Name)
	}
	return nil
}
