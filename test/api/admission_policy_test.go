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

	vdi "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

var (
	// rosa is of the group that policy residents matches, and may use no policy.
	rosa = requester{"rosa", []string{"staff", "residents"}}
	// ned is the one user of policy unlabeled.
	ned = requester{"ned", nil}
	// olga may administer the sessions of namespace desktops.
	olga = requester{"olga", nil}
)

// governed are policies that match by labels and by groups.
const governed = `
apiVersion: vdi.kasm.io/v1alpha1
kind: PlacementPolicy
metadata: {name: gold}
spec: {match: {selector: {matchLabels: {tier: gold}, matchExpressions: [{key: cost, operator: NotIn, values: [low]}]}}}
---
apiVersion: vdi.kasm.io/v1alpha1
kind: PlacementPolicy
metadata: {name: residents}
spec: {match: {groups: [residents, diplomats]}, requiredRegions: [eu-west]}
---
apiVersion: vdi.kasm.io/v1alpha1
kind: PlacementPolicy
metadata: {name: unlabeled}
spec: {match: {users: [ned], selector: {matchExpressions: [{key: tier, operator: DoesNotExist}]}}}
---
apiVersion: vdi.kasm.io/v1alpha1
kind: PlacementPolicy
metadata: {name: elsewhere}
spec: {match: {namespaces: [elsewhere], groups: [staff], selector: {matchLabels: {tier: silver}}}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: review-creator}
rules:
- {apiGroups: [vdi.kasm.io], resources: [placementreviews], verbs: [create]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: review-creators}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: review-creator}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: Group, name: "system:authenticated"}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {namespace: desktops, name: administrator}
rules:
- {apiGroups: [vdi.kasm.io], resources: [vdisessions], verbs: [administer]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {namespace: desktops, name: administrators}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: administrator}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: olga}
`

// policiesInForce waits until the API server applies the policies of governed.
func policiesInForce(ctx context.Context, hub *harness.ControlPlane) {
	GinkgoHelper()
	Expect(hub.Apply(ctx, []byte(governed))).To(Succeed())
	denied := MatchError(apierrors.IsForbidden, "IsForbidden")
	for caller, session := range map[*requester]*unstructured.Unstructured{
		&alice: labeled(sessionFor("alice"), "tier", "gold"), &rosa: sessionFor("rosa"), &ned: sessionFor("ned"),
	} {
		Eventually(ctx, func(ctx context.Context) error {
			_, err := as(hub, *caller).Create(ctx, session, dryRun)
			return err
		}).WithTimeout(25*time.Second).Should(denied, caller.user)
	}
	Eventually(ctx, func(ctx context.Context) error {
		_, err := reviews(hub, olga).Create(ctx, reviewOf(sessionFor("bob")), dryRun)
		return err
	}).WithTimeout(25 * time.Second).Should(Succeed())
	Eventually(ctx, func(ctx context.Context) error {
		_, err := reviews(hub, alice).Create(ctx, reviewOf(sessionFor("bob")), dryRun)
		return err
	}).WithTimeout(25 * time.Second).Should(denied)
}

func labeled(session *unstructured.Unstructured, pairs ...string) *unstructured.Unstructured {
	labels := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		labels[pairs[i]] = pairs[i+1]
	}
	session.SetLabels(labels)
	return session
}

func reviews(hub *harness.ControlPlane, caller requester) interface {
	Create(context.Context, *unstructured.Unstructured, metav1.CreateOptions, ...string) (*unstructured.Unstructured, error)
} {
	GinkgoHelper()
	return clientOf(hub, caller, vdi.GroupVersion.WithResource("placementreviews")).Namespace("desktops")
}

// reviewOf returns a review of where a session would be placed.
func reviewOf(session *unstructured.Unstructured) *unstructured.Unstructured {
	GinkgoHelper()
	review := build("placementreviews", `metadata: {name: asked}`)
	Expect(unstructured.SetNestedMap(review.Object, session.Object["spec"].(map[string]any), "spec", "session")).To(Succeed())
	return review
}

