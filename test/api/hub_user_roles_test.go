package api

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// roleWriters may write all Roles and RoleBindings and grant all permissions. The hub may
// too, which is more than in an installation, so that only the policies restrict it.
const roleWriters = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: role-writer}
rules:
- {apiGroups: [rbac.authorization.k8s.io], resources: [roles, rolebindings], verbs: [get, create, update, patch, delete, deletecollection, escalate, bind]}
- {apiGroups: [rbac.authorization.k8s.io], resources: [clusterroles], verbs: [bind]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: vdi-access-a}
rules: []
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: role-writers}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: role-writer}
subjects:
- {kind: ServiceAccount, namespace: vdi-system, name: vdi-hub}
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: alice}
`

const (
	userRole = `{metadata: {name: vdi-access-a, labels: {vdi.kasm.io/user-role: "true"}}, rules: [{apiGroups: [""], resources: [secrets], resourceNames: [a], verbs: [get]}]}`
	userBind = `{metadata: {name: vdi-access-a, labels: {vdi.kasm.io/user-role: "true"}}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: vdi-access-a}, subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: a}]}`
)

// roleWith returns a Role with the hub's name and label and other rules.
func roleWith(rules string) string {
	return fmt.Sprintf(`{metadata: {name: vdi-access-a, labels: {vdi.kasm.io/user-role: "true"}}, rules: [%s]}`, rules)
}

// bindingOf returns a RoleBinding with the hub's name and label to another role or subjects.
func bindingOf(kind, role, subjects string) string {
	return fmt.Sprintf(`{metadata: {name: vdi-access-a, labels: {vdi.kasm.io/user-role: "true"}}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: %s, name: %s}, subjects: [%s]}`, kind, role, subjects)
}

// checkUserRoles checks which Roles and RoleBindings the hub, and another user, may write.
func checkUserRoles(hub func() *harness.ControlPlane) {
	GinkgoHelper()
	beDenied := SatisfyAll(MatchError(apierrors.IsForbidden, "IsForbidden"), MatchError(ContainSubstring("the hub")))

	Describe("of the hub's Roles", Ordered, func() {
		BeforeAll(func(ctx SpecContext) {
			Expect(hub().Apply(ctx, []byte(secretWriters))).To(Succeed()) // and its namespace
			Expect(hub().Apply(ctx, []byte(roleWriters))).To(Succeed())
			for _, caller := range []requester{hubAccount, alice} {
				Eventually(ctx, func(ctx context.Context) error {
					_, err := rbac(hub(), caller, "Role", "desktops").Get(ctx, "none", metav1.GetOptions{})
					return err
				}).Should(MatchError(apierrors.IsNotFound, "IsNotFound"))
			}
		})

		It("allow it to keep a user's Role and its binding", func(ctx context.Context) {
			for kind, text := range map[string]string{"Role": userRole, "RoleBinding": userBind} {
				own := rbac(hub(), hubAccount, kind, "desktops")
				made, err := own.Create(ctx, rbacObject(kind, text), metav1.CreateOptions{})
				Expect(err).NotTo(HaveOccurred())
				made.SetAnnotations(map[string]string{"a": "b"})
				_, err = own.Update(ctx, made, metav1.UpdateOptions{})
				Expect(err).NotTo(HaveOccurred())
				Expect(own.Delete(ctx, made.GetName(), metav1.DeleteOptions{})).To(Succeed())
			}
		})

		DescribeTable("allow it to create no", func(ctx context.Context, kind, text string) {
			_, err := rbac(hub(), hubAccount, kind, "desktops").Create(ctx, rbacObject(kind, text), dryRun)
			Expect(err).To(beDenied)
			_, err = rbac(hub(), alice, kind, "desktops").Create(ctx, rbacObject(kind, text), dryRun)
			Expect(err).NotTo(HaveOccurred(), "no other user is checked")
		},
			Entry("Role without its label", "Role", `{metadata: {name: vdi-access-a}, rules: [{apiGroups: [""], resources: [secrets], resourceNames: [a], verbs: [get]}]}`),
			Entry("Role of another name", "Role", `{metadata: {name: admin, labels: {vdi.kasm.io/user-role: "true"}}, rules: [{apiGroups: [""], resources: [secrets], resourceNames: [a], verbs: [get]}]}`),
			Entry("Role for all Secrets", "Role", roleWith(`{apiGroups: [""], resources: [secrets], verbs: [get]}`)),
			Entry("Role that lists", "Role", roleWith(`{apiGroups: [""], resources: [secrets], resourceNames: [a], verbs: [get, list]}`)),
			Entry("Role that changes", "Role", roleWith(`{apiGroups: [""], resources: [secrets], resourceNames: [a], verbs: [update]}`)),
			Entry("Role for other kinds", "Role", roleWith(`{apiGroups: [""], resources: [secrets, pods], resourceNames: [a], verbs: [get]}`)),
			Entry("Role for all groups", "Role", roleWith(`{apiGroups: ["", "*"], resources: [secrets], resourceNames: [a], verbs: [get]}`)),
			Entry("Role of several rules", "Role", roleWith(`{apiGroups: [""], resources: [secrets], resourceNames: [a], verbs: [get]}, {apiGroups: [""], resources: [pods], verbs: [create]}`)),
			Entry("Role of no rules", "Role", `{metadata: {name: vdi-access-a, labels: {vdi.kasm.io/user-role: "true"}}}`),
			Entry("binding without its label", "RoleBinding", `{metadata: {name: vdi-access-a}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: vdi-access-a}, subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: a}]}`),
			Entry("binding to a ClusterRole", "RoleBinding", bindingOf("ClusterRole", "vdi-access-a", `{apiGroup: rbac.authorization.k8s.io, kind: User, name: a}`)),
			Entry("binding to another Role", "RoleBinding", bindingOf("Role", "vdi-access-b", `{apiGroup: rbac.authorization.k8s.io, kind: User, name: a}`)),
			Entry("binding for a group", "RoleBinding", bindingOf("Role", "vdi-access-a", `{apiGroup: rbac.authorization.k8s.io, kind: Group, name: a}`)),
			Entry("binding for a service account", "RoleBinding", bindingOf("Role", "vdi-access-a", `{kind: ServiceAccount, namespace: vdi-system, name: vdi-hub}`)),
			Entry("binding for several", "RoleBinding", bindingOf("Role", "vdi-access-a", `{apiGroup: rbac.authorization.k8s.io, kind: User, name: a}, {apiGroup: rbac.authorization.k8s.io, kind: User, name: b}`)),
			Entry("binding without subjects", "RoleBinding", bindingOf("Role", "vdi-access-a", ``)),
		)

		DescribeTable("allow it to write none in", func(ctx context.Context, namespace string) {
			for kind, text := range map[string]string{"Role": userRole, "RoleBinding": userBind} {
				_, err := rbac(hub(), hubAccount, kind, namespace).Create(ctx, rbacObject(kind, text), dryRun)
				Expect(err).To(beDenied, kind)
			}
		},
			Entry("its own namespace, where the keys of the fleet are", "vdi-system"),
			Entry("namespaces of Kubernetes", "kube-system"),
		)

		It("allow it neither to change nor to delete those of others", func(ctx context.Context) {
			for kind, text := range map[string]string{
				"Role":        `{metadata: {name: vdi-access-b}, rules: [{apiGroups: [""], resources: [secrets], resourceNames: [a], verbs: [get]}]}`,
				"RoleBinding": `{metadata: {name: vdi-access-b}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: vdi-access-b}, subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: a}]}`,
			} {
				theirs := rbac(hub(), alice, kind, "desktops")
				made, err := theirs.Create(ctx, rbacObject(kind, text), metav1.CreateOptions{})
				Expect(err).NotTo(HaveOccurred())
				DeferCleanup(func(ctx SpecContext) {
					Expect(theirs.Delete(ctx, made.GetName(), metav1.DeleteOptions{})).To(Succeed())
				})
				own := rbac(hub(), hubAccount, kind, "desktops")
				_, err = own.Patch(ctx, made.GetName(), types.MergePatchType, []byte(`{"metadata":{"labels":{"vdi.kasm.io/user-role":"true"}}}`), metav1.PatchOptions{})
				Expect(err).To(beDenied, "nor make it its own")
				Expect(own.Delete(ctx, made.GetName(), metav1.DeleteOptions{})).To(beDenied)
				Expect(own.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})).To(beDenied)
			}
		})

		It("allow it to widen none of its own", func(ctx context.Context) {
			own := rbac(hub(), hubAccount, "Role", "desktops")
			made, err := own.Create(ctx, rbacObject("Role", userRole), metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			_, err = own.Patch(ctx, made.GetName(), types.MergePatchType, []byte(`{"rules":[{"apiGroups":[""],"resources":["secrets"],"verbs":["get"]}]}`), metav1.PatchOptions{})
			Expect(err).To(beDenied)
			Expect(own.Delete(ctx, made.GetName(), metav1.DeleteOptions{})).To(Succeed())
		})
	})
}

func rbac(hub *harness.ControlPlane, caller requester, kind, namespace string) dynamic.ResourceInterface {
	GinkgoHelper()
	resource := map[string]string{"Role": "roles", "RoleBinding": "rolebindings"}[kind]
	return clientOf(hub, caller, schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: resource}).Namespace(namespace)
}

func rbacObject(kind, text string) *unstructured.Unstructured {
	GinkgoHelper()
	object := parse(text)
	object["apiVersion"], object["kind"] = "rbac.authorization.k8s.io/v1", kind
	return &unstructured.Unstructured{Object: object}
}
