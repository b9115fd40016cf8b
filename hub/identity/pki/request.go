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
	// largestRequest in bytes: one of RSA 4096 is below 2 KiB.
	largestRequest = 8 << 10
	// leastRSA and mostRSA bound the bits of an RSA key: fewer are not safe, and
	// more cost the hub too much at each handshake.
	leastRSA = 2048
	mostRSA  = 4096
)

// ErrRequest is wrapped by all that is wrong with a request.
var ErrRequest = errors.New("the certificate request is not valid")

// ReadRequest reads a PKCS#10 request (DER), of which nothing but the public key
// is kept. That its owner signed it is proof that he has the key.
func ReadRequest(der []byte) (crypto.PublicKey, error) {
	if len(der) > largestRequest {
		return nil, fmt.Errorf("%w: it has %d bytes, at most %d are read", ErrRequest, len(der), largestRequest)
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
		if bits := key.N.BitLen(); bits < leastRSA || bits > mostRSA {
			return fmt.Errorf("%w: an RSA key must have %d to %d bits, not %d", ErrRequest, leastRSA, mostRSA, bits)
		}
		return nil
	}
	return fmt.Errorf("%w: keys of type %T are not used", ErrRequest, key)
}

// KeyHash of a public key, by which two are compared: 64 hexadecimal digits. It
// is of the key as we write it, not as somebody sent it.
func KeyHash(key crypto.PublicKey) (string, error) {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return "", fmt.Errorf("%w: the key can't be written", ErrRequest)
	}
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:]), nil
}
