package guard

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"
)

// Where the endpoint answers guards, and where gates.
const (
	leasePath = "/v1/lease"
	gatePath  = "/v1/gate"
)

// Errors of guards and gates without a lease.
var (
	errNoLease   = errors.New("the agent has not said yet that the desktop may run")
	errSignature = errors.New("the answer is not the agent's")
)

// question is the request of a guard or a gate.
type question struct {
	// gate is set if it is whether a desktop may start, and not for how long one may go on.
	gate bool
	// namespace, name and uid of the assignment.
	namespace, name, uid string
	// nonce is random for each request, in hexadecimal digits.
	nonce string
}

func newNonce() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // It never fails.
	return hex.EncodeToString(b[:])
}

func (q question) query() string {
	return url.Values{"namespace": {q.namespace}, "name": {q.name}, "uid": {q.uid}, "nonce": {q.nonce}}.Encode()
}

func (q question) path() string {
	if q.gate {
		return gatePath
	}
	return leasePath
}

// questionOf reads a request. The maximal lengths are those of the API.
func questionOf(u *url.URL) (question, bool) {
	v := u.Query()
	q := question{u.Path == gatePath, v.Get("namespace"), v.Get("name"), v.Get("uid"), v.Get("nonce")}
	fits := func(s string, most int) bool { return s != "" && len(s) <= most }
	return q, u.Path == q.path() && fits(q.namespace, 63) && fits(q.name, 253) && fits(q.uid, 128) && fits(q.nonce, 64)
}

// answer is the agent's response.
type answer struct {
	// Left is for how long the desktop may go on, in nanoseconds. A gate ignores it.
	Left int64 `json:"left"`
	// Signature of the request and of Left.
	Signature []byte `json:"signature"`
}

// signed returns the text that is signed. None of its parts can contain a newline. A gate
// does not accept the answer to a guard.
func (q question) signed(left int64) []byte {
	kind := "vdi-fleet guard lease 1\n"
	if q.gate {
		kind = "vdi-fleet gate 1\n"
	}
	return []byte(kind + q.uid + "\n" + q.nonce + "\n" + strconv.FormatInt(left, 10))
}

func sign(key ed25519.PrivateKey, q question, left time.Duration) answer {
	return answer{Left: int64(left), Signature: ed25519.Sign(key, q.signed(int64(left)))}
}

// verify returns what is left according to an answer.
func (q question) verify(key ed25519.PublicKey, a answer) (time.Duration, error) {
	if !ed25519.Verify(key, q.signed(a.Left), a.Signature) {
		return 0, errSignature
	}
	return time.Duration(a.Left), nil
}

func publicText(key ed25519.PrivateKey) string {
	return base64.StdEncoding.EncodeToString(key.Public().(ed25519.PublicKey))
}

// parsePublic reads a public key as publicText writes it.
func parsePublic(text string) (ed25519.PublicKey, error) {
	key, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("reading the agent's key: %w", err)
	}
	if len(key) != ed25519.PublicKeySize {
		return nil, fmt.Errorf("reading the agent's key: it has %d bytes, not %d", len(key), ed25519.PublicKeySize)
	}
	return key, nil
}
