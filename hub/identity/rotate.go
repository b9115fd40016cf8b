package identity

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/link"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// Rotate issues the next certificate of the member's agent (link.Authority). It requires a
// new key, so that a stolen key is useless once its certificate is invalid.
func (a *Authority) Rotate(ctx context.Context, caller link.Caller, certificateRequest []byte) (*fleetv1.IssuedCertificate, error) {
	certificate, err := a.rotate(ctx, caller, certificateRequest)
	if err != nil {
		return nil, counted(err)
	}
	metricIssued.WithLabelValues("rotation").Inc()
	log.FromContext(ctx).V(1).Info("Issued an agent's next certificate",
		"clusterUID", caller.Member, "serial", caller.Serial, "nextSerial", certificate.serial())
	return certificate.wire(), nil
}

func (a *Authority) rotate(ctx context.Context, caller link.Caller, request []byte) (certificate issued, err error) {
	key, hash, err := readKey(request)
	if err != nil {
		return issued{}, err
	}
	if caller.PublicKeyHash == "" || caller.PublicKeyHash == hash {
		return issued{}, refuse(refusedKeyReused, link.ErrRequest, "the key is that of the certificate that the call was made with")
	}
	err = a.members.changeOf(ctx, caller, func(mc *v1alpha1.MemberCluster) error {
		// The caller's certificate stays valid, also if it was not used to connect yet.
		recordUsed(&mc.Status, caller.Serial, caller.IssuerHash)
		if certificate, err = a.ca.issueAgent(mc.UID, key); err != nil {
			return err
		}
		recordIssued(&mc.Status, certificate)
		return nil
	})
	return certificate, err
}

// Used records that a certificate was used to connect (link.Authority). It writes nothing
// if it was used before.
func (a *Authority) Used(ctx context.Context, caller link.Caller) error {
	if a.members.isCurrent(ctx, caller) {
		return nil
	}
	err := a.members.changeOf(ctx, caller, func(mc *v1alpha1.MemberCluster) error {
		recordUsed(&mc.Status, caller.Serial, caller.IssuerHash)
		return nil
	})
	return counted(err)
}
