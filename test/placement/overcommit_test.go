package placement

import (
	"context"
	"fmt"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/specs"
)

var _ = Describe("Two members with ten slots each", func() {
	It("get twenty of many sessions that are created at once, and another for each that ends", specs.Smoke, func(ctx SpecContext) {
		p := newPool("twenty")
		p.add(ctx, eu, pieces("4500m", "2500m", "2500m", "1500m", "1500m", "500m", "500m")...)
		p.add(ctx, us, pieces("2500m", "2500m", "1500m", "1500m", "1500m", "1500m", "1500m", "1500m", "500m", "500m", "500m")...)
		p.churn()
		desktop := p.template(ctx, "twenty")
		Eventually(ctx, slots(eu, desktop)).Should(BeEquivalentTo(10))
		Eventually(ctx, slots(us, desktop)).Should(BeEquivalentTo(10))
		refused := refusals(ctx)

		all := crowd(desktop)
		createAll(ctx, all)
		Eventually(ctx, seen.count(running)).WithTimeout(specTimeout / 3).Should(Equal(20))
		Eventually(ctx, seen.count(waits)).WithTimeout(specTimeout / 3).Should(Equal(len(all) - 20))
		expectRemedies()
		expectNoMoreThan(20, 10)

		By("ending five, in both members")
		first, calls := seen.those(placed), byHub(ctx, wakeups)
		for _, s := range fiveOf(first) {
			end(ctx, s)
		}
		Eventually(ctx, seen.count(running)).Should(Equal(20))
		Consistently(ctx, seen.count(placed)).Should(Equal(20))
		Expect(seen.orderSoFar()).To(HaveLen(25), "five others were placed")
		expectNoMoreThan(20, 10)
		// On a busy machine some are rechecked before an event requeues them.
		Expect(byHub(ctx, wakeups)-calls).To(BeNumerically("<", len(all)/2), "sessions that were queued when there was capacity for five")
		Expect(refusals(ctx)).To(Equal(refused), "no agent had to refuse one")
		Expect(seen.stuckPods()).To(BeEmpty())
	}, SpecTimeout(specTimeout))
})

// wakeups is the counter of pending sessions that an event requeued.
const wakeups = "vdi_hub_session_requeues_total"

// crowd returns a thousand sessions of a hundred users in three namespaces, or, in a short run,
// one hundred.
func crowd(template string) []*v1alpha1.VDISession {
	n := 1000
	if testing.Short() {
		n = 100
	}
	var out []*v1alpha1.VDISession
	for i := range n {
		user := fmt.Sprintf("user-%d@example.com", i%100)
		out = append(out, session(fmt.Sprintf("crowd-%d", i), template, in(namespaces[i%len(namespaces)]), of(user)))
	}
	return out
}

// fiveOf returns five placed sessions: three in one member and two in the other.
func fiveOf(sessions []*v1alpha1.VDISession) []*v1alpha1.VDISession {
	perMember := map[string]int{}
	var out []*v1alpha1.VDISession
	for _, s := range sessions {
		if at := s.Status.Placement.ClusterName; perMember[at] < 3 && len(out) < 5 {
			perMember[at]++
			out = append(out, s)
		}
	}
	return out
}

// expectRemedies requires that each pending session shows what every member lacks and
// what would help.
func expectRemedies() {
	GinkgoHelper()
	lacks := Or(
		MatchRegexp(`lacks? cpu \(largest free on a node .*, requested 1\)`),
		MatchRegexp(`just reserved (its|their) last capacity for other sessions \(wait until they have started, or add nodes\)`),
	)
	for _, s := range seen.those(waits) {
		Expect(scheduled(s).Message).To(And(HavePrefix("3 clusters: "), lacks), s.Name)
		Expect(s.Status.Message).To(ContainSubstring(scheduled(s).Message))
	}
}

// expectNoMoreThan limits how many sessions were placed in all, and held in each
// member, at any time of the spec.
func expectNoMoreThan(inAll, inEach int) {
	GinkgoHelper()
	most, held := seen.most()
	Expect(most).To(BeNumerically("<=", inAll))
	for member, n := range held {
		Expect(n).To(BeNumerically("<=", inEach), member)
	}
}

// expectPending waits until a session is pending with a message.
func expectPending(ctx context.Context, s *v1alpha1.VDISession, text string) {
	GinkgoHelper()
	Eventually(ctx, why(s)).Should(ContainSubstring(text))
}
