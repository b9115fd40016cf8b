package integration

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

var _ = Describe("A member's access", func() {
	It("is revoked within five seconds, and what runs there keeps running", func(ctx SpecContext) {
		const name = "ap-south"
		member := func(ctx context.Context) (*v1alpha1.MemberCluster, error) {
			mc := &v1alpha1.MemberCluster{}
			return mc, hub.Get(ctx, client.ObjectKey{Name: name}, mc)
		}
		condition := func(kind string) func(context.Context) (string, error) {
			return func(ctx context.Context) (string, error) {
				mc, err := member(ctx)
				if c := meta.FindStatusCondition(mc.Status.Conditions, kind); c != nil {
					return string(c.Status) + "/" + c.Reason, err
				}
				return "", err
			}
		}
		access := func(ctx context.Context, a v1alpha1.MemberAccess) {
			GinkgoHelper()
			mc, err := member(ctx)
			Expect(err).NotTo(HaveOccurred())
			before := mc.DeepCopy()
			mc.Spec.Access = a
			Expect(hub.Patch(ctx, mc, client.MergeFrom(before))).To(Succeed())
		}
		mc, err := member(ctx)
		Expect(err).NotTo(HaveOccurred())
		if mc.Status.Certificate != nil {
			Skip("a member that the hub issues certificates for would have to join again")
		}
		s := awaitRunning(ctx, create(ctx, newSession("cut-short", inRegion(name))))

		access(ctx, v1alpha1.AccessRevoked)
		DeferCleanup(func(ctx SpecContext) { access(ctx, v1alpha1.AccessAllowed) })
		Eventually(ctx, condition(v1alpha1.ConditionReady)).WithTimeout(5 * time.Second).Should(Equal("False/Revoked"))
		Eventually(ctx, condition(v1alpha1.ConditionConnected)).WithTimeout(5 * time.Second).Should(Equal("False/Revoked"))
		Expect(condition(v1alpha1.ConditionEnrolled)(ctx)).To(Equal("False/Revoked"))
		Eventually(ctx, reason(s, v1alpha1.ConditionPodReady)).Should(Equal(v1alpha1.ReasonMemberUnreachable))
		Expect(podsOf(ctx, s.UID)).To(HaveLen(1))
		Consistently(ctx, condition(v1alpha1.ConditionConnected)).Should(Equal("False/Revoked"), "it is not admitted again")

		access(ctx, v1alpha1.AccessAllowed)
		Eventually(ctx, condition(v1alpha1.ConditionReady)).Should(Equal("True/Connected"))
		Eventually(ctx, condition(v1alpha1.ConditionSynced)).Should(Equal("True/Synced"))
		Eventually(ctx, reason(s, v1alpha1.ConditionPodReady)).Should(Equal(v1alpha1.ReasonPodReady))
	})
})
