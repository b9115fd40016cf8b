package v1alpha1

import (
	"crypto/sha256"
	"encoding/hex"
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
