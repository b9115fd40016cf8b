package pki

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// Keys of the CA's Secret for a rotation, beside those of the API.
const (
	keyNextCertificate = "next.crt"
	keyNextKey         = "next.key"
	keyStage           = "stage"
	keySince           = "stageSince"
)

// Stage of a rotation of the CA.
type Stage string

// The stages, in their order.
const (
	// StageStable: there is one CA.
	StageStable Stage = "Stable"
	// StageDistributing: the old CA issues, both are trusted, and agents are sent both.
	StageDistributing Stage = "Distributing"
	// StageReissuing: the new CA issues, both are trusted, and agents rotate their
	// certificates.
	StageReissuing Stage = "Reissuing"
)

// Issuer is a CA: its certificate and its key.
type Issuer struct {
	Certificate *x509.Certificate
	Key         crypto.Signer
}

// Hash returns the hash of the CA's certificate.
func (i Issuer) Hash() string { return v1alpha1.CertificateHash(i.Certificate.Raw) }

// State of the hub's CA, as stored in its Secret.
type State struct {
	// Issuer of new certificates.
	Issuer Issuer
	// Next issuer, only in StageDistributing.
	Next *Issuer
	// Bundle of the trusted CAs.
	Bundle []*x509.Certificate
	// Stage of the rotation, and when it began.
	Stage Stage
	Since time.Time
}

// NewState returns the state of a hub with its first CA.
func NewState(first Issuer, now time.Time) State {
	return State{Issuer: first, Bundle: []*x509.Certificate{first.Certificate}, Stage: StageStable, Since: now}
}

// BundlePEM returns the agents' trust bundle.
func (s State) BundlePEM() []byte { return CertificatesPEM(s.Bundle...) }

// BundleHash returns the hash by which agents report their trust bundle.
func (s State) BundleHash() string { return v1alpha1.TrustBundleHash(s.BundlePEM()) }

// CertificatesPEM returns concatenated certificates.
func CertificatesPEM(certificates ...*x509.Certificate) []byte {
	var out bytes.Buffer
	for _, c := range certificates {
		out.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}))
	}
	return out.Bytes()
}

// Data returns the data of the Secret that stores the state.
func (s State) Data() (map[string][]byte, error) {
	key, err := keyPEM(s.Issuer.Key)
	if err != nil {
		return nil, err
	}
	data := map[string][]byte{
		v1alpha1.AuthorityCertificate: CertificatesPEM(s.Issuer.Certificate),
		v1alpha1.AuthorityKey:         key,
		v1alpha1.AuthorityBundle:      s.BundlePEM(),
		keyStage:                      []byte(s.Stage),
		keySince:                      []byte(s.Since.UTC().Format(time.RFC3339)),
	}
	if s.Next != nil {
		if key, err = keyPEM(s.Next.Key); err != nil {
			return nil, err
		}
		data[keyNextCertificate], data[keyNextKey] = CertificatesPEM(s.Next.Certificate), key
	}
	return data, nil
}

func keyPEM(key crypto.Signer) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("writing the CA's key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

// ReadState reads what Data wrote. Its errors quote nothing of a key.
func ReadState(data map[string][]byte) (State, error) {
	s := State{Stage: Stage(data[keyStage])}
	var err error
	if s.Issuer, err = readIssuer(data, v1alpha1.AuthorityCertificate, v1alpha1.AuthorityKey); err != nil {
		return State{}, err
	}
	if s.Bundle, err = readCertificates(data, v1alpha1.AuthorityBundle); err != nil {
		return State{}, err
	}
	if s.Since, err = time.Parse(time.RFC3339, string(data[keySince])); err != nil {
		return State{}, fmt.Errorf("%s is no time", keySince)
	}
	if s.Stage == StageDistributing {
		next, err := readIssuer(data, keyNextCertificate, keyNextKey)
		if err != nil {
			return State{}, err
		}
		s.Next = &next
	}
	return s, s.check()
}

func (s State) check() error {
	trusted := func(c *x509.Certificate) bool { return slices.ContainsFunc(s.Bundle, c.Equal) }
	switch {
	case !slices.Contains([]Stage{StageStable, StageDistributing, StageReissuing}, s.Stage):
		return fmt.Errorf("%s is none of %s, %s and %s", keyStage, StageStable, StageDistributing, StageReissuing)
	case !trusted(s.Issuer.Certificate):
		return fmt.Errorf("%s is not in %s", v1alpha1.AuthorityCertificate, v1alpha1.AuthorityBundle)
	case s.Next != nil && !trusted(s.Next.Certificate):
		return fmt.Errorf("%s is not in %s", keyNextCertificate, v1alpha1.AuthorityBundle)
	}
	return nil
}

func readIssuer(data map[string][]byte, certificate, key string) (Issuer, error) {
	certificates, err := readCertificates(data, certificate)
	if err != nil {
		return Issuer{}, err
	}
	if len(certificates) != 1 {
		return Issuer{}, fmt.Errorf("%s has %d certificates instead of one", certificate, len(certificates))
	}
	signer, err := readKey(data[key])
	if err != nil {
		return Issuer{}, fmt.Errorf("%s: %w", key, err)
	}
	if public, ok := signer.Public().(*ecdsa.PublicKey); !ok || !public.Equal(certificates[0].PublicKey) {
		return Issuer{}, fmt.Errorf("%s is not the key of %s", key, certificate)
	}
	return Issuer{Certificate: certificates[0], Key: signer}, nil
}

func readKey(text []byte) (crypto.Signer, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "PRIVATE KEY" {
		return nil, errors.New("it is no PKCS#8 key in PEM")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, errors.New("it is no PKCS#8 key")
	}
	signer, ok := key.(*ecdsa.PrivateKey)
	if !ok {
		return nil, errors.New("it is no ECDSA key")
	}
	return signer, nil
}

func readCertificates(data map[string][]byte, key string) ([]*x509.Certificate, error) {
	var out []*x509.Certificate
	for block, rest := pem.Decode(data[key]); block != nil; block, rest = pem.Decode(rest) {
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%s can't be read: %w", key, err)
		}
		if !c.IsCA || c.KeyUsage&x509.KeyUsageCertSign == 0 {
			return nil, fmt.Errorf("%s has a certificate that is not of a CA", key)
		}
		out = append(out, c)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s has no certificate", key)
	}
	return out, nil
}
