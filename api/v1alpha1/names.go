package v1alpha1

import (
	"crypto/sha256"
	"encoding/base32"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// maxNameLength is the length of a DNS label (RFC 1123), which limits names of Pods and
// Services, label values and the first label of a host.
const maxNameLength = 63

// hashLength is the length of a name's hash: 50 bits, so that the chance of a collision
// among a million names in a member is less than one in two thousand.
const hashLength = 10

// hashBytes are those that the characters of a hash are made of.
const hashBytes = (hashLength*5 + 7) / 8

var nameEncoding = base32.NewEncoding("0123456789abcdefghijklmnopqrstuv").WithPadding(base32.NoPadding)

// AssignmentName returns the name of a session's assignment and of its children in a
// member, which is also the first label of its host: a DNS label of a readable prefix and
// a hash of the session's UID. A session recreated under the same name, or a-b/c beside
// a/b-c, has another name.
func AssignmentName(sessionName string, uid types.UID) string {
	return nameWithHash(sessionName, string(uid))
}

// ReadablePart returns the part of an assignment's name that is made of its session's: all of the
// session's name, if that is short and a DNS label that begins with a letter.
func ReadablePart(assignment string) string {
	return assignment[:max(0, len(assignment)-hashLength-1)]
}

// HomeName returns the name of the VDIHome of a PerUser home, which is the same for every
// session of that user and template in a namespace.
func HomeName(namespace, user, template string) string {
	return nameWithHash("home-"+template, namespace+"\x00"+user+"\x00"+template)
}

// HomeClaimName returns the name of a PerUser home's claim in a member. Each fresh home
// has a higher generation and its own claim.
func HomeClaimName(namespace, user, template string, generation int64) string {
	if generation <= 1 {
		return HomeName(namespace, user, template)
	}
	return nameWithHash("home-"+template, namespace+"\x00"+user+"\x00"+template+"\x00"+strconv.FormatInt(generation, 10))
}

// AccessSecretName returns the name of an assignment's access secret in a member.
func AccessSecretName(assignment string) string { return assignment + "-access" }

// SentSecretName returns the name, in a member, of a Secret that the hub sends with an
// assignment. No two assignments share one.
func SentSecretName(assignment, secret string) string {
	return nameWithHash(secret, assignment+"\x00"+secret)
}

func nameWithHash(readable, unique string) string {
	sum := sha256.Sum256([]byte(unique))
	hash := nameEncoding.EncodeToString(sum[:hashBytes])[:hashLength]
	prefix := dnsLabel(readable)
	if maxPrefix := maxNameLength - hashLength - 1; len(prefix) > maxPrefix {
		prefix = strings.TrimRight(prefix[:maxPrefix], "-")
	}
	return prefix + "-" + hash
}

// dnsLabel returns the text as a DNS label that begins with a letter, as names of
// Services must (RFC 1035).
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

// IngressOrigin returns scheme, host and port of a desktop whose host begins with a label.
func (s *MemberClusterSpec) IngressOrigin(label string) string {
	origin := s.IngressScheme + "://" + label + "." + s.IngressDomain
	if s.IngressPort != 0 {
		origin += ":" + strconv.Itoa(int(s.IngressPort))
	}
	return origin
}
