package api

import (
	"context"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	vdi "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
	"github.com/vdi-fleet/vdi-fleet/test/harness/apply"
)

const admissionDir = "../../deploy/charts/vdi-hub/files/admission"

// requester is the user that creates a session, with its groups.
type requester struct {
	user   string
	groups []string
}

var (
	alice = requester{"alice", []string{"staff", "engineers"}}
	// portal is a service account that may impersonate every user and group.
	portal = requester{"system:serviceaccount:portal:portal", []string{"system:serviceaccounts", "system:serviceaccounts:portal"}}
	// desk may impersonate bob and the groups named in deskGroups.
	desk = requester{"system:serviceaccount:portal:desk", []string{"system:serviceaccounts"}}
	root = requester{"root", []string{"system:masters"}}
)

// requesters allows all users to create sessions, and two of them to impersonate.
const requesters = `
apiVersion: v1
kind: Namespace
metadata: {name: desktops}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: session-creator}
rules:
- {apiGroups: [vdi.kasm.io], resources: [vdisessions], verbs: [get, list, watch, create, update, patch, delete]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: session-creators}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: session-creator}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: Group, name: "system:authenticated"}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: portal}
rules:
- {apiGroups: [""], resources: [users, groups], verbs: [impersonate]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: portal}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: portal}
subjects:
- {kind: ServiceAccount, namespace: portal, name: portal}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: desk}
rules:
- {apiGroups: [""], resources: [users], resourceNames: [bob], verbs: [impersonate]}
- {apiGroups: [""], resources: [groups], resourceNames: [%s], verbs: [impersonate]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: desk}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: desk}
subjects:
- {kind: ServiceAccount, namespace: portal, name: desk}
`

// mostByName is how many groups of others the admission policies check by name.
const mostByName = 16

// deskGroups has one group more than are checked by name.
var deskGroups = numbered("g", mostByName+1)

func numbered(prefix string, n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprint(prefix, i+1)
	}
	return names
}

