package member

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/placement"
)

// capped returns a request that policy lab governs.
func capped(name string, caps v1alpha1.SessionCaps, change ...func(*placement.Request)) placement.Request {
	r := request(name)
	r.PolicyName, r.Policy = "lab", &v1alpha1.PlacementPolicySpec{SessionCaps: caps}
	for _, f := range change {
		f(&r)
	}
	return r
}

// byPolicy returns a session as in the hub's cache, placed by policy lab.
func byPolicy(name string, epoch int64, member types.UID) *v1alpha1.VDISession {
	s := onHub(name, epoch, member)
	s.Namespace, s.Spec.User, s.Status.Placement.Policy = "desktops", "ann", "lab"
	return s
}

func TestCapCountsDecisionsThatNoCacheShowsYet(t *testing.T) {
	x := newFixture(t)
	for _, name := range []string{"eu", "us"} {
		x.register(name, types.UID("uid-"+name))
		m, _ := x.connect(types.UID("uid-"+name), "i1")
		m.Capacity(capacityReport(2, 40))
	}
	var placed, refused atomic.Int32
	var group sync.WaitGroup
	for i := range 60 {
		group.Go(func() {
			switch d := x.Place(capped(fmt.Sprint("s", i), v1alpha1.SessionCaps{Total: ptr.To[int32](7)}), 1); {
			case d.Placed:
				placed.Add(1)
			case d.Reason == v1alpha1.ReasonPolicyCap:
				refused.Add(1)
			}
		})
	}
	group.Wait()
	x.Expect(placed.Load()).To(Equal(int32(7)))
	x.Expect(refused.Load()).To(Equal(int32(53)))
	x.Expect(x.Place(request("free"), 1).Placed).To(BeTrue(), "it caps no other session")
}

func TestCapsCountByUserNamespaceAndCluster(t *testing.T) {
	x := newFixture(t)
	x.register("eu", "uid-eu")
	m, _ := x.connect("uid-eu", "i1")
	m.Capacity(capacityReport(2, 40))
	of := func(user, namespace string) func(*placement.Request) {
		return func(r *placement.Request) { r.User, r.Namespace = user, namespace }
	}
	one := ptr.To[int32](1)
	x.Expect(x.Place(capped("a", v1alpha1.SessionCaps{}), 1).Placed).To(BeTrue())

	x.Expect(x.Place(capped("b", v1alpha1.SessionCaps{PerUser: one}), 1).Message).To(HavePrefix("policy lab has placed 1 sessions of user ann,"))
	x.Expect(x.Place(capped("b", v1alpha1.SessionCaps{PerNamespace: one}, of("bob", "desktops")), 1).Message).To(HavePrefix("policy lab has placed 1 sessions of namespace desktops,"))
	x.Expect(x.Place(capped("b", v1alpha1.SessionCaps{PerCluster: one}, of("bob", "desktops")), 1).Message).To(ContainSubstring("holds the 1 sessions that policy lab places in a cluster"))
	x.Expect(x.Place(capped("b", v1alpha1.SessionCaps{PerUser: one}, of("bob", "desktops")), 1).Placed).To(BeTrue())
}

func TestCapsOutliveTheHub(t *testing.T) {
	x := newFixture(t)
	x.register("eu", "uid-eu")
	m, _ := x.connect("uid-eu", "i1")
	m.Capacity(capacityReport(2, 40))
	placed, moving := byPolicy("placed", 1, "uid-eu"), byPolicy("moving", 1, "uid-eu")
	moving.Status.Placement = nil
	moving.Status.Releasing = []v1alpha1.Release{{ClusterUID: "uid-eu", Epoch: 1, Policy: "lab"}}
	x.Observe(placed, false)
	x.Observe(moving, false)
	two, three := v1alpha1.SessionCaps{Total: ptr.To[int32](2)}, v1alpha1.SessionCaps{Total: ptr.To[int32](3)}
	x.Expect(x.Place(capped("new", two), 1).Reason).To(Equal(v1alpha1.ReasonPolicyCap), "one that is being released counts")
	x.Expect(x.Place(capped("new", three), 1).Placed).To(BeTrue())
	x.Release("uid-new")
	x.Expect(x.Place(capped("moving", two), 2).Placed).To(BeTrue(), "a session does not count against its own cap")
	x.Release("uid-moving")

	other := capped("new", two)
	other.PolicyName = "renamed"
	x.Expect(x.Place(other, 1).Placed).To(BeTrue(), "a policy of another name has placed nothing")
	x.Release("uid-new")

	x.changes.take()
	moving.Status.Releasing = nil
	x.Observe(moving, false)
	x.Expect(x.changes.take()).To(ContainElement(Change{Kind: PolicyCapacity, Policy: "lab"}))
	x.Expect(x.Place(capped("new", two), 1).Placed).To(BeTrue())
	x.changes.take()
	x.Release("uid-new")
	x.Expect(x.changes.take()).To(ConsistOf(Change{Kind: MemberCapacity, Member: "eu", UID: "uid-eu"}, Change{Kind: PolicyCapacity, Policy: "lab"}),
		"capacity that was not written is free for others")
	x.Observe(placed, true)
}

