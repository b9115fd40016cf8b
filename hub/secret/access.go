package secret

import (
	"cmp"
	"crypto/rand"
	"encoding/base32"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
)

const (
	// defaultUsername of an access secret, if the template has none.
	defaultUsername = "desktop"
	// passwordBytes of a password: 160 random bits, 32 characters.
	passwordBytes = 20
	// longestPassword that a user may choose.
	maxPassword = 256
)

// AccessName returns the name on the hub of a session's access secret, or "" if its template
// has none.
func AccessName(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec) string {
	if t.Access.Mode == v1alpha1.AccessNone {
		return ""
	}
	return v1alpha1.AssignmentName(s.Name, s.UID)
}

// newAccess returns the access secret of a session's run, with a new random password.
func newAccess(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec, of status.Run) *corev1.Secret {
	secret := &corev1.Secret{Type: corev1.SecretTypeBasicAuth}
	secret.Namespace, secret.Name = s.Namespace, v1alpha1.AssignmentName(s.Name, s.UID)
	secret.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: "VDISession", Name: s.Name, UID: s.UID, Controller: ptr.To(true),
	}}
	setMetadata(secret, of)
	renewPassword(secret, t)
	return secret
}

// setMetadata sets the labels by which the hub finds the secret, and its run.
func setMetadata(secret *corev1.Secret, of status.Run) {
	metav1.SetMetaDataLabel(&secret.ObjectMeta, v1alpha1.LabelSecret, v1alpha1.SecretAccess)
	metav1.SetMetaDataLabel(&secret.ObjectMeta, v1alpha1.LabelManagedBy, v1alpha1.ManagedBy)
	metav1.SetMetaDataAnnotation(&secret.ObjectMeta, v1alpha1.AnnotationRun, of.String())
}

// hasMetadata reports whether setMetadata would change nothing.
func hasMetadata(secret *corev1.Secret, of status.Run) bool {
	return secret.Labels[v1alpha1.LabelSecret] == v1alpha1.SecretAccess &&
		secret.Labels[v1alpha1.LabelManagedBy] == v1alpha1.ManagedBy &&
		secret.Annotations[v1alpha1.AnnotationRun] == of.String()
}

// renewPassword sets the template's username and a new random password.
func renewPassword(secret *corev1.Secret, t *v1alpha1.TemplateSpec) {
	random := make([]byte, passwordBytes)
	_, _ = rand.Read(random) // it never fails: see crypto/rand
	password := strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(random))
	secret.Data = map[string][]byte{
		corev1.BasicAuthUsernameKey: []byte(cmp.Or(t.Access.Username, defaultUsername)),
		corev1.BasicAuthPasswordKey: []byte(password),
	}
}

// ownedBy reports whether a session owns a Secret.
func ownedBy(secret *corev1.Secret, s *v1alpha1.VDISession) bool {
	return slices.ContainsFunc(secret.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == s.UID })
}

// accessData returns the data of an access secret that is sent: its two keys only. A password that
// the user chose is kept. It returns false if no password is usable.
func accessData(secret *corev1.Secret) (map[string][]byte, bool) {
	username, password := secret.Data[corev1.BasicAuthUsernameKey], secret.Data[corev1.BasicAuthPasswordKey]
	for _, v := range [][]byte{username, password} {
		if len(v) == 0 || len(v) > maxPassword {
			return nil, false
		}
	}
	return map[string][]byte{corev1.BasicAuthUsernameKey: username, corev1.BasicAuthPasswordKey: password}, true
}
