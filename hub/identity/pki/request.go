package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
)

const (
	// maxRequest in bytes: one of RSA 4096 is below 2 KiB.
	maxRequest = 8 << 10
	// minRSA and maxRSA bound the bits of an RSA key: fewer are not safe, and more are
	// too expensive at each handshake.
	minRSA = 2048
	maxRSA = 4096
)

// ErrRequest is wrapped by the errors of invalid requests.
var ErrRequest = errors.New("the certificate request is not valid")

// ReadRequest returns the public key of a PKCS#10 request (DER), whose signature proves
// that the sender has the private key.
func ReadRequest(der []byte) (crypto.PublicKey, error) {
	if len(der) > maxRequest {
		return nil, fmt.Errorf("%w: it has %d bytes, at most %d are accepted", ErrRequest, len(der), maxRequest)
	}
	request, err := x509.ParseCertificateRequest(der)
	if err != nil {
		return nil, fmt.Errorf("%w: it is no PKCS#10 request", ErrRequest)
	}
	// The key comes first: a signature of a key without bounds costs too much.
	if err := checkKey(request.PublicKey); err != nil {
		return nil, err
	}
	if err := request.CheckSignature(); err != nil {
		return nil, fmt.Errorf("%w: its signature is not by its key", ErrRequest)
	}
	return request.PublicKey, nil
}

// checkKey allows ECDSA on P-256 and P-384, Ed25519, and RSA.
func checkKey(key crypto.PublicKey) error {
	switch key := key.(type) {
	case *ecdsa.PublicKey:
		if key.Curve == elliptic.P256() || key.Curve == elliptic.P384() {
			return nil
		}
		return fmt.Errorf("%w: an ECDSA key must be on P-256 or P-384", ErrRequest)
	case ed25519.PublicKey:
		return nil
	case *rsa.PublicKey:
		if bits := key.N.BitLen(); bits < minRSA || bits > maxRSA {
			return fmt.Errorf("%w: an RSA key must have %d to %d bits, not %d", ErrRequest, minRSA, maxRSA, bits)
		}
		return nil
	}
	return fmt.Errorf("%w: keys of type %T are not supported", ErrRequest, key)
}

// KeyHash returns the hash of a public key in canonical form, 64 hexadecimal digits.
func KeyHash(key crypto.PublicKey) (string, error) {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return "", fmt.Errorf("%w: the key can't be written", ErrRequest)
	}
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:]), nil
}
