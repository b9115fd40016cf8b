package api

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// gerda may use policy gold, and prioritize sessions of namespace desktops.
var gerda = requester{"gerda", nil}

const steerers = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: gold-user}
rules:
- {apiGroups: [vdi.kasm.io], resources: [placementpolicies], resourceNames: [gold], verbs: [use]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: gold-users}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: gold-user}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: gerda}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {namespace: desktops, name: prioritizer}
rules:
- {apiGroups: [vdi.kasm.io], resources: [vdisessions], verbs: [prioritize]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {namespace: desktops, name: prioritizers}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: prioritizer}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: gerda}
`

// steered returns a user's own session with a priority, and a policy unless it is empty.
func steered(user, policy string, priority int64) *unstructured.Unstructured {
	GinkgoHelper()
	session := sessionFor(user)
	placement := map[string]any{"priority": priority}
	if policy != "" {
		placement["policy"] = policy
	}
	session.Object["spec"].(map[string]any)["placement"] = placement
	return session
}

// checkSteering checks which users may set a policy and a priority.
func checkSteering(hub func() *harness.ControlPlane) {
	DescribeTable("allow to steer a session", func(ctx context.Context, caller requester, policy string, priority int64) {
		_, err := as(hub(), caller).Create(ctx, steered(caller.user, policy, priority), dryRun)
		Expect(err).NotTo(HaveOccurred())
	},
		Entry("not at all", alice, "", int64(0)),
		Entry("behind others", alice, "", int64(-5)),
		Entry("by a policy that its user may use", gerda, "gold", int64(0)),
		Entry("past others with the permission to prioritize", gerda, "", int64(1000)),
		Entry("by an administrator", root, "silver", int64(1000)),
	)

	DescribeTable("deny to steer a session", func(ctx context.Context, caller requester, policy string, priority int64, message string) {
		_, err := as(hub(), caller).Create(ctx, steered(caller.user, policy, priority), dryRun)
		Expect(apierrors.IsForbidden(err)).To(BeTrue(), fmt.Sprint("denied: ", err))
		Expect(err).To(MatchError(ContainSubstring("denied request: " + message)))
	},
		Entry("by a policy without the permission to use it", alice, "gold", int64(0), "user alice: PlacementPolicy gold in spec.placement.policy requires permission to use it"),
		Entry("by another policy than the permitted one", gerda, "silver", int64(0), "user gerda: PlacementPolicy silver"),
		Entry("past others", alice, "", int64(1), "user alice: spec.placement.priority above 0 requires permission to prioritize sessions in namespace desktops"),
	)

	It("check an update by what it adds", func(ctx context.Context) {
		made := steered("alice", "gold", 10)
		created, err := as(hub(), root).Create(ctx, made, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		removeAfterwards(hub(), created.GetName())
		patch := func(text string) error {
			_, err := as(hub(), alice).Patch(ctx, created.GetName(), types.MergePatchType, []byte(text), metav1.PatchOptions{})
			return err
		}
		Expect(patch(`{"spec":{"timeout":"3h"}}`)).To(Succeed())
		Expect(patch(`{"spec":{"placement":{"priority":11}}}`)).To(MatchError(ContainSubstring("requires permission to prioritize")))
		Expect(patch(`{"spec":{"placement":{"priority":9}}}`)).To(Succeed())
		Expect(patch(`{"spec":{"placement":{"policy":"silver"}}}`)).To(MatchError(ContainSubstring("PlacementPolicy silver")))
		for _, removal := range []string{`{"spec":{"placement":{"policy":null}}}`, `{"spec":{"placement":null}}`} {
			Expect(patch(removal)).To(MatchError(ContainSubstring(
				"user alice: to remove PlacementPolicy gold from spec.placement.policy requires permission")))
		}
		_, err = as(hub(), root).Patch(ctx, created.GetName(), types.MergePatchType, []byte(`{"spec":{"placement":{"policy":null}}}`), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(patch(`{"spec":{"placement":{"priority":0}}}`)).To(Succeed())
	})
}
