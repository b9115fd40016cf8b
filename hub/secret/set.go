package secret

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// maxSize is the largest Secret in bytes that can be sent: 16 of them fit a message of the
// link.
const maxSize = 128 << 10

// NotAssignableError is why no assignment can be rendered for a session until a person
// changes something. It is shown on the session.
type NotAssignableError struct{ Reason, Message string }

func (u *NotAssignableError) Error() string { return u.Message }

// NamedBy returns the Secrets that a template names, each once.
func NamedBy(t *v1alpha1.TemplateSpec) []string {
	var out []string
	add := func(name string) {
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	for _, p := range t.ImagePullSecrets {
		add(p.Name)
	}
	for i := range t.Secrets {
		add(t.Secrets[i].Name)
	}
	return out
}

func sizeOf(data map[string][]byte) int {
	size := 0
	for key, value := range data {
		size += len(key) + len(value)
	}
	return size
}

// versionLength in hex digits: 64 bits tell apart the contents that one Secret ever has.
const versionLength = 16

// Set holds the Secrets that are sent with an assignment, as the member is to have them.
// The zero value is none.
type Set struct {
	// Access is the session's access secret; nil: there is none.
	Access *v1alpha1.SecretPayload
	// Distributed, by the names that the template gives them.
	Distributed map[string]v1alpha1.SecretPayload
}

// Payload returns the contents of the Secrets by their names in the member. It is added to
// an assignment only when that is sent.
func (s Set) Payload() []v1alpha1.SecretPayload {
	var out []v1alpha1.SecretPayload
	if s.Access != nil {
		out = append(out, *s.Access)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Distributed)) {
		out = append(out, s.Distributed[name])
	}
	return out
}

// References returns names and versions of the Secrets.
func (s Set) References() []v1alpha1.SecretReference {
	var out []v1alpha1.SecretReference
	for _, p := range s.Payload() {
		out = append(out, v1alpha1.SecretReference{Name: p.Name, Version: p.Version})
	}
	return out
}

// nameInMember returns the member's name of a Secret that a template names. One that the hub
// does not distribute must exist there under its own name.
func (s Set) nameInMember(name string) string {
	if p, ok := s.Distributed[name]; ok {
		return p.Name
	}
	return name
}

// PullSecrets returns the template's image pull secrets by their names in the member.
func (s Set) PullSecrets(t *v1alpha1.TemplateSpec) []corev1.LocalObjectReference {
	out := slices.Clone(t.ImagePullSecrets)
	for i := range out {
		out[i].Name = s.nameInMember(out[i].Name)
	}
	return out
}

// Uses returns the template's uses of Secrets by their names in the member.
func (s Set) Uses(t *v1alpha1.TemplateSpec) []v1alpha1.SecretUse {
	out := slices.Clone(t.Secrets)
	for i := range out {
		out[i].Name = s.nameInMember(out[i].Name)
	}
	return out
}

// AssignedAccess returns how the desktop gets its credentials.
func (s Set) AssignedAccess(t *v1alpha1.TemplateSpec) v1alpha1.AssignedAccess {
	if s.Access == nil {
		return v1alpha1.AssignedAccess{}
	}
	return v1alpha1.AssignedAccess{SecretName: s.Access.Name, PasswordEnv: t.Access.PasswordEnv}
}

// versionOf returns the version of a Secret's content, keyed by the Secret's UID so that
// contents cannot be guessed from it.
func versionOf(uid types.UID, kind corev1.SecretType, data map[string][]byte) string {
	mac := hmac.New(sha256.New, []byte(uid))
	part := func(b []byte) {
		mac.Write(binary.BigEndian.AppendUint64(nil, uint64(len(b))))
		mac.Write(b)
	}
	part([]byte(kind))
	for _, key := range slices.Sorted(maps.Keys(data)) {
		part([]byte(key))
		part(data[key])
	}
	return hex.EncodeToString(mac.Sum(nil))[:versionLength]
}

// payloadOf returns a Secret of the hub under its name in the member.
func payloadOf(secret *corev1.Secret, name string, data map[string][]byte) v1alpha1.SecretPayload {
	return v1alpha1.SecretPayload{Name: name, Version: versionOf(secret.UID, secret.Type, data), Type: secret.Type, Data: data}
}
