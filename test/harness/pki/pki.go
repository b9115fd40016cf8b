package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"time"
)

// certificateLife is how long a certificate is valid by default.
const certificateLife = 24 * time.Hour

// CA is a certificate authority with an ECDSA P-256 key in memory.
type CA struct {
	// CertPEM is the authority's own certificate.
	CertPEM []byte

	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte // the key
}

// CertRequest is the content of a certificate. By default it is valid from an hour ago
// until 24 h from now.
type CertRequest struct {
	CommonName    string
	Organizations []string
	DNSNames      []string
	IPs           []net.IP
	URIs          []string
	NotBefore     time.Time
	NotAfter      time.Time
}

// Expired returns the request with a validity that ended an hour ago.
func (request CertRequest) Expired() CertRequest {
	request.NotBefore = time.Now().Add(-2 * time.Hour)
	request.NotAfter = time.Now().Add(-time.Hour)
	return request
}

// KeyPair is a certificate and its key, both PEM.
type KeyPair struct {
	CertPEM []byte
	KeyPEM  []byte
}

// NewCA creates an authority with that common name.
func NewCA(name string) (*CA, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making CA %s: %w", name, err)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             now.Add(-48 * time.Hour), // so that expired certificates chain
		NotAfter:              now.Add(30 * 24 * time.Hour),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("making CA %s: %w", name, err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("making CA %s: %w", name, err)
	}
	keyPEM, err := encodeKey(key)
	if err != nil {
		return nil, fmt.Errorf("making CA %s: %w", name, err)
	}
	return &CA{CertPEM: encodeCert(der), cert: cert, key: key, pem: keyPEM}, nil
}

// Issue signs a certificate for both ends of a TLS connection, client and
// server, with a new ECDSA P-256 key.
func (ca *CA) Issue(request CertRequest) (KeyPair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return KeyPair{}, fmt.Errorf("issuing certificate for %s: %w", request.CommonName, err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return KeyPair{}, fmt.Errorf("issuing certificate for %s: %w", request.CommonName, err)
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: request.CommonName, Organization: request.Organizations},
		NotBefore:    request.NotBefore,
		NotAfter:     request.NotAfter,
		DNSNames:     request.DNSNames,
		IPAddresses:  request.IPs,
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	if template.NotBefore.IsZero() {
		template.NotBefore = time.Now().Add(-time.Hour)
	}
	if template.NotAfter.IsZero() {
		template.NotAfter = time.Now().Add(certificateLife)
	}
	for _, raw := range request.URIs {
		uri, err := url.Parse(raw)
		if err != nil {
			return KeyPair{}, fmt.Errorf("issuing certificate: %w", err)
		}
		template.URIs = append(template.URIs, uri)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.cert, key.Public(), ca.key)
	if err != nil {
		return KeyPair{}, fmt.Errorf("issuing certificate for %s: %w", request.CommonName, err)
	}
	keyPEM, err := encodeKey(key)
	if err != nil {
		return KeyPair{}, fmt.Errorf("issuing certificate for %s: %w", request.CommonName, err)
	}
	return KeyPair{CertPEM: encodeCert(der), KeyPEM: keyPEM}, nil
}

// Write stores the authority's certificate and key as KeyPair.Write does.
func (ca *CA) Write(dir, name string) (certFile, keyFile string, err error) {
	return KeyPair{CertPEM: ca.CertPEM, KeyPEM: ca.pem}.Write(dir, name)
}

// Write stores the pair as dir/name.crt and dir/name.key and returns the paths.
func (pair KeyPair) Write(dir, name string) (certFile, keyFile string, err error) {
	certFile, keyFile = filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", "", fmt.Errorf("writing certificate %s: %w", name, err)
	}
	if err := os.WriteFile(certFile, pair.CertPEM, 0o644); err != nil {
		return "", "", fmt.Errorf("writing certificate %s: %w", name, err)
	}
	if err := os.WriteFile(keyFile, pair.KeyPEM, 0o600); err != nil {
		return "", "", fmt.Errorf("writing certificate %s: %w", name, err)
	}
	return certFile, keyFile, nil
}

func encodeCert(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}