func tolerant(session *unstructured.Unstructured, keys ...string) *unstructured.Unstructured {
	GinkgoHelper()
	var tolerations []any
	for _, key := range keys {
		tolerations = append(tolerations, map[string]any{"key": key, "operator": "Exists"})
	}
	Expect(unstructured.SetNestedSlice(session.Object, tolerations, "spec", "placement", "clusterTolerations")).To(Succeed())
	return session
}

// checkGoverning checks which users may change a session so that a policy matches it, or no
// longer does.
func checkGoverning(hub func() *harness.ControlPlane) {
	type session = *unstructured.Unstructured
	DescribeTable("allow a session to come under a policy", func(ctx context.Context, caller requester, s func() session) {
		_, err := as(hub(), caller).Create(ctx, s(), dryRun)
		Expect(err).NotTo(HaveOccurred())
	},
		Entry("by labels, with the permission to use it", gerda, func() session { return labeled(sessionFor("gerda"), "tier", "gold") }),
		Entry("or not, by other labels", alice, func() session { return labeled(sessionFor("alice"), "tier", "silver", "app", "mine") }),
		Entry("or not, by a label that its selector excludes", alice, func() session { return labeled(sessionFor("alice"), "tier", "gold", "cost", "low") }),
		Entry("or not, in a namespace that it does not match", rosa, func() session { return labeled(sessionFor("rosa", "residents"), "tier", "silver") }),
		Entry("by a group that it names", rosa, func() session { return sessionFor("rosa", "residents") }),
		Entry("by a group, or not, with the permission to use it", requester{"root", []string{"system:masters", "residents"}}, func() session { return sessionFor("root") }),
		Entry("by a group, or not, with the permission to impersonate", portal, func() session { return sessionFor("rosa") }),
		Entry("by labels that it has not, or not", ned, func() session { return labeled(sessionFor("ned"), "tier", "silver") }),
	)

	DescribeTable("deny a session that is to", func(ctx context.Context, caller requester, s func() session, message string) {
		_, err := as(hub(), caller).Create(ctx, s(), dryRun)
		Expect(apierrors.IsForbidden(err)).To(BeTrue(), fmt.Sprint("denied: ", err))
		Expect(err).To(MatchError(ContainSubstring("denied request: " + message)))
	},
		Entry("come under a policy by labels", alice, func() session { return labeled(sessionFor("alice"), "tier", "gold") },
			"user alice: with these labels the session comes under PlacementPolicy gold, which requires permission to use that policy (verb use on placementpolicies): leave these labels out"),
		Entry("come under a policy by labels that it has not", ned, func() session { return sessionFor("ned") },
			"user ned: with these labels the session comes under PlacementPolicy unlabeled"),
		Entry("escape a policy by omitting a group", rosa, func() session { return sessionFor("rosa") },
			"user rosa: PlacementPolicy residents matches sessions of your group residents: add it to spec.groups"),
		Entry("escape a policy by naming another group", rosa, func() session { return sessionFor("rosa", "staff") },
			"user rosa: PlacementPolicy residents matches sessions of your group residents: add it to spec.groups"),
		Entry("tolerate a member's taint", gerda, func() session { return tolerant(sessionFor("gerda"), "dedicated") }, // gerda may prioritize
			"user gerda: to add to spec.placement.clusterTolerations requires permission to tolerate taints of members in namespace desktops (verb tolerate on vdisessions)"),
	)

	It("check labels on update by what they change", func(ctx context.Context) {
		made := create(ctx, hub(), root, tolerant(labeled(sessionFor("alice"), "tier", "gold"), "spot"))
		patch := func(caller requester, text string) error {
			_, err := as(hub(), caller).Patch(ctx, made.GetName(), types.MergePatchType, []byte(text), metav1.PatchOptions{})
			return err
		}
		leaves := MatchError(ContainSubstring("user alice: with these labels the session leaves PlacementPolicy gold"))
		Expect(patch(alice, `{"metadata":{"labels":{"tier":null}}}`)).To(leaves)
		Expect(patch(alice, `{"metadata":{"labels":{"tier":"silver"}}}`)).To(leaves)
		Expect(patch(alice, `{"metadata":{"labels":{"cost":"low"}}}`)).To(leaves)
		Expect(patch(alice, `{"metadata":{"labels":{"app":"mine","cost":"high"}}}`)).To(Succeed())
		Expect(patch(alice, `{"spec":{"timeout":"3h","placement":{"clusterTolerations":[{"key":"spot","operator":"Exists"}]}}}`)).To(Succeed())
		Expect(patch(alice, `{"spec":{"placement":{"clusterTolerations":[{"key":"spot","operator":"Exists"},{"operator":"Exists"}]}}}`)).
			To(MatchError(ContainSubstring("verb tolerate")))
		Expect(patch(alice, `{"spec":{"placement":{"clusterTolerations":null}}}`)).To(Succeed())
		Expect(patch(root, `{"metadata":{"labels":{"tier":null}}}`)).To(Succeed())
		Expect(patch(alice, `{"metadata":{"labels":{"tier":"gold"}}}`)).To(MatchError(ContainSubstring("comes under PlacementPolicy gold")))
	})

	DescribeTable("allow a review of", func(ctx context.Context, caller requester, s func() session) {
		_, err := reviews(hub(), caller).Create(ctx, reviewOf(s()), dryRun)
		Expect(err).NotTo(HaveOccurred())
	},
		Entry("a session of one's own", alice, func() session { return sessionFor("alice", "staff") }),
		Entry("a session of a user that one may impersonate", desk, func() session { return sessionFor("bob", "g1", "g2", "g3", "g4") }),
		Entry("a session of any user, with the permission to impersonate", portal, func() session { return sessionFor("bob", numbered("h", 32)...) }),
		Entry("any session, with the permission to administer", olga, func() session {
			s := tolerant(sessionFor("bob", numbered("h", 32)...), "dedicated")
			Expect(unstructured.SetNestedField(s.Object, "gold", "spec", "placement", "policy")).To(Succeed())
			return s
		}),
		Entry("a permitted policy and priority", gerda, func() session { return steered("gerda", "gold", 5) }),
	)

	DescribeTable("deny a review of", func(ctx context.Context, caller requester, s func() session, message string) {
		_, err := reviews(hub(), caller).Create(ctx, reviewOf(s()), dryRun)
		Expect(apierrors.IsForbidden(err)).To(BeTrue(), fmt.Sprint("denied: ", err))
		Expect(err).To(MatchError(ContainSubstring("denied request: " + message)))
	},
		Entry("a session of another user", alice, func() session { return sessionFor("bob") },
			"user alice: you may review only your own sessions (spec.session.user: alice); to review one for bob, you need permission to impersonate that user, or to administer sessions"),
		Entry("a group that is not one's own", alice, func() session { return sessionFor("alice", "staff", "admins") },
			"user alice: spec.session.groups may list only your own groups; to list admins, you need"),
		Entry("more groups than are checked by name", desk, func() session { return sessionFor("bob", deskGroups[:5]...) },
			"user system:serviceaccount:portal:desk: spec.session.groups may list only your own groups"),
		Entry("a policy that one may not use", alice, func() session { return steered("alice", "gold", 0) },
			"user alice: PlacementPolicy gold in spec.session.placement.policy"),
		Entry("a priority", alice, func() session { return steered("alice", "", 1) }, "a priority above 0 requires permission"),
		Entry("a toleration", alice, func() session { return tolerant(sessionFor("alice"), "dedicated") },
			"spec.session.placement.clusterTolerations requires permission"),
	)
}
