package placement

import (
	"context"
	"fmt"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// The policies of deploy/samples/policies, all applied at once.
var _ = Describe("The sample policies", Ordered, ContinueOnFailure, func() {
	BeforeAll(func(ctx SpecContext) {
		root, err := harness.Root()
		Expect(err).NotTo(HaveOccurred())
		Expect(fleet.Hub.ControlPlane.ApplyFile(ctx, filepath.Join(root, "deploy", "samples", "policies"))).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(hub.DeleteAllOf(ctx, &v1alpha1.PlacementPolicy{})).To(Succeed()) })
	})

	It("fill the home region, then its neighbor, then any; and show which would be elsewhere today", func(ctx SpecContext) {
		p := newPool("home-region")
		p.add(ctx, eu, pieces("1500m", "1500m", "500m")...)
		p.add(ctx, us, pieces("1500m")...)
		p.add(ctx, ap, pieces("2500m", "500m")...)
		p.churn()
		desktop := p.template(ctx, "home-region")
		Eventually(ctx, slots(eu, desktop)).Should(BeEquivalentTo(2))
		Eventually(ctx, slots(us, desktop)).Should(BeEquivalentTo(1))
		Eventually(ctx, slots(ap, desktop)).Should(BeEquivalentTo(2))
		staff := func(s *v1alpha1.VDISession) { s.Spec.Groups = []string{"staff-europe"} }
		for i, want := range []string{eu, eu, us, ap} {
			s := create(ctx, session(fmt.Sprintf("staff-%d", i), desktop, staff))
			Eventually(ctx, member(s)).Should(Equal(want), "the %dth", i+1)
		}
		Eventually(ctx, status("home-europe")).Should(And(HaveField("Sessions", BeEquivalentTo(4)), HaveField("Placed", BeEquivalentTo(4)), HaveField("Elsewhere", BeZero())))

		By("making capacity at home, which moves no session")
		p.add(ctx, eu, pieces("2500m")...)
		Eventually(ctx, status("home-europe")).Should(HaveField("Elsewhere", BeEquivalentTo(2)))
		Expect(seen.where()).To(Equal(map[string]int{eu: 2, us: 1, ap: 1}))
		Expect(fleet.Hub.ControlPlane.Kubectl(ctx, "get", "placementpolicies")).To(MatchRegexp(`home-europe +LeastLoaded +10 +4 +(0 +)?2 `))
	}, SpecTimeout(specTimeout))

	It("keep GPU desktops in two regions, packed, two a user", func(ctx SpecContext) {
		p := newPool("gpu-regions")
		p.add(ctx, eu, node{free: "1500m", gpus: 4}, node{free: "500m"})
		p.add(ctx, us, node{free: "1500m", gpus: 1}, node{free: "1500m", gpus: 1}, node{free: "1500m"})
		p.add(ctx, ap, node{free: "1500m", gpus: 2}, node{free: "500m", gpus: 2})
		p.churn()
		desktop := p.template(ctx, "gpu", func(t *v1alpha1.TemplateSpec) { t.Resources.Default["nvidia.com/gpu"] = *quantity("1") })
		Eventually(ctx, slots(us, desktop)).Should(BeEquivalentTo(2))
		Eventually(ctx, slots(ap, desktop)).Should(BeEquivalentTo(1))
		mine := of("mine@example.com")
		for i := range 2 {
			s := create(ctx, session(fmt.Sprintf("mine-%d", i), desktop, mine))
			Eventually(ctx, member(s)).Should(Equal(us), "the preferred one, until it is full")
		}
		third := create(ctx, session("mine-3", desktop, mine))
		expectPending(ctx, third, v1alpha1.ReasonPolicyCap+": ")
		other := create(ctx, session("other", desktop))
		Eventually(ctx, member(other)).Should(Equal(ap))
		last := create(ctx, session("last", desktop))
		expectPending(ctx, last, "1 is outside "+us+", "+ap)
		Eventually(ctx, status("gpu")).Should(And(HaveField("Sessions", BeEquivalentTo(5)), HaveField("Waiting", BeEquivalentTo(2))))
	}, SpecTimeout(specTimeout))

	It("share by the members' weights what is to be cheap", func(ctx SpecContext) {
		p := newPool("cost")
		for name, weight := range map[string]int{eu: 300, us: 200, ap: 100} {
			p.add(ctx, name, pieces("4500m", "2500m", "500m")...)
			weigh(ctx, name, weight)
			DeferCleanup(func(ctx SpecContext) { weigh(ctx, name, 100) })
		}
		p.churn()
		desktop := p.template(ctx, "cost")
		for _, name := range []string{eu, us, ap} {
			Eventually(ctx, slots(name, desktop)).Should(BeEquivalentTo(6))
		}
		createAll(ctx, many(6, "cheap", desktop, labeled("cost", "low")))
		Eventually(ctx, seen.count(running)).Should(Equal(6))
		Expect(seen.where()).To(Equal(map[string]int{eu: 3, us: 2, ap: 1}))
	}, SpecTimeout(specTimeout))

	It("keep 20% free for failover", func(ctx SpecContext) {
		p := newPool("headroom")
		p.add(ctx, eu, pieces("4500m", "3500m", "3500m", "500m")...)
		p.churn()
		desktop := p.template(ctx, "headroom")
		Eventually(ctx, slots(eu, desktop)).Should(BeEquivalentTo(10))
		createAll(ctx, many(10, "production", desktop, labeled("tier", "production")))
		Eventually(ctx, seen.count(running)).Should(Equal(8))
		Eventually(ctx, seen.count(waits)).Should(Equal(2))
		for _, s := range seen.those(waits) {
			// The second while the reservations of the eight exceed what their Pods use.
			Expect(scheduled(s).Message).To(Or(
				ContainSubstring("keeps its last free capacity for failover (spec.headroomPercent of policy production)"),
				ContainSubstring("has just reserved its last capacity for other sessions"),
			))
		}
		Eventually(ctx, status("production")).Should(And(HaveField("Sessions", BeEquivalentTo(10)), HaveField("Placed", BeEquivalentTo(8)), HaveField("Waiting", BeEquivalentTo(2))))

		By("requesting what the policy does not govern")
		s := create(ctx, session("not-production", desktop))
		Eventually(ctx, member(s)).Should(Equal(eu))
	}, SpecTimeout(specTimeout))

	It("spread all others, and keep in Europe what must stay there", func(ctx SpecContext) {
		p := newPool("default")
		p.add(ctx, eu, pieces("2500m", "500m")...)
		p.add(ctx, us, pieces("8500m")...)
		p.add(ctx, ap, pieces("4500m")...)
		p.churn()
		desktop := p.template(ctx, "default")
		Eventually(ctx, slots(eu, desktop)).Should(BeEquivalentTo(2))
		Eventually(ctx, slots(us, desktop)).Should(BeEquivalentTo(8))
		Eventually(ctx, slots(ap, desktop)).Should(BeEquivalentTo(4))
		createAll(ctx, many(3, "anyone", desktop))
		Eventually(ctx, seen.count(running)).Should(Equal(3))
		Expect(seen.where()).To(Equal(map[string]int{eu: 1, us: 1, ap: 1}))
		resident := create(ctx, session("resident", desktop, ofGroup("data-residency-eu")))
		Eventually(ctx, member(resident)).Should(Equal(eu))
		next := create(ctx, session("resident-too", desktop, ofGroup("data-residency-eu")))
		expectPending(ctx, next, "2 are outside "+eu)
	}, SpecTimeout(specTimeout))
})

func weigh(ctx context.Context, member string, weight int) {
	GinkgoHelper()
	mc := &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: member}}
	patch := fmt.Appendf(nil, `{"spec":{"weight":%d}}`, weight)
	Expect(hub.Patch(ctx, mc, client.RawPatch(types.MergePatchType, patch))).To(Succeed())
}

// status returns the status of a policy, for Eventually.
func status(policy string) func(context.Context) (v1alpha1.PlacementPolicyStatus, error) {
	return func(ctx context.Context) (v1alpha1.PlacementPolicyStatus, error) {
		out := &v1alpha1.PlacementPolicy{}
		err := hub.Get(ctx, client.ObjectKey{Name: policy}, out)
		return out.Status, err
	}
}

// ofGroup sets a group of the session's user.
func ofGroup(name string) func(*v1alpha1.VDISession) {
	return func(s *v1alpha1.VDISession) { s.Spec.Groups = []string{name} }
}
