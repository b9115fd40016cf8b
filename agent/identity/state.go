package identity

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
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
	keyPendingFor = "pending.for" // what it is asked with
	keyToken      = "token.sha256"
)

// pair is a certificate that the hub gave, with its key.
type pair struct {
	key, chain, bundle []byte
	issued             time.Time
	lifetime           time.Duration

	cert  tls.Certificate
	roots *x509.CertPool
	// born is when its age was nothing, and due the age at which it is to be
	// rotated; by the clock that never stands still.
	born, due time.Duration
}

// pending is a key that the hub was asked, or is about to be asked, to certify.
type pending struct {
	key []byte
	// purpose is what it is asked with: a token or a certificate.
	purpose string
}

// state is all that is stored. It is never changed in place.
type state struct {
	// current is the pair that the hub has accepted.
	current *pair
	// next was issued by the hub and not accepted yet.
	next *pair
	// pending has had no answer yet.
	pending *pending
	// token is the hash of the last token that was used up.
	token string
}

// forToken and forCertificate name the purpose of a pending key.
func forToken(token string) string { return "token:" + v1alpha1.JoinTokenSum(token) }

func forCertificate(p *pair) string { return "rotate:" + p.serial() }

// withKey returns the state in which there is a pending key for the purpose: the
// one that there is, so that an answer that was lost can be asked for again,
// or the one that newKey makes.
func (s state) withKey(purpose string, newKey func() ([]byte, error)) (state, error) {
	if s.pending != nil && s.pending.purpose == purpose {
		return s, nil
	}
	key, err := newKey()
	if err != nil {
		return s, err
	}
	s.pending = &pending{key: key, purpose: purpose}
	return s, nil
}

// answered returns the state after the hub's answer about the pending key, for which
// it was asked at that time.
func (s state) answered(issued *fleetv1.IssuedCertificate, asked reading) (state, error) {
	next := &pair{
		key: s.pending.key, chain: issued.GetChain(), bundle: issued.GetTrustBundle(),
		issued: asked.wall, lifetime: issued.GetLifetime().AsDuration(), born: asked.boot,
	}
	if err := next.parse(); err != nil {
		return s, fmt.Errorf("reading the hub's answer: %w", err)
	}
	next.due = rotationAge(next.lifetime, asked.random)
	s.next, s.pending = next, nil
	return s, nil
}

// used returns the state after the hub has accepted the next pair: it is the current
// one, and the one before is forgotten.
func (s state) used() state {
	s.current, s.next = s.next, nil
	return s
}

// pairs returns those that there are, the newest first.
func (s state) pairs() []*pair {
	return slices.DeleteFunc([]*pair{s.next, s.current}, func(p *pair) bool { return p == nil })
}

// parse checks that a pair is whole, and prepares it for use.
func (p *pair) parse() error {
	cert, err := tls.X509KeyPair(p.chain, p.key)
	if err != nil {
		return fmt.Errorf("a certificate and its key: %w", err)
	}
	p.roots = x509.NewCertPool()
	if !p.roots.AppendCertsFromPEM(p.bundle) {
		return errors.New("there is no certificate in the trust bundle")
	}
	if p.lifetime <= 0 {
		return fmt.Errorf("a lifetime of %s", p.lifetime)
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

// decode reads the Secret. Parts that can't be read are omitted and returned as an error:
// the others may still be of use.
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
	// When it was issued is in doubt if it can't be read: see ageByWall.
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

// same reports whether two credentials are of one certificate.
func same(c *link.Credential, p *pair) bool {
	return c != nil && p != nil && bytes.Equal(c.Certificate.Leaf.Raw, p.cert.Leaf.Raw)
}

// hashes reads a list of hashes of CAs.
func hashes(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' })
}
