package placement

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/harness/proxy"
)

var _ = Describe("A member's refusal", func() {
	It("places the session in the next best at once; where all refuse it shows which and why, and is placed where another has capacity", func(ctx SpecContext) {
		p := newPool("refusing")
		p.add(ctx, eu, pieces("4500m", "500m")...)
		p.add(ctx, us, pieces("2500m", "500m")...)
		p.churn()
		desktop := p.template(ctx, "refusing")
		Eventually(ctx, slots(eu, desktop)).Should(BeEquivalentTo(4))
		Eventually(ctx, slots(us, desktop)).Should(BeEquivalentTo(2))
		byAgent := func() float64 {
			return byAgent(ctx, fleet.Member(eu), `vdi_agent_assignment_refused_total{reason="Invalid"}`)
		}
		before, refused := byAgent(), byHub(ctx, `vdi_hub_placements_total{result="refused"}`)

		lift(eu, quota(ctx, eu))
		first := create(ctx, session("refused", desktop, in(teamC), near(eu)))
		Eventually(ctx, member(first)).WithTimeout(byEvent).Should(Equal(us))
		Eventually(ctx, events(first)).Should(ContainElement(v1alpha1.EventRefused))
		Expect(byAgent()).To(Equal(before + 1))
		Expect(byHub(ctx, `vdi_hub_placements_total{result="refused"}`)).To(Equal(refused + 1))
		Expect(current(ctx, first)).To(HaveField("Status.Placement.Epoch", BeEquivalentTo(2)))

		By("having all refuse that have capacity")
		lift(us, quota(ctx, us))
		second := create(ctx, session("refused-twice", desktop, in(teamC), near(eu)))
		Eventually(ctx, why(second)).Should(And(ContainSubstring("refused"), ContainSubstring("exceeded quota: full")))
		p.add(ctx, ap, pieces("1500m")...)
		Eventually(ctx, member(second)).WithTimeout(byEvent).Should(Equal(ap))
	}, SpecTimeout(specTimeout))

	It("comes when another Pod has taken the capacity in that moment, before anything is created", func(ctx SpecContext) {
		p := newPool("race")
		nodes := p.add(ctx, eu, pieces("4500m", "1500m")...)
		p.add(ctx, us, pieces("4500m", "500m")...)
		p.churn()
		desktop := p.template(ctx, "race", requesting("4"))
		Eventually(ctx, slots(eu, desktop)).Should(BeEquivalentTo(1))
		Eventually(ctx, slots(us, desktop)).Should(BeEquivalentTo(1))
		m := fleet.Member(eu)
		lackOfCapacity := func() float64 {
			return byAgent(ctx, m, `vdi_agent_assignment_refused_total{reason="NoCapacity"}`)
		}
		before := lackOfCapacity()

		// The report of the other Pod reaches the hub only after it has decided.
		Expect(m.Proxy.Cut(proxy.CutToHub)).To(Succeed())
		p.otherPod(ctx, eu, nodes[0], "quicker", "1")
		Eventually(ctx, bound(eu, "quicker-"+nodes[0])).Should(BeTrue())
		s := create(ctx, session("late", desktop, near(eu)))
		Eventually(ctx, lackOfCapacity).Should(Equal(before + 1))
		Expect(seen.where()).To(Equal(map[string]int{eu: 1}))
		Expect(m.Proxy.Heal()).To(Succeed())

		Eventually(ctx, member(s)).WithTimeout(byEvent).Should(Equal(us))
		Eventually(ctx, events(s)).Should(ContainElement(v1alpha1.EventRefused))
		Expect(assignmentsIn(ctx, eu)).To(BeEmpty())
	}, SpecTimeout(specTimeout))
})

// bound reports whether another Pod is bound to a node, for Eventually.
func bound(member, name string) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		pod := &corev1.Pod{}
		err := clients[member].Get(ctx, client.ObjectKey{Namespace: others, Name: name}, pod)
		return pod.Spec.NodeName != "", err
	}
}

// quota creates a quota of a member's namespace that admits no assignment.
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

// lift deletes a quota at the end of the spec.
func lift(member string, q *corev1.ResourceQuota) {
	DeferCleanup(func(ctx SpecContext) {
		Expect(client.IgnoreNotFound(clients[member].Delete(ctx, q))).To(Succeed())
	})
}
