package api

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	vdi "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// operators may edit and delete members.
const operators = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: member-operator}
rules:
- {apiGroups: [vdi.kasm.io], resources: [memberclusters], verbs: ["*"]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: member-operators}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: member-operator}
subjects:
- {kind: ServiceAccount, namespace: vdi-system, name: vdi-hub}
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: alice}
`

var hubAccount = requester{"system:serviceaccount:vdi-system:vdi-hub", nil}

// Statuses of a member.
const (
	away      = `{fingerprint: fp-eu, conditions: [{type: Ready, status: "False", reason: Unreachable}, {type: Connected, status: "False", reason: Disconnected}]}`
	neverHere = `{}`
	renewing  = `{fingerprint: fp-eu, conditions: [{type: Ready, status: "True", reason: Connected}, {type: Connected, status: "False", reason: Disconnected}]}`
	connected = `{fingerprint: fp-eu, conditions: [{type: Ready, status: Unknown, reason: Suspect}, {type: Connected, status: "True", reason: Connected}]}`
)

func declaration(fingerprint, by string) string {
	return fmt.Sprintf(`{"spec":{"fenced":{"fingerprint":%q,"by":%q,"at":"2026-03-01T10:00:00Z"}}}`, fingerprint, by)
}

var _ = Describe("Admission policies of members", Ordered, ContinueOnFailure, func() {
	var hub *harness.ControlPlane

	BeforeAll(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		var err error
		hub, err = harness.StartControlPlane(ctx, harness.ControlPlaneOptions{
			Name: "member-policies", APIOnly: true, CRDDirs: crdDirs, AdmissionDir: admissionDir,
		})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { Expect(hub.Stop()).To(Succeed()) })
		Expect(hub.Apply(ctx, []byte(operators))).To(Succeed())
		// The API server applies roles a moment later.
		Eventually(ctx, func(ctx context.Context) error {
			_, err := asOperator(hub, alice).List(ctx, metav1.ListOptions{})
			return err
		}).Should(Succeed())
	})

	It("allow an operator to declare a member fenced whose agent is away, and to clear it", func(ctx context.Context) {
		name := member(ctx, hub, away)
		Expect(patch(ctx, hub, alice, name, declaration("fp-eu", "alice"))).To(Succeed())
		Expect(patch(ctx, hub, alice, name, `{"spec":{"weight":7}}`)).To(Succeed(), "what was declared is not checked again")
		Expect(patch(ctx, hub, hubAccount, name, `{"spec":{"weight":8}}`)).To(Succeed())
		Expect(patch(ctx, hub, hubAccount, name, `{"spec":{"fenced":null}}`)).To(Succeed(), "whoever declared it")
	})

	DescribeTable("deny that a member is declared fenced", func(ctx context.Context, status, fenced, message string) {
		name := member(ctx, hub, status)
		err := patch(ctx, hub, alice, name, fenced)
		Expect(err).To(MatchError(ContainSubstring(message)))
	},
		Entry("which has never joined", neverHere, declaration("fp-eu", "alice"), "a member can be declared fenced only once its cluster has joined"),
		Entry("which renews its lease", renewing, declaration("fp-eu", "alice"), "is connected, so its cluster is running: to take it out of use run `kubectl vdi drain"),
		Entry("whose stream is open", connected, declaration("fp-eu", "alice"), "is connected, so its cluster is running"),
		Entry("of another cluster", away, declaration("fp-us", "alice"), "spec.fenced.fingerprint is fp-us, but that of"),
		Entry("in another's name", away, declaration("fp-eu", "bob"), "user alice: spec.fenced.by is bob, but must be your own user name"),
	)

	It("check a declaration that is changed, and one that a member is created with", func(ctx context.Context) {
		name := member(ctx, hub, away)
		Expect(patch(ctx, hub, alice, name, declaration("fp-eu", "alice"))).To(Succeed())
		Expect(patch(ctx, hub, hubAccount, name, `{"spec":{"fenced":{"at":"2026-03-02T10:00:00Z"}}}`)).
			To(MatchError(ContainSubstring("user " + hubAccount.user)))
		object := build("memberclusters", `{metadata: {name: born-fenced}, spec: {fenced: {fingerprint: fp-eu, by: alice, at: "2026-03-01T10:00:00Z"}}}`)
		_, err := asOperator(hub, alice).Create(ctx, object, dryRun)
		Expect(err).To(MatchError(ContainSubstring("once its cluster has joined")))
	})

	It("allow to remove an empty member", func(ctx context.Context) {
		for _, status := range []string{neverHere, connected} {
			name := member(ctx, hub, status)
			Expect(asOperator(hub, alice).Delete(ctx, name, metav1.DeleteOptions{})).To(Succeed())
		}
	})

	DescribeTable("deny that a member is removed", func(ctx context.Context, counts, message string) {
		name := member(ctx, hub, away)
		status(ctx, hub, name, counts)
		err := asOperator(hub, alice).Delete(ctx, name, metav1.DeleteOptions{})
		Expect(apierrors.IsForbidden(err)).To(BeTrue(), fmt.Sprint("denied: ", err))
		Expect(err).To(MatchError(ContainSubstring(message)))
		Expect(err).To(MatchError(ContainSubstring("drain it with `kubectl vdi drain " + name + "`")))
		Expect(asOperator(hub, alice).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{FieldSelector: "metadata.name=" + name})).NotTo(Succeed())

		Expect(patch(ctx, hub, alice, name, declaration("fp-eu", "alice"))).To(Succeed())
		Expect(asOperator(hub, alice).Delete(ctx, name, metav1.DeleteOptions{})).To(Succeed(), "without conditions")
	},
		Entry("that holds sessions", `{sessions: 12}`, "is not empty: 12 sessions are placed there, and the stop of 0 more is not confirmed"),
		Entry("where a stop is not confirmed", `{releasing: 1}`, "is not empty: 0 sessions are placed there, and the stop of 1 more is not confirmed"),
	)
})

