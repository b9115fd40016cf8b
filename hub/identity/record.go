package identity

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// recordIssued records a certificate that is about to be sent. It replaces one that was
// issued and not used.
func recordIssued(status *v1alpha1.MemberClusterStatus, certificate issued) {
	if status.Certificate == nil {
		status.Certificate = &v1alpha1.MemberCertificate{}
	}
	c := status.Certificate
	c.NextSerial, c.NextNotAfter = certificate.serial(), &metav1.Time{Time: certificate.certificate.NotAfter}
	c.TrustBundleHash = v1alpha1.TrustBundleHash(certificate.bundle)
}

// recordUsed records that a valid certificate of the member was used, which makes earlier
// ones invalid.
func recordUsed(status *v1alpha1.MemberClusterStatus, serial, issuerHash string) {
	c := status.Certificate
	if serial != c.NextSerial {
		return // the previous one stays valid until the next is used
	}
	c.Serial, c.NotAfter = c.NextSerial, c.NextNotAfter
	c.NextSerial, c.NextNotAfter = "", nil
	c.IssuerHash = issuerHash
}
