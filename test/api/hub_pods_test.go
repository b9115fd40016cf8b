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

// podPatchers allows the hub, as its Role does, and alice to patch Pods.
const podPatchers = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: vdi-hub, namespace: vdi-system}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: vdi-agent, namespace: vdi-system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: pod-patcher}
rules:
- {apiGroups: [""], resources: [pods], verbs: [get, patch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: pod-patchers}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: pod-patcher}
subjects:
- {kind: ServiceAccount, namespace: vdi-system, name: vdi-hub}
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: alice}
`

const (
	hubPod   = `{apiVersion: v1, kind: Pod, metadata: {name: hub, labels: {app.kubernetes.io/name: vdi-hub}}, spec: {serviceAccountName: vdi-hub, containers: [{name: hub, image: hub}]}}`
	agentPod = `{apiVersion: v1, kind: Pod, metadata: {name: agent, labels: {app.kubernetes.io/name: vdi-agent}}, spec: {serviceAccountName: vdi-agent, containers: [{name: agent, image: agent}]}}`
)

// checkPods checks which Pods of its namespace the hub may patch.
func checkPods(hub func() *harness.ControlPlane) {
	GinkgoHelper()
	beDenied := SatisfyAll(MatchError(apierrors.IsForbidden, "IsForbidden"), MatchError(ContainSubstring("the hub may change only")))
	patch := func(ctx context.Context, caller requester, name, text string) error {
		_, err := pods(hub(), caller).Patch(ctx, name, types.StrategicMergePatchType, []byte(text), metav1.PatchOptions{})
		return err
	}

	Describe("of the hub's Pods", Ordered, func() {
		BeforeAll(func(ctx SpecContext) {
			Expect(hub().Apply(ctx, []byte(secretWriters))).To(Succeed()) // and its namespace
			Expect(hub().Apply(ctx, []byte(podPatchers))).To(Succeed())
			for _, text := range []string{hubPod, agentPod} {
				pod := &unstructured.Unstructured{Object: parse(text)}
				Eventually(ctx, func(ctx context.Context) error {
					_, err := pods(hub(), root).Create(ctx, pod, metav1.CreateOptions{})
					return err
				}).Should(Succeed())
			}
			for _, caller := range []requester{hubAccount, alice} {
				Eventually(ctx, func(ctx context.Context) error {
					_, err := pods(hub(), caller).Get(ctx, "hub", metav1.GetOptions{})
					return err
				}).Should(Succeed())
			}
		})

		It("allow it to label its own as the leader, and to remove the label", func(ctx context.Context) {
			Expect(patch(ctx, hubAccount, "hub", `{"metadata":{"labels":{"vdi.kasm.io/hub-role":"leader"}}}`)).To(Succeed())
			Expect(patch(ctx, hubAccount, "hub", `{"metadata":{"labels":{"vdi.kasm.io/hub-role":null}}}`)).To(Succeed())
		})

		DescribeTable("allow it to change nothing else", func(ctx context.Context, name, text string) {
			Expect(patch(ctx, hubAccount, name, text)).To(beDenied)
			Expect(patch(ctx, alice, name, text)).To(Succeed(), "no other user is checked")
		},
			Entry("the image of an agent, which would run as the agent", "agent", `{"spec":{"containers":[{"name":"agent","image":"evil"}]}}`),
			Entry("the leader's label on another's", "agent", `{"metadata":{"labels":{"vdi.kasm.io/hub-role":"leader"}}}`),
			Entry("its own image", "hub", `{"spec":{"containers":[{"name":"hub","image":"evil"}]}}`),
			Entry("another label of its own", "hub", `{"metadata":{"labels":{"app.kubernetes.io/name":"other"}}}`),
			Entry("one more label", "hub", `{"metadata":{"labels":{"a":"b"}}}`),
			Entry("one label less", "hub", `{"metadata":{"labels":{"a":null}}}`),
			Entry("an annotation", "hub", `{"metadata":{"annotations":{"a":"b"}}}`),
			Entry("a finalizer", "hub", `{"metadata":{"finalizers":["example.com/f"]}}`),
		)
	})
}

func pods(hub *harness.ControlPlane, caller requester) dynamic.ResourceInterface {
	GinkgoHelper()
	return clientOf(hub, caller, schema.GroupVersionResource{Version: "v1", Resource: "pods"}).Namespace("vdi-system")
}
