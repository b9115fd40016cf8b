package session

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

const (
	// accessUser is the username of every access secret.
	accessUser = "desktop"
	// passwordBytes of a password: 160 random bits, 32 characters.
	passwordBytes = 20
	// longestPassword that a user may choose.
	longestPassword = 256
	// versionLength in hex digits: 64 bits tell apart the contents that one
	// Secret ever has.
	versionLength = 16
)

// Secrets are the Secrets of the hub that travel with an assignment, as the
// member is to have them. The zero value is none.
type Secrets struct {
	// Access is the session's access secret; nil: there is none.
	Access *v1alpha1.SecretPayload
	// Distributed, by the names that the template gives them.
	Distributed map[string]v1alpha1.SecretPayload
}

// Payload is what is in the Secrets, by their names in the member. It is given
// to an assignment only when that is sent.
func (s Secrets) Payload() []v1alpha1.SecretPayload {
	var out []v1alpha1.SecretPayload
	if s.Access != nil {
		out = append(out, *s.Access)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Distributed)) {
		out = append(out, s.Distributed[name])
	}
	return out
}

func (s Secrets) references() []v1alpha1.SecretReference {
	var out []v1alpha1.SecretReference
	for _, p := range s.Payload() {
		out = append(out, v1alpha1.SecretReference{Name: p.Name, Version: p.Version})
	}
	return out
}

// inMember is the name by which the member has a Secret that a template names:
// one that the hub does not distribute must live there under its own.
func (s Secrets) inMember(name string) string {
	if p, ok := s.Distributed[name]; ok {
		return p.Name
	}
	return name
}

func (s Secrets) pullSecrets(t *v1alpha1.TemplateSpec) []corev1.LocalObjectReference {
	out := slices.Clone(t.ImagePullSecrets)
	for i := range out {
		out[i].Name = s.inMember(out[i].Name)
	}
	return out
}

func (s Secrets) uses(t *v1alpha1.TemplateSpec) []v1alpha1.SecretUse {
	out := slices.Clone(t.Secrets)
	for i := range out {
		out[i].Name = s.inMember(out[i].Name)
	}
	return out
}

func (s Secrets) access(t *v1alpha1.TemplateSpec) v1alpha1.AssignedAccess {
	if s.Access == nil {
		return v1alpha1.AssignedAccess{}
	}
	return v1alpha1.AssignedAccess{SecretName: s.Access.Name, PasswordEnv: t.Access.PasswordEnv}
}

// accessSecretName is the name on the hub of a session's access secret; empty
// where its template asks for none.
func accessSecretName(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec) string {
	if t.Access.Mode == v1alpha1.AccessNone {
		return ""
	}
	return v1alpha1.AssignmentName(s.Name, s.UID)
}

// versionOf is the version of a Secret's content. It is keyed by the Secret's
// UID, so that nobody can try out contents on it.
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

// payloadOf is a Secret of the hub under the name that it has in the member.
func payloadOf(secret *corev1.Secret, name string, data map[string][]byte) v1alpha1.SecretPayload {
	return v1alpha1.SecretPayload{Name: name, Version: versionOf(secret.UID, secret.Type, data), Type: secret.Type, Data: data}
}

// runOf is the epoch and run that a session's access secret is made for.
func runOf(p *v1alpha1.Placement) run {
	return run{epoch: p.Epoch, number: p.Run}
}

// run of a session: they are in an order over all of its placements.
type run struct{ epoch, number int64 }

func (r run) String() string { return fmt.Sprintf("%d.%d", r.epoch, r.number) }

// before is whether another run came later.
func (r run) before(other run) bool {
	return r.epoch < other.epoch || r.epoch == other.epoch && r.number < other.number
}

// parseRun reads what String writes; false where it is something else.
func parseRun(text string) (run, bool) {
	var r run
	n, err := fmt.Sscanf(text, "%d.%d", &r.epoch, &r.number)
	return r, err == nil && n == 2 && r.String() == text
}

// newAccessSecret is the access secret of a session's run, with a password that
// nobody knows yet.
func newAccessSecret(s *v1alpha1.VDISession, of run) *corev1.Secret {
	secret := &corev1.Secret{Type: corev1.SecretTypeBasicAuth}
	secret.Namespace, secret.Name = s.Namespace, v1alpha1.AssignmentName(s.Name, s.UID)
	controller := true
	secret.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: "VDISession", Name: s.Name, UID: s.UID, Controller: &controller,
	}}
	dressAccessSecret(secret, of)
	renewPassword(secret)
	return secret
}

// dressAccessSecret puts on the labels by which the hub finds the secret, and
// the run that it is of.
func dressAccessSecret(secret *corev1.Secret, of run) {
	metav1.SetMetaDataLabel(&secret.ObjectMeta, v1alpha1.LabelSecret, v1alpha1.SecretAccess)
	metav1.SetMetaDataLabel(&secret.ObjectMeta, v1alpha1.LabelManagedBy, v1alpha1.ManagedBy)
	metav1.SetMetaDataAnnotation(&secret.ObjectMeta, v1alpha1.AnnotationRun, of.String())
}

func renewPassword(secret *corev1.Secret) {
	random := make([]byte, passwordBytes)
	_, _ = rand.Read(random) // it never fails: see crypto/rand
	password := strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(random))
	secret.Data = map[string][]byte{
		corev1.BasicAuthUsernameKey: []byte(accessUser),
		corev1.BasicAuthPasswordKey: []byte(password),
	}
}

// ownedBy is whether a Secret is a session's own.
func ownedBy(secret *corev1.Secret, s *v1alpha1.VDISession) bool {
	return slices.ContainsFunc(secret.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == s.UID })
}

// accessData is what travels of an access secret: nothing but the two keys. A
// password that its user has chosen is honoured; false where there is none that
// can be used.
func accessData(secret *corev1.Secret) (map[string][]byte, bool) {
	username, password := secret.Data[corev1.BasicAuthUsernameKey], secret.Data[corev1.BasicAuthPasswordKey]
	for _, v := range [][]byte{username, password} {
		if len(v) == 0 || len(v) > longestPassword {
			return nil, false
		}
	}
	return map[string][]byte{corev1.BasicAuthUsernameKey: username, corev1.BasicAuthPasswordKey: password}, true
}
