package access

import (
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// session returns one of a user whose access Secret is stored.
func session(user, name string, change ...func(*v1alpha1.VDISession)) *v1alpha1.VDISession {
	s := &v1alpha1.VDISession{ObjectMeta: metav1.ObjectMeta{Namespace: "desktops", Name: name, UID: types.UID("uid-" + name)}}
	s.Spec.User = user
	s.Status.AccessSecretName = v1alpha1.AssignmentName(s.Name, s.UID)
	for _, c := range change {
		c(s)
	}
	return s
}

func deleted(s *v1alpha1.VDISession) { s.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }

func TestNamesAreLabelSafeAndApart(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	seen := map[string]string{}
	for _, user := range []string{
		"alice", "Alice", "alice@example.com", "alice.example.com", "system:serviceaccount:a:b", "system:serviceaccount:a-b",
		"日本", "-", "../x", strings.Repeat("u", 300), strings.Repeat("u", 301), "a" + strings.Repeat("-", 80) + "b",
	} {
		name := Name(user)
		g.Expect(validation.IsDNS1123Label(name)).To(BeEmpty(), "the name %q of user %q", name, user)
		g.Expect(validation.IsValidLabelValue(name)).To(BeEmpty())
		g.Expect(seen).NotTo(HaveKey(name), "users %q and %q", user, seen[name])
		seen[name] = user
	}
	g.Expect(Name("alice@example.com")).To(HavePrefix("vdi-access-alice-example-com-"))
}

func TestDesiredNamesTheUsersSecretsAndNothingElse(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	b, a := session("alice@example.com", "b"), session("alice@example.com", "a")
	role, binding := Desired([]*v1alpha1.VDISession{
		b, a,
		session("alice@example.com", "gone", deleted),
		session("alice@example.com", "open", func(s *v1alpha1.VDISession) { s.Status.AccessSecretName = "" }),
		// A client that can write a status does not choose what is granted.
		session("alice@example.com", "forged", func(s *v1alpha1.VDISession) { s.Status.AccessSecretName = "bobs-secret" }),
	})
	g.Expect(role.Rules).To(Equal([]rbacv1.PolicyRule{{
		APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"},
		ResourceNames: []string{a.Status.AccessSecretName, b.Status.AccessSecretName},
	}}))
	g.Expect(binding.Subjects).To(Equal([]rbacv1.Subject{{APIGroup: "rbac.authorization.k8s.io", Kind: "User", Name: "alice@example.com"}}))
	g.Expect(binding.RoleRef).To(Equal(rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "Role", Name: role.Name}))
	for _, o := range []metav1.Object{role, binding} {
		g.Expect(o.GetNamespace()).To(Equal("desktops"))
		g.Expect(o.GetName()).To(Equal(Name("alice@example.com")))
		g.Expect(o.GetLabels()).To(Equal(map[string]string{"app.kubernetes.io/managed-by": "vdi-fleet", "vdi.kasm.io/user-role": "true"}))
		g.Expect(o.GetOwnerReferences()).To(BeEmpty())
	}
}

func TestNothingIsDesiredForAUserWithoutSecrets(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	role, binding := Desired([]*v1alpha1.VDISession{session("alice", "gone", deleted)})
	g.Expect(role).To(BeNil())
	g.Expect(binding).To(BeNil())
}

func TestARoleNamesTheNewestSessionsOfVeryMany(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var all []*v1alpha1.VDISession
	for i := range maxSecrets + 5 {
		all = append(all, session("portal", fmt.Sprintf("s%d", i), func(s *v1alpha1.VDISession) {
			s.CreationTimestamp = metav1.NewTime(time.Unix(int64(i), 0))
		}))
	}
	role, _ := Desired(all)
	names := role.Rules[0].ResourceNames
	g.Expect(names).To(HaveLen(maxSecrets))
	g.Expect(names).To(ContainElement(all[len(all)-1].Status.AccessSecretName))
	g.Expect(names).NotTo(ContainElement(all[4].Status.AccessSecretName))
}

func TestARoleIsSufficientWithTheNamesOfEndedSessions(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	role, _ := Desired([]*v1alpha1.VDISession{session("alice", "runs")})
	ended, _ := Desired([]*v1alpha1.VDISession{session("alice", "runs"), session("alice", "ended")})
	other, _ := Desired([]*v1alpha1.VDISession{session("alice", "ended")})
	all, two, verbs := role.DeepCopy(), role.DeepCopy(), ended.DeepCopy()
	all.Rules[0].ResourceNames = nil
	two.Rules = append(two.Rules, two.Rules[0])
	verbs.Rules[0].Verbs = []string{"get", "list"}
	g.Expect(sufficient(role, role)).To(BeTrue())
	g.Expect(sufficient(ended, role)).To(BeTrue())
	for name, stored := range map[string]*rbacv1.Role{
		"another session's": other, "every Secret": all, "a rule more": two, "a verb more": verbs,
	} {
		g.Expect(sufficient(stored, role)).To(BeFalse(), name)
	}
}

func TestAnUnusedRoleIsKeptForItsRetention(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	r := Reconciler{Retention: time.Hour}
	role, begin := types.NamespacedName{Name: "alice"}, time.Unix(0, 0)
	g.Expect(r.kept(role, begin)).To(Equal(time.Hour))
	g.Expect(r.kept(role, begin.Add(40*time.Minute))).To(Equal(20 * time.Minute))
	r.unused.Delete(role)
	g.Expect(r.kept(role, begin.Add(50*time.Minute))).To(Equal(time.Hour), "used in between")
	g.Expect(r.kept(role, begin.Add(3*time.Hour))).To(BeNumerically("<=", 0))
}
