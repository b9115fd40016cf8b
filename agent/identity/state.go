package identity

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/vdi-fleet/vdi-fleet/agent/link"
	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// Keys of the Secret. Those of a pair follow currentPrefix or nextPrefix.
const (
	currentPrefix = "current."
	nextPrefix    = "next."

	keyKey      = "key"      // PKCS#8 in PEM
	keyChain    = "crt"      // PEM, the agent's own first
	keyBundle   = "ca"       // PEM
	keyIssued   = "issued"   // RFC 3339, by the member's clock
	keyLifetime = "lifetime" // as Go writes durations

	keyPending    = "pending.key" // PKCS#8 in PEM
	keyPendingFor = "pending.for" // pending.purpose
	keyToken      = "token.sha256"
)

// pair is a certificate of the hub with its key.
type pair struct {
	key, chain, bundle []byte
	issued             time.Time
	lifetime           time.Duration

	cert  tls.Certificate
	roots *x509.CertPool
	// born is when its age was zero, by reading.boot, and due the age at which it is
	// rotated.
	born, due time.Duration
}

// pending is a key of a certificate request without an answer.
type pending struct {
	key []byte
	// purpose identifies the token or certificate of the request.
	purpose string
}

// state is the stored state. It is immutable.
type state struct {
	// current is the pair that the hub has accepted.
	current *pair
	// next was issued by the hub, and not accepted yet.
	next    *pair
	pending *pending
	// token is the hash of the last token that was used.
	token string
}

// forToken and forCertificate name the purpose of a pending key.
func forToken(token string) string { return "token:" + v1alpha1.JoinTokenSum(token) }

func forCertificate(p *pair) string { return "rotate:" + p.serial() }

// issued returns the state with the certificate for the pending key, whose request was sent
// at that time.
func (s state) issued(certificate *fleetv1.IssuedCertificate, sent reading) (state, error) {
	next := &pair{
		key: s.pending.key, chain: certificate.GetChain(), bundle: certificate.GetTrustBundle(),
		issued: sent.wall, lifetime: certificate.GetLifetime().AsDuration(), born: sent.boot,
	}
	if err := next.parse(); err != nil {
		return s, fmt.Errorf("reading the hub's answer: %w", err)
	}
	next.due = rotationAge(next.lifetime, sent.random)
	s.next, s.pending = next, nil
	return s, nil
}

// pairs returns the existing pairs, the newest first.
func (s state) pairs() []*pair {
	return slices.DeleteFunc([]*pair{s.next, s.current}, func(p *pair) bool { return p == nil })
}

// parse validates a pair and prepares it for use.
func (p *pair) parse() error {
	cert, err := tls.X509KeyPair(p.chain, p.key)
	if err != nil {
		return fmt.Errorf("parsing a certificate and its key: %w", err)
	}
	p.roots = x509.NewCertPool()
	if !p.roots.AppendCertsFromPEM(p.bundle) {
		return errors.New("the trust bundle has no certificate")
	}
	if p.lifetime <= 0 {
		return fmt.Errorf("the lifetime is %s", p.lifetime)
	}
	p.cert = cert
	return nil
}

func (p *pair) serial() string { return p.cert.Leaf.SerialNumber.Text(16) }

func (p *pair) credential(replaced <-chan struct{}) *link.Credential {
	return &link.Credential{
		Certificate: p.cert, Roots: p.roots, TrustBundleHash: v1alpha1.TrustBundleHash(p.bundle), Replaced: replaced,
	}
}

// encode returns the state as the Secret has it.
func (s state) encode() map[string][]byte {
	data := map[string][]byte{}
	if s.token != "" {
		data[keyToken] = []byte(s.token)
	}
	if s.pending != nil {
		data[keyPending], data[keyPendingFor] = s.pending.key, []byte(s.pending.purpose)
	}
	s.current.encode(currentPrefix, data)
	s.next.encode(nextPrefix, data)
	return data
}

func (p *pair) encode(prefix string, data map[string][]byte) {
	if p == nil {
		return
	}
	maps.Copy(data, map[string][]byte{
		prefix + keyKey: p.key, prefix + keyChain: p.chain, prefix + keyBundle: p.bundle,
		prefix + keyIssued:   []byte(p.issued.UTC().Format(time.RFC3339)),
		prefix + keyLifetime: []byte(p.lifetime.String()),
	})
}

// decode reads the Secret. Parts that can't be read are omitted and returned as an error.
func decode(data map[string][]byte, now reading) (state, error) {
	s := state{token: string(data[keyToken])}
	if key := data[keyPending]; len(key) > 0 {
		s.pending = &pending{key: key, purpose: string(data[keyPendingFor])}
	}
	var currentErr, nextErr error
	s.current, currentErr = decodePair(currentPrefix, data, now)
	s.next, nextErr = decodePair(nextPrefix, data, now)
	return s, errors.Join(currentErr, nextErr)
}

func decodePair(prefix string, data map[string][]byte, now reading) (*pair, error) {
	p := &pair{key: data[prefix+keyKey], chain: data[prefix+keyChain], bundle: data[prefix+keyBundle]}
	if len(p.key) == 0 && len(p.chain) == 0 {
		return nil, nil
	}
	// ageByWall handles a zero time.
	p.issued, _ = time.Parse(time.RFC3339, string(data[prefix+keyIssued]))
	var err error
	if p.lifetime, err = time.ParseDuration(string(data[prefix+keyLifetime])); err != nil {
		return nil, fmt.Errorf("reading %s%s: %w", prefix, keyLifetime, err)
	}
	if err := p.parse(); err != nil {
		return nil, fmt.Errorf("reading %s*: %w", prefix, err)
	}
	p.born = now.boot - ageByWall(p.issued, now.wall, p.lifetime)
	p.due = rotationAge(p.lifetime, now.random)
	return p, nil
}

// same reports whether a credential and a pair have the same certificate.
func same(c *link.Credential, p *pair) bool {
	return c != nil && p != nil && bytes.Equal(c.Certificate.Leaf.Raw, p.cert.Leaf.Raw)
}
