package v1alpha1

import (
	"crypto/sha256"
	"encoding/hex"
)

// The hub's certificate authority is a Secret in the hub's own namespace, unless
// certificates of the link are issued outside of the hub.
const (
	// AuthoritySecret is its name.
	AuthoritySecret = "vdi-hub-ca"
	// AuthorityCertificate is the key of the CA that issues (PEM), and
	// AuthorityKey of its private key (PKCS#8, PEM).
	AuthorityCertificate = "ca.crt"
	AuthorityKey         = "ca.key"
	// AuthorityBundle is the key of all CAs that are trusted (PEM): while the CA
	// is being rotated the old one and the new one.
	AuthorityBundle = "bundle.crt"
	// AnnotationRotateCA with any value on that Secret begins a rotation of the
	// CA. The hub takes it off when it has begun.
	AnnotationRotateCA = "vdi.kasm.io/rotate-ca"
)

// The key of the proofs of placement (SessionAssignmentSpec.Proof) is a Secret in
// the hub's namespace, however the certificates of the link are issued.
const (
	// PlacementKeySecret is its name, PlacementKey the key of its 32 bytes.
	PlacementKeySecret = "vdi-hub-placement-key"
	PlacementKey       = "key"
)

// TrustBundleHash of a trust bundle is of its bytes as they were given: "sha256:"
// and 64 hexadecimal digits.
func TrustBundleHash(bundle []byte) string { return hashOf(bundle) }

// CertificateHash of a certificate (DER), by which an agent that has no bundle
// yet knows the hub's CA: "sha256:" and 64 hexadecimal digits.
func CertificateHash(der []byte) string { return hashOf(der) }

func hashOf(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}
