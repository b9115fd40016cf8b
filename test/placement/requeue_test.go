package placement

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// Requirements of a template that become available are in available_test.go.
var _ = Describe("A pending session is queued by what helps it", func() {
	var (
		p       *pool
		desktop string
	)
	BeforeEach(func(ctx SpecContext) {
		p = newPool("wake")
		p.add(ctx, eu, pieces("2500m", "500m")...)
		p.churn()
		desktop = p.template(ctx, "wake")
		Eventually(ctx, slots(eu, desktop)).Should(BeEquivalentTo(2))
	})

	It("when another Pod is removed", func(ctx SpecContext) {
		large := p.template(ctx, "wake-large", requesting("3"))
		Eventually(ctx, slots(eu, large)).Should(BeZero())
		s := create(ctx, session("for-capacity", large))
		expectPending(ctx, s, "cpu (largest free on a node")
		p.removePod(ctx, eu, p.nodes[eu][0])
		Eventually(ctx, member(s)).WithTimeout(byEvent).Should(Equal(eu))
	}, SpecTimeout(specTimeout))

	It("when the member is opened again", func(ctx SpecContext) {
		scheduling(ctx, eu, v1alpha1.SchedulingCordoned)
		DeferCleanup(func(ctx SpecContext) { scheduling(ctx, eu, v1alpha1.SchedulingActive) })
		Eventually(ctx, slots(eu, desktop)).Should(BeZero())
		s := create(ctx, session("for-a-member", desktop))
		expectPending(ctx, s, "1 is cordoned (open it again: kubectl patch memberclusters "+eu)
		scheduling(ctx, eu, v1alpha1.SchedulingActive)
		Eventually(ctx, member(s)).WithTimeout(byEvent).Should(Equal(eu))
	}, SpecTimeout(specTimeout))

	It("when its policy is changed", func(ctx SpecContext) {
		policy := newPolicy(ctx, "wake", v1alpha1.PlacementPolicySpec{
			Match: v1alpha1.PolicyMatch{Templates: []string{desktop}}, RequiredRegions: []string{us},
		})
		s := create(ctx, session("for-a-policy", desktop))
		expectPending(ctx, s, "outside "+us)
		edit(ctx, policy, func() { policy.Spec.RequiredRegions = []string{us, eu} })
		Eventually(ctx, member(s)).WithTimeout(byEvent).Should(Equal(eu))
	}, SpecTimeout(specTimeout))

	It("when one of those that a cap counts ends", func(ctx SpecContext) {
		newPolicy(ctx, "wake", v1alpha1.PlacementPolicySpec{
			Match: v1alpha1.PolicyMatch{Templates: []string{desktop}}, SessionCaps: v1alpha1.SessionCaps{PerUser: ptr.To[int32](1)},
		})
		mine := of("mine@example.com")
		first := create(ctx, session("under-a-cap", desktop, mine))
		Eventually(ctx, member(first)).Should(Equal(eu))
		second := create(ctx, session("over-a-cap", desktop, mine))
		expectPending(ctx, second, v1alpha1.ReasonPolicyCap+": ")
		Expect(why(second)(ctx)).To(And(ContainSubstring("wake"), ContainSubstring("sessionCaps.perUser"), ContainSubstring("end one of them")))
		other := create(ctx, session("of-another", desktop))
		Eventually(ctx, member(other)).Should(Equal(eu), "the cap is each user's own")
		end(ctx, other)
		end(ctx, first)
		Eventually(ctx, member(second)).WithTimeout(byEvent).Should(Equal(eu))
	}, SpecTimeout(specTimeout))

	It("when its user's home is free", func(ctx SpecContext) {
		homely := p.template(ctx, "wake-home", func(t *v1alpha1.TemplateSpec) {
			t.Home = v1alpha1.TemplateHome{Mode: v1alpha1.HomePerUser, Size: quantity("1Gi")}
		})
		mine := of("homely@example.com")
		Eventually(ctx, slots(eu, homely)).ShouldNot(BeZero())
		first := create(ctx, session("has-the-home", homely, mine))
		Eventually(ctx, member(first)).Should(Equal(eu))
		second := create(ctx, session("wants-the-home", homely, mine))
		expectPending(ctx, second, v1alpha1.ReasonHomeInUse+": ")
		end(ctx, first)
		Eventually(ctx, member(second)).WithTimeout(byEvent).Should(Equal(eu))
	}, SpecTimeout(specTimeout))
})

func scheduling(ctx context.Context, member string, state v1alpha1.SchedulingState) {
	GinkgoHelper()
	mc := &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: member}}
	patch := []byte(`{"spec":{"scheduling":"` + string(state) + `"}}`)
	Expect(hub.Patch(ctx, mc, client.RawPatch(types.MergePatchType, patch))).To(Succeed())
}

// newPolicy creates a policy that is deleted with the spec.
func newPolicy(ctx context.Context, name string, spec v1alpha1.PlacementPolicySpec) *v1alpha1.PlacementPolicy {
	GinkgoHelper()
	policy := &v1alpha1.PlacementPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
	Expect(hub.Create(ctx, policy)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(hub.Delete(ctx, policy))).To(Succeed()) })
	return policy
}

// edit patches an object as its owner does.
func edit(ctx context.Context, o client.Object, change func()) {
	GinkgoHelper()
	Expect(hub.Get(ctx, client.ObjectKeyFromObject(o), o)).To(Succeed())
	before := o.DeepCopyObject().(client.Object)
	change()
	Expect(hub.Patch(ctx, o, client.MergeFrom(before))).To(Succeed())
}

func quantity(text string) *resource.Quantity {
	q := resource.MustParse(text)
	return &q
}
