package visit

import (
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// Pass is the console's permission for one browser to use one session.
type Pass struct {
	// SessionUID of the session.
	SessionUID string `json:"sid"`
	// Epoch of the session's placement: after a failover the pass opens nothing.
	Epoch int64 `json:"epoch"`
	// User who uses the session, for the audit log. An administrator may use the session of another user.
	User string `json:"sub"`
	// Challenge is the hash of the nonce that the browser has (Challenge).
	Challenge string `json:"chal"`
	// IssuedAt and Expires are in seconds since 1970.
	IssuedAt int64 `json:"iat"`
	Expires  int64 `json:"exp"`
}

const (
	// EnterWithin is for how long after its issue a browser can enter with a pass.
	EnterWithin = 30 * time.Second
	// leeway is by how much the clocks of console and door may differ.
	leeway = 5 * time.Second
	// maxToken is the length of a signed pass: user names have at most 253 characters.
	maxToken = 2048
)

// Errors of passes.
var (
	// ErrInvalid: the pass was not signed by the console, or is not a pass at all.
	ErrInvalid = errors.New("the pass is not valid")
	// ErrExpired: the login that the pass comes from is over, or it was issued too long ago to enter with.
	ErrExpired = errors.New("the pass is over")
	// ErrOtherBrowser: the pass was issued to another browser.
	ErrOtherBrowser = errors.New("the pass is for another browser")
	// ErrOtherSession: the pass is for another session, or for an earlier placement of this one.
	ErrOtherSession = errors.New("the pass is for another session")
)

// Sign returns a signed pass.
func Sign(p Pass, keyID string, key ed25519.PrivateKey) (string, error) {
	options := (&jose.SignerOptions{}).WithType("JWT").WithHeader("kid", keyID)
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: key}, options)
	if err != nil {
		return "", fmt.Errorf("preparing the signature of a pass: %w", err)
	}
	claims, err := json.Marshal(p)
	if err != nil {
		return "", err
	}
	signed, err := signer.Sign(claims)
	if err != nil {
		return "", fmt.Errorf("signing a pass: %w", err)
	}
	return signed.CompactSerialize()
}

// Keys are the console's public keys, by ID.
type Keys map[string]ed25519.PublicKey

// ParseKeys returns the keys of their form in JSON.
func ParseKeys(stored []byte) (Keys, error) {
	var keys Keys
	if err := json.Unmarshal(stored, &keys); err != nil {
		return nil, fmt.Errorf("reading the public keys of the console: %w", err)
	}
	for id, key := range keys {
		if len(key) != ed25519.PublicKeySize {
			return nil, fmt.Errorf("public key %s of the console has %d bytes, not %d", id, len(key), ed25519.PublicKeySize)
		}
	}
	return keys, nil
}

// Verify returns the pass of a signed one that a browser with a nonce presents. It does not check which session it is
// for.
func (k Keys) Verify(token, nonce string, now time.Time) (Pass, error) {
	if len(token) > maxToken {
		return Pass{}, ErrInvalid
	}
	signed, err := jose.ParseSignedCompact(token, []jose.SignatureAlgorithm{jose.EdDSA})
	if err != nil || len(signed.Signatures) != 1 {
		return Pass{}, ErrInvalid
	}
	key, ok := k[signed.Signatures[0].Protected.KeyID]
	if !ok {
		return Pass{}, ErrInvalid
	}
	claims, err := signed.Verify(key)
	if err != nil {
		return Pass{}, ErrInvalid
	}
	var p Pass
	if err := json.Unmarshal(claims, &p); err != nil || p.SessionUID == "" || p.Challenge == "" {
		return Pass{}, ErrInvalid
	}
	switch {
	case now.Unix() >= p.Expires, time.Unix(p.IssuedAt, 0).After(now.Add(leeway)):
		return Pass{}, ErrExpired
	case nonce == "" || subtle.ConstantTimeCompare([]byte(Challenge(nonce)), []byte(p.Challenge)) != 1:
		return Pass{}, ErrOtherBrowser
	}
	return p, nil
}

// MayEnter returns an error unless the pass was issued just now.
func (p Pass) MayEnter(now time.Time) error {
	if now.Sub(time.Unix(p.IssuedAt, 0)) > EnterWithin+leeway {
		return ErrExpired
	}
	return nil
}

// Opens returns an error unless the pass is for a session under an epoch.
func (p Pass) Opens(sessionUID string, epoch int64) error {
	if p.SessionUID != sessionUID || p.Epoch != epoch {
		return ErrOtherSession
	}
	return nil
}

// End returns when the pass is over.
func (p Pass) End() time.Time { return time.Unix(p.Expires, 0) }

// Challenge returns the challenge of a nonce (RFC 7636, S256).
func Challenge(nonce string) string {
	sum := sha256.Sum256([]byte(nonce))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}
