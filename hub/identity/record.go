package identity

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// recordIssued records a certificate that is about to be sent. One that was issued
// before it and not used is not valid any more.
func recordIssued(status *v1alpha1.MemberClusterStatus, certificate issued) {
	if status.Certificate == nil {
		status.Certificate = &v1alpha1.MemberCertificate{}
	}
	c := status.Certificate
	c.NextSerial, c.NextNotAfter = certificate.serial(), &metav1.Time{Time: certificate.certificate.NotAfter}
	c.TrustBundleHash = v1alpha1.TrustBundleHash(certificate.bundle)
}

// recordUsed notes that a certificate that the member may use was used: those
// before it are not valid any more.
func recordUsed(status *v1alpha1.MemberClusterStatus, serial, issuerHash string) {
	c := status.Certificate
	if serial != c.NextSerial {
		return // the one before it, which stays valid until the next was used
	}
	c.Serial, c.NotAfter = c.NextSerial, c.NextNotAfter
	c.NextSerial, c.NextNotAfter = "", nil
	c.IssuerHash = issuerHash
}
