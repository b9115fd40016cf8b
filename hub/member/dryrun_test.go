package member

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/utils/ptr"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/link/protocol"
	"github.com/vdi-fleet/vdi-fleet/hub/placement"
	"github.com/vdi-fleet/vdi-fleet/hub/scheduling/cache"
)

func TestAReviewIgnoresTheCapacityThatTheSessionHas(t *testing.T) {
	x := newFixture(t)
	x.register("eu", "uid-eu", func(mc *v1alpha1.MemberCluster) { mc.Spec.SessionCap = ptr.To[int32](1) })
	m, _ := x.connect("uid-eu", "i1")
	m.Capacity(capacityReport(2, 1))
	x.Expect(x.Place(request("a"), 1).Placed).To(BeTrue())
	req := request("a")
	x.Expect(x.Review(t.Context(), cache.DryRun{Request: req}).Placed).To(BeEquivalentTo(1), "a decision that was not written yet")
	x.Observe(onHub("a", 1, "uid-eu"), false)
	req.Current = &placement.CurrentPlacement{Cluster: "uid-eu", UsesCapacity: true}
	x.Expect(x.Review(t.Context(), cache.DryRun{Request: req}).Placed).To(BeEquivalentTo(1), "its reservation")
	m.Results([]protocol.Result{{SessionUID: "uid-a", Namespace: "desktops", Name: "a", Epoch: 1, SpecHash: "h", Code: protocol.Stored, CountedFrom: 3}})
	m.Capacity(capacityReport(3, 0))
	review := x.Review(t.Context(), cache.DryRun{Request: req, Count: 3})
	x.Expect([]int32{review.Placed, review.Waiting}).To(Equal([]int32{1, 2}), "it stays where it is, and there is no capacity for others")
	req.Current = nil
	x.Expect(x.Review(t.Context(), cache.DryRun{Request: req}).Placed).To(BeZero(), "one that does not sit there")
}

func TestAReviewReportsTheAgeOfEachCapacityReport(t *testing.T) {
	x := newFixture(t)
	x.register("eu", "uid-eu")
	x.register("us", "uid-us")
	x.connect("uid-eu", "i1")
	m, _, err := x.open("uid-us", "i2")
	x.Expect(err).NotTo(HaveOccurred())
	reportAll(m)
	x.clock.Step(7 * time.Second)
	review := x.Review(t.Context(), cache.DryRun{Request: request("a")})
	x.Expect(review.Clusters).To(HaveExactElements(
		And(HaveField("ClusterName", "eu"), HaveField("CapacityAge", v1alpha1.DurationOf(7*time.Second))),
		And(HaveField("ClusterName", "us"), HaveField("Fits", false), HaveField("CapacityAge", BeZero()))), "us has reported none")
}

func TestAReviewEndsWithItsContext(t *testing.T) {
	x := newFixture(t)
	x.register("eu", "uid-eu")
	x.connect("uid-eu", "i1")
	ctx, stop := context.WithCancel(t.Context())
	stop()
	review := x.Review(ctx, cache.DryRun{Request: request("a"), Count: 50})
	x.Expect([]int32{review.Placed, review.Waiting, review.NotTried}).To(Equal([]int32{1, 0, 49}), "the first is always evaluated")
	x.Expect(review.Reason).To(Equal(v1alpha1.ReasonPlaced))
}

func TestOfDistinctUsersOneAtTheCapBlocksNoOther(t *testing.T) {
	x := newFixture(t)
	x.register("eu", "uid-eu")
	x.connect("uid-eu", "i1")
	req := request("b")
	req.PolicyName, req.Policy = "home", &v1alpha1.PlacementPolicySpec{SessionCaps: v1alpha1.SessionCaps{PerUser: ptr.To[int32](1)}}
	first := req
	first.UID = "uid-a"
	x.Expect(x.Place(first, 1).Placed).To(BeTrue())
	review := x.Review(t.Context(), cache.DryRun{Request: req, Count: 3})
	x.Expect([]int32{review.Placed, review.Waiting}).To(Equal([]int32{0, 3}))
	x.Expect(review.Reason).To(Equal(v1alpha1.ReasonPolicyCap))
	review = x.Review(t.Context(), cache.DryRun{Request: req, Count: 3, DistinctUsers: true})
	x.Expect([]int32{review.Placed, review.Waiting}).To(Equal([]int32{2, 1}), "the first is of a user who has one already")
}

func TestABlockedSessionUsesNoCapacity(t *testing.T) {
	x := newFixture(t)
	x.register("eu", "uid-eu")
	m, _ := x.connect("uid-eu", "i1")
	m.Capacity(capacityReport(2, 2))
	review := x.Review(t.Context(), cache.DryRun{Request: request("a"), Count: 3, Held: true})
	x.Expect([]int32{review.Placed, review.Waiting}).To(Equal([]int32{2, 1}))
	x.Expect(review.Clusters).To(HaveExactElements(HaveField("Fits", true)), "the result still includes where it would go")
}

func TestNothingWouldBePlacedByARestoredHub(t *testing.T) {
	x := newFixture(t)
	x.register("eu", "uid-eu")
	x.connect("uid-eu", "i1")
	x.register("us", "uid-us", func(mc *v1alpha1.MemberCluster) { mc.Status.AgentVersion = "v1" })
	x.Restored()
	review := x.Review(t.Context(), cache.DryRun{Request: request("a"), Count: 5})
	x.Expect([]int32{review.Placed, review.Waiting}).To(Equal([]int32{0, 5}))
	x.Expect(review.Reason).To(Equal(v1alpha1.ReasonHubRestored))
	x.Expect(review.Clusters).To(HaveLen(2), "the result still includes the members")
}

func TestDecisionsContinueDuringReviews(t *testing.T) {
	x := newFixture(t)
	x.register("eu", "uid-eu")
	m, _ := x.connect("uid-eu", "i1")
	m.Capacity(capacityReport(2, 200))
	var group sync.WaitGroup
	for i := range 4 {
		group.Go(func() { x.Review(t.Context(), cache.DryRun{Request: request(fmt.Sprint("r", i)), Count: 300}) })
		group.Go(func() {
			for j := range 50 {
				x.Place(request(fmt.Sprintf("s%d-%d", i, j)), 1)
			}
		})
	}
	group.Wait()
	x.Expect(x.sessions("eu")).To(Equal(int32(200)), "every slot was reserved, and none by a review")
}
