package v1alpha1

import (
	"crypto/sha256"
	"encoding/hex"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The hub's certificate authority is a Secret in the hub's namespace, unless the
// certificates of the link are issued externally.
const (
	// AuthoritySecret is the name of the Secret.
	AuthoritySecret = "vdi-hub-ca"
	// AuthorityCertificate is the key of the issuing CA's certificate (PEM), and
	// AuthorityKey that of its private key (PKCS #8, PEM).
	AuthorityCertificate = "ca.crt"
	AuthorityKey         = "ca.key"
	// AuthorityBundle is the key of the trusted CA certificates (PEM): the old and the
	// new one during a rotation.
	AuthorityBundle = "bundle.crt"
	// AnnotationRotateCA on that Secret, with any value, starts a rotation of the CA. The
	// hub removes the annotation once the rotation has started.
	AnnotationRotateCA = "vdi.kasm.io/rotate-ca"
)

// The key for proofs of placement (SessionAssignmentSpec.Proof) is a Secret in the hub's
// namespace, whoever issues the certificates of the link.
const (
	// PlacementKeySecret is the name of the Secret, and PlacementKey the key of its 32
	// bytes.
	PlacementKeySecret = "vdi-hub-placement-key"
	PlacementKey       = "key"
)

// TrustBundleHash returns the hash of the bytes of a trust bundle: "sha256:" and 64
// hexadecimal digits.
func TrustBundleHash(bundle []byte) string { return hashOf(bundle) }

// CertificateHash returns the hash of a certificate (DER): "sha256:" and 64 hexadecimal
// digits. An agent without a trust bundle verifies the hub's CA by it.
func CertificateHash(der []byte) string { return hashOf(der) }

func hashOf(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// MemberCertificate describes the certificate of a member's agent.
type MemberCertificate struct {
	// serial number of the certificate used last, in hexadecimal digits.
	// +optional
	// +kubebuilder:validation:MaxLength=40
	Serial string `json:"serial,omitempty"`
	// notAfter is when it expires.
	// +optional
	NotAfter *metav1.Time `json:"notAfter,omitempty"`
	// nextSerial is the serial number of the certificate issued since, and not used yet.
	// Both are valid until it is used.
	// +optional
	// +kubebuilder:validation:MaxLength=40
	NextSerial string `json:"nextSerial,omitempty"`
	// nextNotAfter is when that one expires.
	// +optional
	NextNotAfter *metav1.Time `json:"nextNotAfter,omitempty"`
	// trustBundleHash is the hash of the CA bundle last sent to the agent.
	// +optional
	// +kubebuilder:validation:MaxLength=71
	TrustBundleHash string `json:"trustBundleHash,omitempty"`
	// issuerHash is the hash of the CA that issued the certificate used last.
	// +optional
	// +kubebuilder:validation:MaxLength=71
	IssuerHash string `json:"issuerHash,omitempty"`
}

// Serials returns the serial numbers that are valid. It is never nil: a member whose
// certificate was revoked has none.
func (c *MemberCertificate) Serials() []string {
	serials := []string{}
	for _, s := range []string{c.Serial, c.NextSerial} {
		if s != "" {
			serials = append(serials, s)
		}
	}
	return serials
}
