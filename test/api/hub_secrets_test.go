package api

import (
	"context"

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

// secretWriters may write all Secrets. The hub may too, as if it were installed without
// sessionNamespaces.
const secretWriters = `
apiVersion: v1
kind: Namespace
metadata: {name: vdi-system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: secret-writer}
rules:
- {apiGroups: [""], resources: [secrets], verbs: [get, create, update, patch, delete, deletecollection]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: secret-writers}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: secret-writer}
subjects:
- {kind: ServiceAccount, namespace: vdi-system, name: vdi-hub}
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: alice}
`

// Secrets of namespace desktops; the hub may write only the first.
const (
	ofSession    = `{metadata: {name: s, ownerReferences: [{apiVersion: vdi.kasm.io/v1alpha1, kind: VDISession, name: a, uid: u}]}, type: kubernetes.io/basic-auth, stringData: {username: user, password: p}}`
	withoutOwner = `{metadata: {name: s}, type: kubernetes.io/basic-auth, stringData: {username: user, password: p}}`
	ofAnother    = `{metadata: {name: s, ownerReferences: [{apiVersion: apps/v1, kind: VDISession, name: a, uid: u}]}, type: kubernetes.io/basic-auth, stringData: {username: user, password: p}}`
	opaque       = `{metadata: {name: s, ownerReferences: [{apiVersion: vdi.kasm.io/v1alpha1, kind: VDISession, name: a, uid: u}]}, type: Opaque}`
	token        = `{metadata: {name: s, annotations: {kubernetes.io/service-account.name: default}, ownerReferences: [{apiVersion: vdi.kasm.io/v1alpha1, kind: VDISession, name: a, uid: u}]}, type: kubernetes.io/service-account-token}`
)

// checkSecrets checks which Secrets the hub, and another user, may write.
func checkSecrets(hub func() *harness.ControlPlane) {
	GinkgoHelper()
	const refusal = "outside its own namespace the hub may write only the access secrets of sessions"
	beForbidden := SatisfyAll(MatchError(apierrors.IsForbidden, "IsForbidden"), MatchError(ContainSubstring(refusal)))

	Describe("of the hub's Secrets", Ordered, func() {
		BeforeAll(func(ctx SpecContext) {
			Expect(hub().Apply(ctx, []byte(secretWriters))).To(Succeed())
			for _, caller := range []requester{hubAccount, alice} {
				Eventually(ctx, func(ctx context.Context) error {
					_, err := secrets(hub(), caller, "desktops").Get(ctx, "none", metav1.GetOptions{})
					return err
				}).Should(MatchError(apierrors.IsNotFound, "IsNotFound"))
			}
		})

		It("allow it to keep the access secret of a session", func(ctx context.Context) {
			own := secrets(hub(), hubAccount, "desktops")
			made, err := own.Create(ctx, secretOf(ofSession), metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			made.SetLabels(map[string]string{"a": "b"})
			_, err = own.Update(ctx, made, metav1.UpdateOptions{})
			Expect(err).NotTo(HaveOccurred())
			Expect(own.Delete(ctx, made.GetName(), metav1.DeleteOptions{})).To(Succeed())
		})

		DescribeTable("allow it to create no", func(ctx context.Context, text string) {
			_, err := secrets(hub(), hubAccount, "desktops").Create(ctx, secretOf(text), dryRun)
			Expect(err).To(beForbidden)
			_, err = secrets(hub(), alice, "desktops").Create(ctx, secretOf(text), dryRun)
			Expect(err).NotTo(HaveOccurred(), "no other user is checked")
			_, err = secrets(hub(), hubAccount, "vdi-system").Create(ctx, secretOf(text), dryRun)
			Expect(err).NotTo(HaveOccurred(), "in its own namespace its role decides")
		},
			Entry("Secret that no session owns", withoutOwner),
			Entry("Secret that something else of that name owns", ofAnother),
			Entry("Secret of another type", opaque),
			Entry("token of a service account", token),
		)

		DescribeTable("allow it neither to change nor to delete a", func(ctx context.Context, text string) {
			theirs := secrets(hub(), alice, "desktops")
			made, err := theirs.Create(ctx, secretOf(text), metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(func(ctx SpecContext) {
				Expect(theirs.Delete(ctx, made.GetName(), metav1.DeleteOptions{})).To(Succeed())
			})
			own := secrets(hub(), hubAccount, "desktops")
			_, err = own.Patch(ctx, made.GetName(), types.MergePatchType,
				[]byte(`{"metadata":{"ownerReferences":[{"apiVersion":"vdi.kasm.io/v1alpha1","kind":"VDISession","name":"a","uid":"u"}]}}`), metav1.PatchOptions{})
			Expect(err).To(beForbidden, "nor make it a session's")
			Expect(own.Delete(ctx, made.GetName(), metav1.DeleteOptions{})).To(beForbidden)
			Expect(own.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})).To(beForbidden)
		},
			Entry("Secret that no session owns", withoutOwner),
			Entry("Secret of another type", `{metadata: {name: s}, type: Opaque}`),
		)
	})
}

func secrets(hub *harness.ControlPlane, caller requester, namespace string) dynamic.ResourceInterface {
	GinkgoHelper()
	return clientOf(hub, caller, schema.GroupVersionResource{Version: "v1", Resource: "secrets"}).Namespace(namespace)
}

func secretOf(text string) *unstructured.Unstructured {
	GinkgoHelper()
	object := parse(text)
	object["apiVersion"], object["kind"] = "v1", "Secret"
	return &unstructured.Unstructured{Object: object}
}
