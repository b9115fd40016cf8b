package member

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"google.golang.org/protobuf/types/known/durationpb"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/placement"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

func TestSlotsOfSomeMembersOrOfAll(t *testing.T) {
	x := newFixture(t)
	x.register("eu", "uid-eu")
	x.register("us", "uid-us")
	m, _ := x.connect("uid-eu", "i1")
	m.Capacity(capacityReport(2, 3))
	x.Expect(x.ReportedAt("uid-eu")).To(Equal(x.clock.Now()))
	x.Expect(x.ReportedAt("uid-none")).To(BeZero())
	x.clock.Step(1)
	m, _ = x.connect("uid-us", "i2")
	m.Capacity(capacityReport(2, 4))
	x.Expect(x.ReportedAt("uid-us").After(x.ReportedAt("uid-eu"))).To(BeTrue())

	slots := func(members ...types.UID) int64 { return x.Slots(request("s"), members, 100) }
	x.Expect(slots()).To(Equal(int64(7)))
	x.Expect(slots("uid-us")).To(Equal(int64(4)))
	x.Expect(slots("uid-us", "uid-gone")).To(Equal(int64(4)))
	x.Expect(x.Slots(request("s"), []types.UID{}, 100)).To(BeZero(), "none is not all")
	x.Expect(x.Slots(request("s"), nil, 2)).To(Equal(int64(2)))
	x.Expect(x.Place(request("s"), 1).Placed).To(BeTrue())
	x.Expect(slots()).To(Equal(int64(6)), "a query reserves nothing, a placement does")

	x.Restored()
	x.Expect(x.Place(request("t"), 1).Placed).To(Equal(slots() > 0), "a hub that was restored")
}

func TestSlotsForResumingSessions(t *testing.T) {
	x := newFixture(t)
	x.register("eu", "uid-eu", func(mc *v1alpha1.MemberCluster) { mc.Spec.SessionCap = ptr.To[int32](1) })
	m, _ := x.connect("uid-eu", "i1")
	m.Capacity(capacityReport(2, 3))
	x.Observe(onHub("a", 1, "uid-eu"), false)
	x.Expect(x.Slots(request("b"), nil, 100)).To(BeZero(), "the member is at its cap")
	x.Expect(x.ResumeSlots(request("a"), "uid-eu", 100)).To(Equal(int64(3)))
	x.Expect(x.ResumeSlots(request("a"), "uid-eu", 2)).To(Equal(int64(2)))
	x.Expect(x.ResumeSlots(request("a"), "uid-gone", 2)).To(BeZero())
}

// What a member reports of new nodes is capacity for decisions, until it reports otherwise: also if only
// its node groups have changed, and after the reservations are counted.
func TestReportedNewNodesAreCapacity(t *testing.T) {
	x := newFixture(t)
	x.register("eu", "uid-eu")
	m, _ := x.connect("uid-eu", "i1")
	report := func(sequence uint64, basedOn uint64, growable int32, state string) *fleetv1.CapacityReport {
		r := growing(capacityReport(sequence, 0), growable, &fleetv1.NodeGroupStatus{
			Name: "desktops", Nodes: 3, MaxNodes: 3 + growable, Growable: growable, State: state, ProvisioningTime: durationpb.New(95 * time.Second),
		})
		r.BasedOn = basedOn
		r.Templates[0].Growable = []*fleetv1.Bucket{{Nodes: growable, NodeGroup: "desktops", Free: map[string]int64{"cpu": 1000, "pods": 1}}}
		return r
	}
	m.Capacity(report(1, 0, 2, "Available"))
	x.Expect(x.Place(request("a"), 1)).To(And(
		HaveField("Placed", true), HaveField("Kind", placement.Growable), HaveField("NodeGroup", "desktops"), HaveField("ProvisioningTime", 95*time.Second)))
	x.Expect(x.Place(request("b"), 1).Placed).To(BeTrue())
	x.Expect(x.Place(request("c"), 1).Placed).To(BeFalse(), "both nodes are reserved")

	m.Capacity(report(2, 1, 0, "Full"))
	x.Expect(x.Place(request("c"), 1).Message).To(ContainSubstring("node group desktops has 3 of 3: raise maxNodes of the MemberCluster"))
	only := report(3, 2, 0, "Exhausted")
	only.Templates = nil
	m.Capacity(only)
	x.Expect(x.Place(request("c"), 1).Message).To(ContainSubstring("adds no nodes now (node group desktops"))
	m.Capacity(report(4, 3, 3, "Available"))
	x.Expect(x.Slots(request("c"), nil, 100)).To(Equal(int64(1)), "less the reservations, which are not counted yet")
}