var _ = Describe("Admission policies", Ordered, ContinueOnFailure, func() {
	var hub *harness.ControlPlane

	BeforeAll(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		var err error
		hub, err = harness.StartControlPlane(ctx, harness.ControlPlaneOptions{
			Name: "policies", APIOnly: true, CRDDirs: crdDirs, AdmissionDir: admissionDir,
		})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { Expect(hub.Stop()).To(Succeed()) })
		Expect(hub.Apply(ctx, fmt.Appendf(nil, requesters, strings.Join(deskGroups, ", ")))).To(Succeed())
		Expect(hub.Apply(ctx, []byte(steerers))).To(Succeed())
		// The API server applies roles a moment later.
		Eventually(ctx, func(ctx context.Context) error {
			_, err := as(hub, desk).Create(ctx, sessionFor("bob", "g1"), dryRun)
			return err
		}).Should(Succeed())
		Eventually(ctx, func(ctx context.Context) error {
			_, err := as(hub, portal).Create(ctx, sessionFor("bob", "h1"), dryRun)
			return err
		}).Should(Succeed())
		Eventually(ctx, func(ctx context.Context) error {
			_, err := as(hub, gerda).Create(ctx, steered("gerda", "gold", 10), dryRun)
			return err
		}).Should(Succeed())
		// It applies policies a moment later too: until then everything is admitted.
		Eventually(ctx, func(ctx context.Context) error {
			_, err := as(hub, alice).Create(ctx, steered("alice", "gold", 10), dryRun)
			return err
		}).Should(MatchError(apierrors.IsForbidden, "IsForbidden"))
		policiesInForce(ctx, hub)
	})

	checkGoverning(func() *harness.ControlPlane { return hub })

	checkSteering(func() *harness.ControlPlane { return hub })

	checkSecrets(func() *harness.ControlPlane { return hub })

	checkUserRoles(func() *harness.ControlPlane { return hub })

	checkPods(func() *harness.ControlPlane { return hub })

	DescribeTable("admit a session that is created by", func(ctx context.Context, caller requester, user string, groups []string) {
		_, err := as(hub, caller).Create(ctx, sessionFor(user, groups...), dryRun)
		Expect(err).NotTo(HaveOccurred())
	},
		Entry("its user", alice, "alice", nil),
		Entry("its user, with a group of that user", alice, "alice", []string{"engineers"}),
		Entry("its user, with a group that every user has", alice, "alice", []string{"system:authenticated"}),
		Entry("a service account for itself", desk, desk.user, nil),
		Entry("its user, with more groups than may be of others", requester{"carol", numbered("own", 32)}, "carol", numbered("own", 32)),
		Entry("a portal that may impersonate every user", portal, "bob", nil),
		Entry("a portal that may impersonate every group", portal, "bob", numbered("h", 32)),
		Entry("a user who may impersonate that user", desk, "bob", nil),
		Entry("a user who may impersonate that group", desk, "bob", []string{"g2"}),
		Entry("a user who may impersonate those groups, as many as are checked by name", desk, "bob", deskGroups[:mostByName]),
		Entry("a user who may impersonate those groups, with one group of its own", desk, "bob", append(numbered("g", mostByName), "system:serviceaccounts")),
		Entry("an administrator", root, "bob", append(numbered("h", 30), "system:masters", "system:authenticated")),
	)

	DescribeTable("deny a session", func(ctx context.Context, caller requester, user string, groups []string, message string) {
		_, err := as(hub, caller).Create(ctx, sessionFor(user, groups...), dryRun)
		Expect(apierrors.IsForbidden(err)).To(BeTrue(), fmt.Sprint("denied: ", err))
		Expect(err).To(MatchError(HaveSuffix("denied request: " + message)))
	},
		Entry("for another user", alice, "bob", nil,
			"user alice: you may create only your own sessions (spec.user: alice); to create one for bob, you need permission to impersonate user bob"),
		Entry("for a user whose name begins like one's own", alice, "alice2", nil,
			"user alice: you may create only your own sessions (spec.user: alice); to create one for alice2, you need permission to impersonate user alice2"),
		Entry("for another user than may be impersonated", desk, "alice", nil,
			"user system:serviceaccount:portal:desk: you may create only your own sessions (spec.user: system:serviceaccount:portal:desk); to create one for alice, you need permission to impersonate user alice"),
		Entry("for another user with one of that user's groups", alice, "bob", []string{"admins"},
			"user alice: you may create only your own sessions (spec.user: alice); to create one for bob, you need permission to impersonate user bob"),
		Entry("of a group that is not one's own", alice, "alice", []string{"staff", "admins"},
			"user alice: spec.groups may list only your own groups; to list admins, you need permission to impersonate that group"),
		Entry("of system:masters", alice, "alice", []string{"system:masters"},
			"user alice: spec.groups may list only your own groups; to list system:masters, you need permission to impersonate that group"),
		Entry("of groups that are not one's own, the last that is checked by name too", alice, "alice", append([]string{"staff"}, deskGroups[:mostByName]...),
			"user alice: spec.groups may list only your own groups; to list "+strings.Join(deskGroups[:mostByName], ", ")+", you need permission to impersonate each of them"),
		Entry("of a group that one may not impersonate, behind those that one may", desk, "bob", append(numbered("g", mostByName-1), "admins"),
			"user system:serviceaccount:portal:desk: spec.groups may list only your own groups; to list "+strings.Join(deskGroups[:mostByName-1], ", ")+", admins, you need permission to impersonate each of them"),
		Entry("of more groups than are checked by name, though each may be impersonated", desk, "bob", deskGroups,
			"user system:serviceaccount:portal:desk: spec.groups may list only your own groups; 17 of them are not yours, and at most 16 can be checked by name: leave out those that the template does not require, or get permission to impersonate all groups"),
		Entry("of more groups than are checked by name, none of them one's own", alice, "alice", numbered("h", 32),
			"user alice: spec.groups may list only your own groups; 32 of them are not yours, and at most 16 can be checked by name: leave out those that the template does not require, or get permission to impersonate all groups"),
	)

	It("are manifests without unknown fields", func(ctx context.Context) {
		_, err := hub.Kubectl(ctx, "apply", "--server-side", "--field-manager="+apply.FieldManager,
			"--dry-run=server", "--validate=strict", "--warnings-as-errors", "-f", admissionDir)
		Expect(err).NotTo(HaveOccurred())
	})

	It("name all groups that are checked by name, however long", func(ctx context.Context) {
		caller := requester{strings.Repeat("y", 253), nil}
		var long []string
		for _, name := range numbered("z", mostByName) {
			long = append(long, name+strings.Repeat("z", 253-len(name)))
		}
		_, err := as(hub, caller).Create(ctx, sessionFor(caller.user, long...), dryRun)
		Expect(err).To(MatchError(ContainSubstring("to list " + strings.Join(long, ", ") + ", you need")))
	})

	It("shorten the message where the requester's name is too long", func(ctx context.Context) {
		_, err := as(hub, requester{strings.Repeat("y", 3000), nil}).Create(ctx, sessionFor("bob"), dryRun)
		Expect(err).To(MatchError(HaveSuffix("denied request: you may create only your own sessions, unless you have permission to impersonate the user")))
	})

	It("take an empty list of groups as none", func(ctx context.Context) {
		session := sessionFor("alice")
		session.Object["spec"].(map[string]any)["groups"] = []any{}
		_, err := as(hub, alice).Create(ctx, session, dryRun)
		Expect(err).NotTo(HaveOccurred())
	})

	It("check server-side apply as they check create", func(ctx context.Context) {
		options := metav1.ApplyOptions{FieldManager: "kubectl", DryRun: dryRun.DryRun}
		_, err := as(hub, alice).Apply(ctx, "asked", sessionFor("alice"), options)
		Expect(err).NotTo(HaveOccurred())
		_, err = as(hub, alice).Apply(ctx, "asked", sessionFor("bob"), options)
		Expect(err).To(MatchError(ContainSubstring("you need permission to impersonate user bob")))
	})

	It("check a real create as they check a dry-run", func(ctx context.Context) {
		_, err := as(hub, alice).Create(ctx, sessionFor("bob"), metav1.CreateOptions{})
		Expect(err).To(MatchError(ContainSubstring("you need permission to impersonate user bob")))
	})

	It("require nothing for an update of a session", func(ctx context.Context) {
		made := create(ctx, hub, portal, sessionFor("alice", "admins"))
		updated, err := as(hub, alice).Patch(ctx, made.GetName(), types.MergePatchType, []byte(`{"spec":{"timeout":"2h"}}`), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(updated.Object["spec"]).To(HaveKeyWithValue("timeout", "2h"))
		_, err = as(hub, alice).Patch(ctx, made.GetName(), types.MergePatchType, []byte(`{"spec":{"user":"bob"}}`), metav1.PatchOptions{})
		Expect(apierrors.IsInvalid(err)).To(BeTrue(), fmt.Sprint("immutable: ", err))
	})

	Describe("set the hub's finalizer on a session", func() {
		It("on create", func(ctx context.Context) {
			Expect(create(ctx, hub, alice, sessionFor("alice")).GetFinalizers()).To(Equal([]string{vdi.Finalizer}))
		})

		It("where its name is generated", func(ctx context.Context) {
			session := sessionFor("alice")
			session.SetName("")
			session.SetGenerateName("alice-")
			Expect(create(ctx, hub, alice, session).GetFinalizers()).To(Equal([]string{vdi.Finalizer}))
		})

		It("beside the user's", func(ctx context.Context) {
			session := sessionFor("alice")
			session.SetFinalizers([]string{"example.com/mine"})
			Expect(create(ctx, hub, alice, session).GetFinalizers()).To(ConsistOf("example.com/mine", vdi.Finalizer))
		})

		It("once", func(ctx context.Context) {
			session := sessionFor("alice")
			session.SetFinalizers([]string{vdi.Finalizer})
			Expect(create(ctx, hub, alice, session).GetFinalizers()).To(Equal([]string{vdi.Finalizer}))
		})

		It("beside an empty list", func(ctx context.Context) {
			session := sessionFor("alice")
			session.Object["metadata"].(map[string]any)["finalizers"] = []any{}
			Expect(create(ctx, hub, alice, session).GetFinalizers()).To(Equal([]string{vdi.Finalizer}))
		})

		It("on server-side apply, and applied again it stays", func(ctx context.Context) {
			options := metav1.ApplyOptions{FieldManager: "kubectl"}
			applied, err := as(hub, alice).Apply(ctx, "asked", sessionFor("alice"), options)
			Expect(err).NotTo(HaveOccurred())
			removeAfterwards(hub, "asked")
			Expect(applied.GetFinalizers()).To(Equal([]string{vdi.Finalizer}))
			again, err := as(hub, alice).Apply(ctx, "asked", sessionFor("alice"), options)
			Expect(err).NotTo(HaveOccurred())
			Expect(again.GetFinalizers()).To(Equal([]string{vdi.Finalizer}))
			Expect(again.GetResourceVersion()).To(Equal(applied.GetResourceVersion()), "nothing to write")
		})

		It("not again once it is removed", func(ctx context.Context) {
			made := create(ctx, hub, alice, sessionFor("alice"))
			patched, err := as(hub, root).Patch(ctx, made.GetName(), types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
			Expect(err).NotTo(HaveOccurred())
			Expect(patched.GetFinalizers()).To(BeEmpty())
		})
	})
})

