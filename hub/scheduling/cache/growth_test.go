package cache

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/placement"
)

// growing returns a member with so many nodes of each kind that have capacity for one Pod each.
func growing(name, region string, free, provisioning, growable int32) placement.Candidate {
	c := member(name, region, free)
	node := func(nodes int32) []placement.NodeGroupBucket {
		b := placement.Bucket{Nodes: nodes, Free: placement.Resources{"cpu": 1000, "pods": 1}.Amounts()}
		return []placement.NodeGroupBucket{{Bucket: b, NodeGroup: "desktops"}}
	}
	key := request("").Template
	t := c.Capacity.Templates[key]
	t.Growth = &placement.Growth{Provisioning: node(provisioning), Growable: node(growable)}
	c.Capacity.Templates[key], c.Capacity.NodeGroups = t, []placement.NodeGroup{{Name: "desktops", State: v1alpha1.NodeGroupAvailable}}
	return c
}

func TestAReviewCountsTheSessionsOnNewNodes(t *testing.T) {
	x := newFixture(t, growing("eu", "eu", 2, 1, 3))
	review := x.Review(t.Context(), DryRun{Request: request("s"), Count: 8})
	x.Expect(review).To(And(
		HaveField("Placed", BeEquivalentTo(6)), HaveField("PlacedProvisioning", BeEquivalentTo(1)), HaveField("PlacedGrowable", BeEquivalentTo(3)),
		HaveField("Waiting", BeEquivalentTo(2))))
	x.Expect(review.Clusters).To(HaveExactElements(And(
		HaveField("Slots", BeEquivalentTo(6)), HaveField("Provisioning", BeEquivalentTo(1)), HaveField("Growable", BeEquivalentTo(3)),
		HaveField("Message", "2 free slots, 1 on provisioning nodes, 3 on 3 nodes that can be added (usually 120 s)"))))
}

// More nodes that can be added are capacity for pending sessions: they are requeued for it.
func TestNewNodesAreCapacityForPendingSessions(t *testing.T) {
	x := newFixture(t, growing("eu", "eu", 0, 0, 0))
	slots := func(change func(*placement.Request)) int64 {
		r := request("s")
		change(&r)
		return x.Slots(r, []types.UID{"uid-eu"}, 100)
	}
	none := func(*placement.Request) {}
	x.Expect(slots(none)).To(BeZero())
	x.Expect(x.Place(request("s"), 1).Placed).To(BeFalse())
	x.members.(fleet)[0] = growing("eu", "eu", 0, 1, 3)
	x.Expect(slots(none)).To(BeEquivalentTo(4))
	x.Expect(x.ResumeSlots(request("s"), "uid-eu", 100)).To(BeEquivalentTo(4))
	x.Expect(slots(func(r *placement.Request) { r.FreeOnly = true })).To(BeZero())
	x.Expect(slots(func(r *placement.Request) { r.Policy = &v1alpha1.PlacementPolicySpec{MaxProvisioningTime: "0s"} })).To(BeZero())
	d := x.Place(request("s"), 1)
	x.Expect(d).To(And(HaveField("Placed", true), HaveField("Kind", placement.Provisioning), HaveField("NodeGroup", "desktops")))
	x.Expect(x.outstanding("uid-eu")).To(Equal(1))
	x.Expect(slots(none)).To(BeEquivalentTo(3))
}

// A session resumes on a new node if its member has no free slot.
func TestASessionResumesOnANewNode(t *testing.T) {
	x := newFixture(t, growing("eu", "eu", 0, 0, 1))
	d, away := x.Resume(request("s"), v1alpha1.ClusterRef{Name: "eu", UID: "uid-eu"}, 1, 2)
	x.Expect(away).To(BeFalse())
	x.Expect(d).To(And(HaveField("Placed", true), HaveField("Kind", placement.Growable), HaveField("Reason", v1alpha1.ReasonPlacedOnNewNode),
		HaveField("Message", "eu: resumed there, no free slot, 1 on 1 node that can be added (usually 120 s)")))
}

// A session that runs counts as placed elsewhere only where a slot is free, as it is moved nowhere else.
func TestARunningSessionIsNotMisplacedWhereANodeMustBeAdded(t *testing.T) {
	for _, free := range []int32{0, 1} {
		x := newFixture(t, growing("eu", "eu", free, 5, 5), member("us", "us", 1))
		r := request("s")
		r.PreferredRegions = []string{"eu"}
		r.Current = &placement.CurrentPlacement{Cluster: "uid-us", UsesCapacity: true}
		n, ok := x.Misplaced(t.Context(), []placement.Request{r})
		x.Expect(fmt.Sprint(n, ok)).To(Equal(fmt.Sprint(free, true)))
	}
}
