package v1alpha1

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// A member joins with a token "<id>.<secret>". The hub keeps only its hash, in a Secret in
// the hub's namespace that is named JoinTokenPrefix and the ID, has type JoinTokenType and
// is owned by the MemberCluster.
const (
	// JoinTokenPrefix is the prefix of the names of these Secrets.
	JoinTokenPrefix = "join-"
	// JoinTokenType is the type of these Secrets.
	JoinTokenType corev1.SecretType = "vdi.kasm.io/join-token"
	// JoinTokenMember is the key of the MemberCluster's name.
	JoinTokenMember = "member"
	// JoinTokenMemberUID is the key of the MemberCluster's UID: a MemberCluster that is
	// recreated under the same name needs a new token.
	JoinTokenMemberUID = "memberUID"
	// JoinTokenHash is the key of the SHA-256 of the whole token, in lower-case
	// hexadecimal digits.
	JoinTokenHash = "sha256"
	// JoinTokenExpires is the key of the time at which the token expires (RFC 3339, by
	// the hub's clock), at most JoinTokenLifetime after the creation of the Secret.
	JoinTokenExpires = "expires"
	// JoinTokenUsedBy is the key of the SHA-256 of the public key that used the token;
	// the hub sets it. An agent that did not receive the answer may repeat the request
	// with the same key; no other key is accepted.
	JoinTokenUsedBy = "usedBy"
)

// JoinTokenLifetime is the longest validity of a token.
const JoinTokenLifetime = time.Hour

// joinToken matches a token: an ID of 6 to 32 lower-case letters and digits, and a secret
// of 32 to 128 URL-safe characters, which is at least 128 bits in any encoding.
var joinToken = regexp.MustCompile(`^[a-z0-9]{6,32}\.[A-Za-z0-9_-]{32,128}$`)

// JoinTokenID returns the ID of a token, by which its Secret is named; false if the text
// is not a token.
func JoinTokenID(token string) (string, bool) {
	if !joinToken.MatchString(token) {
		return "", false
	}
	id, _, _ := strings.Cut(token, ".")
	return id, true
}

// JoinTokenSum returns the value of JoinTokenHash for a token.
func JoinTokenSum(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// AgentBootstrap is the Secret in the agent's namespace with the hub's address and the
// join token. Once joined, the agent deletes the token; while it is not connected, it
// joins with a new one.
const (
	AgentBootstrap = "vdi-agent-bootstrap"
	// BootstrapMember is the key of the MemberCluster's name, for information only.
	BootstrapMember = "member"
	// BootstrapHub is the key of the host and port of the hub.
	BootstrapHub = "hub"
	// BootstrapServerName is the key of the DNS name in the hub's certificate; defaults
	// to the host of BootstrapHub.
	BootstrapServerName = "serverName"
	// BootstrapCAHash is the key of the hashes of the hub's CAs, comma-separated: one of
	// them must have issued its certificate.
	BootstrapCAHash = "caHash"
	// BootstrapToken is the key of the join token.
	BootstrapToken = "token"
)
