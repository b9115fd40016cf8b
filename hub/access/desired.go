package access

import (
	"cmp"
	"crypto/sha256"
	"encoding/base32"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

const (
	// namePrefix of Roles and RoleBindings. The admission policy
	// vdi-hub-user-roles requires it.
	namePrefix = "vdi-access-"
	// hashLength is 130 bits, so that no user name can be chosen for its hash.
	hashLength = 26
	// readableLength keeps names at 63 characters, valid as label values.
	readableLength = 63 - len(namePrefix) - hashLength - 1
	// maxSecrets bounds the size of a Role to 64 KiB. Beyond it, the newest
	// sessions are in the Role.
	maxSecrets = 1000
)

var hashEncoding = base32.NewEncoding("0123456789abcdefghijklmnopqrstuv").WithPadding(base32.NoPadding)

// Name returns the name of a user's Role and RoleBinding, the same in every
// namespace.
func Name(user string) string {
	sum := sha256.Sum256([]byte(user))
	hash := hashEncoding.EncodeToString(sum[:])[:hashLength]
	readable := strings.Trim(strings.Map(labelSafe, strings.ToLower(user)), "-")
	if len(readable) > readableLength {
		readable = strings.TrimRight(readable[:readableLength], "-")
	}
	if readable == "" {
		return namePrefix + hash
	}
	return namePrefix + readable + "-" + hash
}

func labelSafe(c rune) rune {
	if (c < 'a' || c > 'z') && (c < '0' || c > '9') {
		return '-'
	}
	return c
}

// secretOf returns the name of the access Secret that a session's user may read, or "". The
// status reports only that the Secret is stored: a client that can write the status can't
// choose what is granted.
func secretOf(s *v1alpha1.VDISession) string {
	name := v1alpha1.AssignmentName(s.Name, s.UID)
	if !s.DeletionTimestamp.IsZero() || s.Status.AccessSecretName != name {
		return ""
	}
	return name
}

// Desired returns the Role and RoleBinding of one user in one namespace, given the
// user's sessions there, or nil if the user has no access Secret.
func Desired(sessions []*v1alpha1.VDISession) (*rbacv1.Role, *rbacv1.RoleBinding) {
	var readable []*v1alpha1.VDISession
	for _, s := range sessions {
		if secretOf(s) != "" {
			readable = append(readable, s)
		}
	}
	if len(readable) == 0 {
		return nil, nil
	}
	slices.SortFunc(readable, newestFirst)
	var names []string
	for _, s := range readable[:min(len(readable), maxSecrets)] {
		names = append(names, secretOf(s))
	}
	slices.Sort(names)
	of := readable[0]
	meta := metav1.ObjectMeta{
		Namespace: of.Namespace, Name: Name(of.Spec.User),
		Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelUserRole: "true"},
	}
	role := &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{corev1.GroupName}, Resources: []string{"secrets"}, ResourceNames: names, Verbs: []string{"get"},
	}}}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: *meta.DeepCopy(),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: of.Spec.User}},
	}
	return role, binding
}

func newestFirst(a, b *v1alpha1.VDISession) int {
	return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
}