// A session that is placed again in its own member still counts there if that is not written.
func TestForgettingADecisionChangesNoOtherCount(t *testing.T) {
	x := newFixture(t)
	x.register("eu", "uid-eu")
	m, _ := x.connect("uid-eu", "i1")
	m.Capacity(capacityReport(2, 40))
	x.Observe(byPolicy("a", 1, "uid-eu"), false)
	x.Expect(x.Place(capped("a", v1alpha1.SessionCaps{}), 2).Placed).To(BeTrue())
	x.Release("uid-a")
	x.Expect(x.sessions("eu")).To(Equal(int32(1)))
	x.Expect(x.Place(capped("b", v1alpha1.SessionCaps{Total: ptr.To[int32](1)}), 1).Placed).To(BeFalse())
}

func TestElsewhereCountsThoseThatWouldGoToAnotherMember(t *testing.T) {
	x := newFixture(t)
	for _, name := range []string{"eu", "us"} {
		x.register(name, types.UID("uid-"+name))
		m, _ := x.connect(types.UID("uid-"+name), "i1")
		m.Capacity(capacityReport(2, map[string]int32{"eu": 0, "us": 5}[name]))
	}
	placed := func(name string, member types.UID, change func(*v1alpha1.PlacementPolicySpec)) placement.Request {
		x.Observe(byPolicy(name, 1, member), false)
		return capped(name, v1alpha1.SessionCaps{PerCluster: ptr.To[int32](3)}, func(r *placement.Request) {
			r.Current = &placement.CurrentPlacement{Cluster: member, UsesCapacity: true}
			change(r.Policy)
		})
	}
	prefers := func(region string) func(*v1alpha1.PlacementPolicySpec) {
		return func(p *v1alpha1.PlacementPolicySpec) { p.PreferredRegions = []string{region} }
	}
	requires := func(region string) func(*v1alpha1.PlacementPolicySpec) {
		return func(p *v1alpha1.PlacementPolicySpec) { p.RequiredRegions = []string{region} }
	}
	x.members["eu"].spec.Region, x.members["us"].spec.Region = "eu", "us"
	x.register("ap", "uid-ap")
	n, ok := x.Misplaced(t.Context(), []placement.Request{
		placed("stays", "uid-eu", prefers("eu")),
		placed("would move", "uid-eu", func(p *v1alpha1.PlacementPolicySpec) {
			p.PreferredRegions, p.SessionCaps = []string{"us"}, v1alpha1.SessionCaps{}
		}),
		placed("finds a cap reached", "uid-eu", prefers("us")),
		placed("is in its preferred region", "uid-us", prefers("us")),
		placed("finds no capacity", "uid-us", prefers("eu")),
		placed("fits nowhere", "uid-us", requires("ap")),
		placed("is in a member without an agent", "uid-ap", func(p *v1alpha1.PlacementPolicySpec) { p.SessionCaps = v1alpha1.SessionCaps{} }),
	})
	x.Expect(ok).To(BeTrue())
	x.Expect(n).To(Equal(1))
	x.Expect(x.Place(capped("the eighth", v1alpha1.SessionCaps{Total: ptr.To[int32](8)}), 1).Placed).To(BeTrue(), "nothing has changed")
}
