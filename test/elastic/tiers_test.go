package elastic

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/utils/ptr"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
	"github.com/vdi-fleet/vdi-fleet/test/harness/karpenter"
	"github.com/vdi-fleet/vdi-fleet/test/harness/kwok"
)

// tiersCase is a policy for a template whose sessions have nodes of their own in each member. A node
// that exists runs 16 of them, and one that is added 15.
type tiersCase struct {
	// name of the policy, the template, the NodePools and node groups.
	name   string
	policy v1alpha1.PlacementPolicySpec
	// maxNodes of the node group by member.
	maxNodes map[string]int32
	// want is how many of a hundred sessions run in each member; the others are pending.
	want map[string]int
	// grown is how many of them run on nodes that were added.
	grown int
}

// tiersExist is the number of nodes of each template that exist, by member: 32 free slots in two of them.
var tiersExist = map[string]int{eu: 2, us: 2, ap: 0}

// tiersMaxNodes are 75, 75 and 120 slots on nodes that may be added.
var tiersMaxNodes = map[string]int32{eu: 5, us: 5, ap: 8}

func tiersCases() []tiersCase {
	inRegion := func(region string) v1alpha1.OverflowTier { return v1alpha1.OverflowTier{Regions: []string{region}} }
	freeIn := func(region string) v1alpha1.OverflowTier {
		return v1alpha1.OverflowTier{Regions: []string{region}, Capacity: v1alpha1.TierCapacityFree}
	}
	overflow := func(tiers ...v1alpha1.OverflowTier) v1alpha1.PlacementPolicySpec {
		return v1alpha1.PlacementPolicySpec{Overflow: tiers}
	}
	atOnce := overflow(inRegion(eu), v1alpha1.OverflowTier{})
	atOnce.MaxProvisioningTime = "0s"
	return []tiersCase{{
		// Home grows to its limit, 32 + 45, before any other member gets a session.
		name: "home-first", policy: overflow(inRegion(eu), inRegion(us), v1alpha1.OverflowTier{}),
		maxNodes: map[string]int32{eu: 3, us: 5, ap: 8}, want: map[string]int{eu: 77, us: 23}, grown: 45,
	}, {
		// Free slots anywhere first, then growth at home: 32, 32, and 36 at home.
		name: "free-first", policy: overflow(freeIn(eu), freeIn(us), inRegion(eu), inRegion(us)),
		maxNodes: tiersMaxNodes, want: map[string]int{eu: 68, us: 32}, grown: 36,
	}, {
		// Home never grows: 32, then 32 + 36.
		name: "home-free-only", policy: overflow(freeIn(eu), inRegion(us)),
		maxNodes: tiersMaxNodes, want: map[string]int{eu: 32, us: 68}, grown: 36,
	}, {
		// Without tiers, free slots anywhere, then the member that can grow most.
		name: "any", policy: v1alpha1.PlacementPolicySpec{},
		maxNodes: tiersMaxNodes, want: map[string]int{eu: 32, us: 32, ap: 36}, grown: 36,
	}, {
		// No session waits for a node: 36 are pending.
		name: "at-once", policy: atOnce,
		maxNodes: tiersMaxNodes, want: map[string]int{eu: 32, us: 32},
	}}
}

var _ = Describe("The tiers of a policy", Label(long), func() {
	It("decide between a new node and a free slot elsewhere, as kubectl vdi explain predicts", func(ctx SpecContext) {
		cases := tiersCases()
		start(ctx, tiersMember(eu, cases), tiersMember(us, cases), tiersMember(ap, cases))
		for _, m := range fleet.Members {
			var groups []v1alpha1.NodeGroup
			for _, c := range cases {
				groups = append(groups, v1alpha1.NodeGroup{Name: c.name, KarpenterNodePool: c.name, MaxNodes: ptr.To(c.maxNodes[m.Name]), Node: standard16()})
			}
			declare(ctx, m.Name, groups...)
		}
		for _, c := range cases {
			c.policy.Match.Templates = []string{c.name}
			policy(ctx, c.name, c.policy)
			templateOn(ctx, c.name, "1", nil)
		}
		for _, c := range cases {
			for _, m := range fleet.Members {
				free, growable := 16*tiersExist[m.Name], 15*c.maxNodes[m.Name]
				Eventually(ctx, slotsOf(m.Name, c.name)).Should(Equal(fmt.Sprintf("%d free, %d growable", free, growable)), m.Name)
			}
		}

		By("predicting")
		for _, c := range cases {
			review := explained(ctx, "--template", c.name, "--user", "ann@example.com", "--count", "100", "--distinct-users")
			Expect(review.Status.Policy).To(Equal(c.name))
			predicted := map[string]int{}
			for _, v := range review.Status.Clusters {
				if v.Sessions > 0 {
					predicted[v.ClusterName] = int(v.Sessions)
				}
			}
			Expect(predicted).To(Equal(c.want), c.name)
			Expect(review.Status.PlacedGrowable+review.Status.PlacedProvisioning).To(BeEquivalentTo(c.grown), c.name)
			Expect(review.Status.Placed+review.Status.Waiting).To(BeEquivalentTo(100), c.name)
		}

		By("creating them")
		for _, c := range cases {
			createAll(ctx, 100, c.name, c.name)
		}
		for _, c := range cases {
			c.expectCounts(ctx)
		}
		Eventually(ctx, counted(isPending("spec.maxProvisioningTime"))).Should(Equal(36))
		Expect(moves(ctx)).To(BeEmpty())
	}, NodeTimeout(specTimeout))
})

// tiersMember returns a member with nodes that exist, and NodePools, of each case.
func tiersMember(name string, cases []tiersCase) harness.MemberSpec {
	var pools []karpenter.NodePool
	var nodes []kwok.NodeGroup
	for _, c := range cases {
		labels := map[string]string{"pool": c.name}
		pools = append(pools, karpenter.NodePool{Name: c.name, InstanceTypes: []string{"standard-16"}, Labels: labels, RegistrationDelay: 5 * time.Second})
		nodes = append(nodes, kwok.NodeGroup{Count: tiersExist[name], Region: name, Zone: name + "-a", Prefix: "node-" + c.name, Labels: labels})
	}
	spec := growing(name, pools...)
	spec.Nodes = nodes
	return spec
}

// inFlight is how many sessions of a burst may be placed a tier too late: while a report counts a session
// whose acknowledgment has not arrived, its reservation counts too. No member gets more than it holds.
const inFlight = 2

// expectCounts waits until the sessions run as the table says.
func (c *tiersCase) expectCounts(ctx context.Context) {
	GinkgoHelper()
	total := 0
	for _, want := range c.want {
		total += want
	}
	Eventually(ctx, counted(both(running, func(s *v1alpha1.VDISession) bool { return s.Spec.Template == c.name }))).Should(Equal(total), c.name)
	counts := c.counts(ctx)
	AddReportEntry(c.name, counts)
	for _, m := range fleet.Members {
		Expect(counts[m.Name]).To(BeNumerically("~", c.want[m.Name], inFlight), "%s in %s: %v", c.name, m.Name, counts)
	}
}

// counts returns how many sessions of the case run in each member.
func (c *tiersCase) counts(ctx context.Context) map[string]int {
	out := map[string]int{}
	for _, s := range sessions(ctx, running) {
		if s.Spec.Template == c.name {
			out[s.Status.Placement.ClusterName]++
		}
	}
	return out
}
