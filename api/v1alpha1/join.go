package v1alpha1

import (
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
