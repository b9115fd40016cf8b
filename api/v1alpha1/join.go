package v1alpha1

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// A member joins with a token "<id>.<secret>". What the hub keeps of it is a
// Secret in its own namespace, named JoinTokenPrefix and the id, of type
// JoinTokenType and owned by the MemberCluster. It holds no secret.
const (
	// JoinTokenPrefix begins the names of join tokens' Secrets.
	JoinTokenPrefix = "join-"
	// JoinTokenType is the type of their Secrets.
	JoinTokenType corev1.SecretType = "vdi.kasm.io/join-token"
	// JoinTokenMember is the key of the MemberCluster's name.
	JoinTokenMember = "member"
	// JoinTokenMemberUID is the key of the MemberCluster's UID: a MemberCluster
	// that was recreated under the same name needs a token of its own.
	JoinTokenMemberUID = "memberUID"
	// JoinTokenHash is the key of the SHA-256 of the whole token, in lower case
	// hexadecimal digits.
	JoinTokenHash = "sha256"
	// JoinTokenExpires is the key of the time at which the token expires
	// (RFC 3339, by the hub's clock), at most JoinTokenLifetime from the
	// Secret's creation.
	JoinTokenExpires = "expires"
	// JoinTokenUsedBy is the key of the SHA-256 of the public key for which the
	// token was used, by the hub: an agent that did not get its answer may ask
	// again with the same key, and nobody else.
	JoinTokenUsedBy = "usedBy"
)

// JoinTokenLifetime is the longest that a token is valid.
const JoinTokenLifetime = time.Hour

// joinToken is what every token looks like: an id of 6 to 32 lower case letters
// and digits, and a secret of 32 to 128 characters of an URL, which is 128 bits
// at the least, however it was written.
var joinToken = regexp.MustCompile(`^[a-z0-9]{6,32}\.[A-Za-z0-9_-]{32,128}$`)

// JoinTokenID is the id of a token, by which its Secret is found; false if the
// text is no token.
func JoinTokenID(token string) (string, bool) {
	if !joinToken.MatchString(token) {
		return "", false
	}
	id, _, _ := strings.Cut(token, ".")
	return id, true
}

// JoinTokenSum is what the hub keeps of a token under JoinTokenHash.
func JoinTokenSum(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}