// asOperator returns a requester's client for members.
func asOperator(hub *harness.ControlPlane, caller requester) dynamic.ResourceInterface {
	GinkgoHelper()
	return clientOf(hub, caller, vdi.GroupVersion.WithResource("memberclusters"))
}

// member creates a member with the status, which is deleted when the spec ends.
func member(ctx context.Context, hub *harness.ControlPlane, fields string) string {
	GinkgoHelper()
	object := build("memberclusters")
	object.SetName("")
	object.SetGenerateName("eu-")
	made, err := asOperator(hub, root).Create(ctx, object, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	name := made.GetName()
	status(ctx, hub, name, fields)
	DeferCleanup(func(ctx context.Context) {
		_, err := asOperator(hub, root).Patch(ctx, name, types.MergePatchType, []byte(`{"status":{"sessions":0,"releasing":0}}`), metav1.PatchOptions{}, "status")
		if apierrors.IsNotFound(err) {
			return
		}
		Expect(err).NotTo(HaveOccurred())
		Expect(asOperator(hub, root).Delete(ctx, name, metav1.DeleteOptions{})).To(Succeed())
	})
	return name
}

// status merges fields into a member's status.
func status(ctx context.Context, hub *harness.ControlPlane, name, fields string) {
	GinkgoHelper()
	client := asOperator(hub, root)
	object, err := client.Get(ctx, name, metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	into := map[string]any{"sessions": int64(0), "nodes": int64(0)}
	if was, ok := object.Object["status"].(map[string]any); ok {
		merge(into, was)
	}
	merge(into, parse(fields))
	conditions, _ := into["conditions"].([]any)
	for _, c := range conditions {
		merge(c.(map[string]any), parse(`{message: "", lastTransitionTime: "2026-03-01T09:00:00Z"}`))
	}
	_, err = client.UpdateStatus(ctx, &unstructured.Unstructured{Object: withStatus(object.Object, into)}, metav1.UpdateOptions{})
	Expect(err).NotTo(HaveOccurred())
}

func withStatus(object, status map[string]any) map[string]any {
	object["status"] = status
	return object
}

func patch(ctx context.Context, hub *harness.ControlPlane, caller requester, name, merge string) error {
	GinkgoHelper()
	_, err := asOperator(hub, caller).Patch(ctx, name, types.MergePatchType, []byte(merge), metav1.PatchOptions{})
	return err
}
