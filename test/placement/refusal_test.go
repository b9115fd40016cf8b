package placement

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

var _ = Describe("A member's refusal", func() {
	It("sends the session to the next best at once; where all refuse it says who and why, and goes when one lets it in", func(ctx SpecContext) {
		p := newPool("refusing")
		p.add(ctx, eu, pieces("4500m", "500m")...)
		p.add(ctx, us, pieces("2500m", "500m")...)
		p.restless()
		desktop := p.template(ctx, "refusing")
		Eventually(ctx, slots(eu, desktop)).Should(BeEquivalentTo(4))
		Eventually(ctx, slots(us, desktop)).Should(BeEquivalentTo(2))
		byAgent := func() float64 {
			return counted(ctx, fleet.Member(eu).Agent.MetricsAddr, `vdi_agent_assignment_refused_total{reason="Invalid"}`)
		}
		before, refused := byAgent(), byHub(ctx, `vdi_hub_placements_total{result="refused"}`)

		lift(eu, quota(ctx, eu))
		first := create(ctx, session("refused", desktop, in(teamC), near(eu)))
		Eventually(ctx, member(first)).WithTimeout(byEvent).Should(Equal(us))
		Eventually(ctx, events(first)).Should(ContainElement(v1alpha1.EventRefused))
		Expect(byAgent()).To(Equal(before + 1))
		Expect(byHub(ctx, `vdi_hub_placements_total{result="refused"}`)).To(Equal(refused + 1))
		Expect(current(ctx, first)).To(HaveField("Status.Placement.Epoch", BeEquivalentTo(2)))

		By("having all members refuse")
		gone := lift(us, quota(ctx, us))
		second := create(ctx, session("refused-twice", desktop, in(teamC), near(eu)))
		Eventually(ctx, why(second)).Should(And(ContainSubstring("refused"), ContainSubstring("exceeded quota: full")))
		gone(ctx)
		Eventually(ctx, member(second)).Should(Equal(us))
	}, SpecTimeout(specTimeout))
})

// quota of a member's namespace that lets no assignment in.
func quota(ctx context.Context, member string) *corev1.ResourceQuota {
	GinkgoHelper()
	q := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: teamC, Name: "full"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"count/sessionassignments.vdi.kasm.io": *quantity("0")}},
	}
	Expect(clients[member].Create(ctx, q)).To(Succeed())
	Eventually(ctx, func(ctx context.Context) (corev1.ResourceList, error) {
		err := clients[member].Get(ctx, client.ObjectKeyFromObject(q), q)
		return q.Status.Hard, err
	}).ShouldNot(BeEmpty())
	return q
}

// lift is what lifts a quota, at the end of the spec at the latest.
func lift(member string, q *corev1.ResourceQuota) func(context.Context) {
	gone := func(ctx context.Context) {
		GinkgoHelper()
		Expect(client.IgnoreNotFound(clients[member].Delete(ctx, q))).To(Succeed())
	}
	DeferCleanup(func(ctx SpecContext) { gone(ctx) })
	return gone
}
