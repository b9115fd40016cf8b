package v1alpha1

import (
	"crypto/sha256"
	"encoding/base32"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// maxNameLength is the length of a DNS label (RFC 1123), which names of Pods
// and Services, label values and the first part of a host must fit.
const maxNameLength = 63

// hashLength of a name's hash: 50 bits, so that a million names in a member
// collide with a chance of less than one in two thousand.
const hashLength = 10

var nameEncoding = base32.NewEncoding("0123456789abcdefghijklmnopqrstuv").WithPadding(base32.NoPadding)

// AssignmentName is the name of a session's assignment and of its children in
// a member, and the first label of its host: a readable prefix and a hash of
// the session's UID, at most 63 characters, a DNS label. A session recreated
// under the same name, or a-b/c beside a/b-c, never gets the other's.
func AssignmentName(sessionName string, uid types.UID) string {
	return nameWithHash(sessionName, string(uid))
}

// HomeName is the name of a PerUser home's record on the hub and of its claim
// in a member: the same for every session of that user and template in a
// namespace.
func HomeName(namespace, user, template string) string {
	return nameWithHash("home-"+template, namespace+"\x00"+user+"\x00"+template)
}

// HomeClaimName is the name of a PerUser home's claim in a member. Each fresh
// home is of a higher generation and has a claim of its own.
func HomeClaimName(namespace, user, template string, generation int64) string {
	if generation <= 1 {
		return HomeName(namespace, user, template)
	}
	return nameWithHash("home-"+template, namespace+"\x00"+user+"\x00"+template+"\x00"+strconv.FormatInt(generation, 10))
}

// AccessSecretName is the name of an assignment's access secret in a member.
func AccessSecretName(assignment string) string { return assignment + "-access" }

// SentSecretName is the name in a member of a Secret of the hub that travels
// with an assignment: two assignments never share one.
func SentSecretName(assignment, secret string) string {
	return nameWithHash(secret, assignment+"\x00"+secret)
}

func nameWithHash(readable, unique string) string {
	sum := sha256.Sum256([]byte(unique))
	hash := nameEncoding.EncodeToString(sum[:])[:hashLength]
	prefix := dnsLabel(readable)
	if room := maxNameLength - hashLength - 1; len(prefix) > room {
		prefix = strings.TrimRight(prefix[:room], "-")
	}
	return prefix + "-" + hash
}

// dnsLabel makes a text a DNS label that begins with a letter, as the names
// of Services must (RFC 1035).
func dnsLabel(s string) string {
	b := make([]byte, 0, len(s))
	for _, c := range []byte(strings.ToLower(s)) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			c = '-'
		}
		b = append(b, c)
	}
	out := strings.Trim(string(b), "-")
	if out == "" || out[0] < 'a' {
		out = strings.TrimRight("s-"+out, "-")
	}
	return out
}
