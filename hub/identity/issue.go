package identity

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"math/big"
	"net/url"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/hub/identity/pki"
	"github.com/vdi-fleet/vdi-fleet/hub/link"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// issued is an agent's certificate before it is sent.
type issued struct {
	certificate *x509.Certificate
	bundle      []byte
	now         time.Time
}

func (i issued) serial() string { return pki.SerialText(i.certificate.SerialNumber) }

// wire returns the certificate as the agent is sent it.
func (i issued) wire() *fleetv1.IssuedCertificate {
	return &fleetv1.IssuedCertificate{
		Chain:       pki.CertificatesPEM(i.certificate),
		TrustBundle: i.bundle,
		Lifetime:    durationpb.New(i.certificate.NotAfter.Sub(i.now)),
	}
}

// issueAgent issues a certificate of a member's agent for its public key.
func (c *ca) issueAgent(member types.UID, key crypto.PublicKey) (issued, error) {
	s := c.current.Load()
	if s == nil {
		return issued{}, errNotReady
	}
	uri, err := url.Parse(link.AgentURI(c.options.TrustDomain, member))
	if err != nil {
		return issued{}, fmt.Errorf("naming the agent: %w", err)
	}
	now := c.options.Now()
	template := pki.AgentCertificate(s.state.Issuer.Certificate, newSerial(), uri, now, c.options.Lifetime)
	certificate, err := sign(template, s.state.Issuer, key)
	if err != nil {
		return issued{}, err
	}
	return issued{certificate: certificate, bundle: s.state.BundlePEM(), now: now}, nil
}

// issueServing issues the hub's certificate with a new key, which never leaves the
// process. Its chain includes the CA, for agents that have only its hash.
func (c *ca) issueServing(issuer pki.Issuer, now time.Time) (*tls.Certificate, error) {
	uri, err := url.Parse("spiffe://" + c.options.TrustDomain + "/hub")
	if err != nil {
		return nil, fmt.Errorf("naming the hub: %w", err)
	}
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	certificate, err := sign(pki.ServingCertificate(issuer.Certificate, newSerial(), uri, c.options.Names, now), issuer, key.Public())
	if err != nil {
		return nil, err
	}
	metricIssued.WithLabelValues("serving").Inc()
	return &tls.Certificate{
		Certificate: [][]byte{certificate.Raw, issuer.Certificate.Raw},
		PrivateKey:  key,
		Leaf:        certificate,
	}, nil
}

// newCA returns a self-signed CA.
func newCA(now time.Time) (pki.Issuer, error) {
	key, err := newKey()
	if err != nil {
		return pki.Issuer{}, err
	}
	template := pki.CACertificate(newSerial(), now)
	certificate, err := sign(template, pki.Issuer{Certificate: template, Key: key}, key.Public())
	if err != nil {
		return pki.Issuer{}, err
	}
	metricIssued.WithLabelValues("ca").Inc()
	return pki.Issuer{Certificate: certificate, Key: key}, nil
}

func sign(template *x509.Certificate, issuer pki.Issuer, key crypto.PublicKey) (*x509.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, issuer.Certificate, key, issuer.Key)
	if err != nil {
		return nil, fmt.Errorf("signing a certificate: %w", err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("reading a signed certificate: %w", err)
	}
	return certificate, nil
}

func newKey() (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generating a key: %w", err)
	}
	return key, nil
}

// newSerial returns a random serial number.
func newSerial() *big.Int {
	var random [pki.SerialBytes]byte
	_, _ = rand.Read(random[:]) // it never fails: see crypto/rand
	return pki.Serial(random)
}
