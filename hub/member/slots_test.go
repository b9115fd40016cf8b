package member

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
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
