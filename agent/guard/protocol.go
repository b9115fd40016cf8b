package guard

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"
)

// The endpoint's paths for guards and for gates.
const (
	leasePath = "/v1/lease"
	gatePath  = "/v1/gate"
)

// Errors of guards and gates without a permission.
var (
	errNoLease   = errors.New("the agent has not permitted the desktop to run yet")
	errSignature = errors.New("the answer is not signed by the agent")
)

// permissionRequest is the request of a guard or a gate.
type permissionRequest struct {
	// gate is set if it is a gate's.
	gate bool
	// namespace, name and uid of the assignment.
	namespace, name, uid string
	// nonce is random for each request.
	nonce string
}

func (q permissionRequest) query() string {
	return url.Values{"namespace": {q.namespace}, "name": {q.name}, "uid": {q.uid}, "nonce": {q.nonce}}.Encode()
}

func (q permissionRequest) path() string {
	if q.gate {
		return gatePath
	}
	return leasePath
}

// parseRequest reads a request. The maximal lengths are those of the API.
func parseRequest(u *url.URL) (permissionRequest, bool) {
	v := u.Query()
	q := permissionRequest{u.Path == gatePath, v.Get("namespace"), v.Get("name"), v.Get("uid"), v.Get("nonce")}
	fits := func(s string, limit int) bool { return s != "" && len(s) <= limit }
	return q, u.Path == q.path() && fits(q.namespace, 63) && fits(q.name, 253) && fits(q.uid, 128) && fits(q.nonce, 64)
}

// answer is the agent's response.
type answer struct {
	// Left is how long the desktop may go on, in nanoseconds. A gate ignores it.
	Left int64 `json:"left"`
	// Signature of the request and of Left.
	Signature []byte `json:"signature"`
}

// signed returns the text that is signed. None of its parts can contain a newline. A gate
// does not accept the answer to a guard.
func (q permissionRequest) signed(left int64) []byte {
	kind := "vdi-fleet guard lease 1\n"
	if q.gate {
		kind = "vdi-fleet gate 1\n"
	}
	return []byte(kind + q.uid + "\n" + q.nonce + "\n" + strconv.FormatInt(left, 10))
}

func sign(key ed25519.PrivateKey, q permissionRequest, left time.Duration) answer {
	return answer{Left: int64(left), Signature: ed25519.Sign(key, q.signed(int64(left)))}
}

// verify returns the remaining lease of an answer.
func (q permissionRequest) verify(key ed25519.PublicKey, a answer) (time.Duration, error) {
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