var dryRun = metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}

// as returns a requester's client for the sessions of namespace desktops.
func as(hub *harness.ControlPlane, caller requester) dynamic.ResourceInterface {
	GinkgoHelper()
	return clientOf(hub, caller, vdi.GroupVersion.WithResource("vdisessions")).Namespace("desktops")
}

// clientOf returns a requester's client for a resource.
func clientOf(hub *harness.ControlPlane, caller requester, resource schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	GinkgoHelper()
	config := rest.CopyConfig(hub.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: caller.user, Groups: append([]string{"system:authenticated"}, caller.groups...)}
	client, err := dynamic.NewForConfig(config)
	Expect(err).NotTo(HaveOccurred())
	return client.Resource(resource)
}

// sessionFor returns a session for a user, with groups if there are any.
func sessionFor(user string, groups ...string) *unstructured.Unstructured {
	GinkgoHelper()
	session := build("vdisessions", `metadata: {name: asked}`)
	spec := session.Object["spec"].(map[string]any)
	spec["user"] = user
	if len(groups) > 0 {
		Expect(unstructured.SetNestedStringSlice(spec, groups, "groups")).To(Succeed())
	}
	return session
}

// create creates a session that is deleted when the spec ends.
func create(ctx context.Context, hub *harness.ControlPlane, caller requester, session *unstructured.Unstructured) *unstructured.Unstructured {
	GinkgoHelper()
	made, err := as(hub, caller).Create(ctx, session, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	removeAfterwards(hub, made.GetName())
	return made
}

// removeAfterwards deletes a session when the spec ends, whatever finalizers it
// has: no hub runs here.
func removeAfterwards(hub *harness.ControlPlane, name string) {
	GinkgoHelper()
	DeferCleanup(func(ctx context.Context) {
		client := as(hub, root)
		_, err := client.Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(client.Delete(ctx, name, metav1.DeleteOptions{})).To(Succeed())
	})
}
