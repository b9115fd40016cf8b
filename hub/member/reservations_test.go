package member

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/link/protocol"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// onHub returns a session as in the hub's cache.
func onHub(name string, epoch int64, member types.UID, releasing ...types.UID) *v1alpha1.VDISession {
	s := &v1alpha1.VDISession{}
	s.Name, s.UID, s.Status.Epoch = name, types.UID("uid-"+name), epoch
	s.Spec.Template, s.Status.TemplateRevision = "browser", "r1"
	s.Status.Resources = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
	if member != "" {
		s.Status.Placement = &v1alpha1.Placement{ClusterUID: member, Epoch: epoch}
	}
	for _, m := range releasing {
		s.Status.Releasing = append(s.Status.Releasing, v1alpha1.Release{ClusterUID: m, Epoch: epoch - 1})
	}
	return s
}

func (x *fixture) sessions(name string) int32 {
	v, _ := x.viewOf(name)
	return v.sessions
}

func TestPlaceNeverReservesCapacityTwice(t *testing.T) {
	x := newFixture(t)
	x.register("eu", "uid-eu")
	m, _ := x.connect("uid-eu", "i1")
	m.Capacity(capacityReport(2, 10))
	var placed atomic.Int32
	var group sync.WaitGroup
	for i := range 40 {
		group.Go(func() {
			if x.Place(request(fmt.Sprintf("s%d", i)), 1).Placed {
				placed.Add(1)
			}
		})
	}
	group.Wait()
	x.Expect(placed.Load()).To(Equal(int32(10)))
	x.Expect(x.sessions("eu")).To(Equal(int32(10)))
}

func TestCapacityIsReleased(t *testing.T) {
	x := newFixture(t)
	x.register("eu", "uid-eu")
	m, _ := x.connect("uid-eu", "i1")
	m.Capacity(capacityReport(2, 1))
	x.Expect(x.Place(request("a"), 1).Placed).To(BeTrue())
	x.Expect(x.Place(request("b"), 1).Placed).To(BeFalse())
	x.Release("uid-a")
	x.Expect(x.sessions("eu")).To(BeZero())
	x.Expect(x.Place(request("b"), 1).Placed).To(BeTrue(), "a decision that was not written")

	x.Expect(x.Place(request("b"), 1).Placed).To(BeTrue(), "a recreated session takes its own capacity")
	x.changes.take()
	m.Results([]protocol.Result{{SessionUID: "uid-b", Namespace: "desktops", Name: "b", Epoch: 1, SpecHash: "h", Code: protocol.Refused, Reason: "NoCapacity"}})
	x.Expect(x.changes.take()).To(ContainElement(Change{Kind: MemberCapacity, Member: "eu", UID: "uid-eu"}))
	x.Expect(x.Place(request("c"), 1).Placed).To(BeTrue(), "what was refused")
}

func TestReservationStaysUntilAReportCountsIt(t *testing.T) {
	for _, c := range []struct {
		name        string
		countedFrom uint64
		next        uint64
		free        bool // by the next report, which shows one node free
	}{
		{"counted by an earlier report", 2, 3, true},
		{"counted by the next report", 3, 3, true},
		{"counted by a later report", 4, 3, false},
		{"the agent does not report it", 0, 3, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := newFixture(t)
			x.register("eu", "uid-eu")
			m, _ := x.connect("uid-eu", "i1")
			m.Capacity(capacityReport(2, 1))
			x.Expect(x.Place(request("a"), 1).Placed).To(BeTrue())
			m.Results([]protocol.Result{{SessionUID: "uid-a", Namespace: "desktops", Name: "a", Epoch: 1, SpecHash: "h", Code: protocol.Stored, CountedFrom: c.countedFrom}})
			if c.countedFrom == 0 {
				x.Expect(x.Place(request("early"), 1).Placed).To(BeFalse())
			}
			m.Capacity(capacityReport(c.next, 1))
			x.Expect(x.Place(request("b"), 1).Placed).To(Equal(c.free))
		})
	}
}

func TestInventoryCountsFromTheReportThatFollows(t *testing.T) {
	x := newFixture(t)
	x.register("eu", "uid-eu")
	m, _ := x.connect("uid-eu", "i1")
	m.Capacity(capacityReport(2, 1))
	x.Expect(x.Place(request("a"), 1).Placed).To(BeTrue())
	m.Closed(nil)
	// The order was stored, and its result was lost with the stream.
	m, _, err := x.open("uid-eu", "i1")
	x.Expect(err).NotTo(HaveOccurred())
	reportAll(m, item("a", 1, active))
	x.Expect(x.Place(request("b"), 1).Placed).To(BeFalse(), "by the former report there is a node free")
	m.Capacity(capacityReport(3, 0))
	x.Expect(x.Place(request("b"), 1).Placed).To(BeFalse())
	m.Capacity(capacityReport(4, 1))
	x.Expect(x.Place(request("b"), 1).Placed).To(BeTrue())
}

func TestRebuiltReservationsAreCounted(t *testing.T) {
	x := newFixture(t)
	x.register("eu", "uid-eu")
	x.Observe(onHub("a", 3, "uid-eu"), false)
	x.Reserve(onHub("a", 3, "uid-eu"), 3, 1, "uid-eu")
	m, _, err := x.open("uid-eu", "i1")
	x.Expect(err).NotTo(HaveOccurred())
	reportAll(m)
	m.Capacity(capacityReport(1, 1))
	x.Eventually(x.cluster("eu")).Should(Succeed())
	x.Expect(x.Place(request("b"), 1).Placed).To(BeFalse(), "it is on its way there")
	m.Results([]protocol.Result{{SessionUID: "uid-a", Namespace: "desktops", Name: "a", Epoch: 3, SpecHash: "h", Code: protocol.Stored, CountedFrom: 2}})
	m.Capacity(capacityReport(2, 1))
	x.Expect(x.Place(request("b"), 1).Placed).To(BeTrue())
}

func TestSessionsOfAMemberAreCounted(t *testing.T) {
	x := newFixture(t)
	x.register("eu", "uid-eu")
	x.register("us", "uid-us")
	x.changes.take()
	x.Observe(onHub("a", 1, "uid-eu"), false)
	x.Expect(x.changes.take()).To(Equal([]Change{{Kind: MemberSessions, Member: "eu", UID: "uid-eu"}}))
	x.Observe(onHub("a", 1, "uid-eu"), false)
	x.Expect(x.changes.take()).To(BeEmpty())
	x.Observe(onHub("a", 2, "uid-us", "uid-eu"), false)
	x.Expect([]int32{x.sessions("eu"), x.sessions("us")}).To(Equal([]int32{1, 1}), "released, and not confirmed stopped")
	x.changes.take()
	x.Observe(onHub("a", 2, "uid-us"), false)
	x.Expect(x.changes.take()).To(Equal([]Change{{Kind: MemberCapacity, Member: "eu", UID: "uid-eu"}}))
	x.Observe(onHub("a", 2, "uid-us"), true)
	x.Expect([]int32{x.sessions("eu"), x.sessions("us")}).To(Equal([]int32{0, 0}))
}

func TestOlderViewDoesNotUndoADecision(t *testing.T) {
	x := newFixture(t)
	x.register("eu", "uid-eu", func(mc *v1alpha1.MemberCluster) { mc.Spec.SessionCap = ptr.To[int32](1) })
	x.connect("uid-eu", "i1")
	x.Expect(x.Place(request("a"), 1).Placed).To(BeTrue())
	x.Observe(onHub("a", 0, ""), false) // the write of the finalizer arrives
	x.Expect(x.sessions("eu")).To(Equal(int32(1)))
	x.Expect(x.Place(request("b"), 1).Placed).To(BeFalse(), "the cap holds meanwhile")
	x.Observe(onHub("a", 1, "uid-eu"), false)
	x.Expect(x.sessions("eu")).To(Equal(int32(1)))
	x.Observe(onHub("a", 1, ""), false)
	x.Expect(x.sessions("eu")).To(BeZero())
}

func TestMemberThatAcceptsNoSessions(t *testing.T) {
	x := newFixture(t)
	why := func() string {
		x.mu.Lock()
		defer x.mu.Unlock()
		_, text := x.uids["uid-eu"].acceptsSessions(x.timings, x.clock.Now())
		return text
	}
	x.register("eu", "uid-eu")
	x.Expect(why()).To(Equal("its agent has never connected"))
	m, _, _ := x.open("uid-eu", "i1")
	x.Expect(why()).To(Equal("its agent is not connected"))
	reportAll(m)
	x.Eventually(why).Should(Equal("its agent has not reported its capacity yet"))
	m.Capacity(capacityReport(1, 1))
	x.Expect(why()).To(BeEmpty())
	x.clock.Step(x.timings.Suspect)
	x.Expect(why()).To(Equal("its agent sends no heartbeats"))
	x.clock.Step(x.timings.Unreachable)
	x.Expect(why()).To(Equal("it is unreachable"))
	x.renew("uid-eu", "i1")
	x.Expect(why()).To(Equal("its agent was lost and must be stable for a while first"))
	x.renewFor("uid-eu", "i1", x.timings.Stable)
	x.Expect(why()).To(BeEmpty())
	for range 3 - 1 {
		m.Closed(protocol.ErrStalled)
		x.Expect(why()).To(Equal("its agent does not keep up"))
		m, _ = x.connect("uid-eu", "i1")
		x.renewFor("uid-eu", "i1", x.timings.Stable)
	}
	x.Expect(why()).To(Equal("it is quarantined, since its agent was lost too often"))
	x.renewFor("uid-eu", "i1", x.timings.Quarantine)
	x.Expect(why()).To(BeEmpty())
	x.register("eu", "uid-eu", revoked)
	x.Expect(why()).To(Equal("its access is revoked"))
	at := metav1.NewTime(x.clock.Now())
	x.register("eu", "uid-eu", func(mc *v1alpha1.MemberCluster) { mc.DeletionTimestamp = &at })
	x.Expect(why()).To(Equal("it is being removed"))
}

func TestSessionsWaitForReportsOnANewTemplate(t *testing.T) {
	x := newFixture(t)
	x.register("eu", "uid-eu")
	x.register("us", "uid-us")
	eu, _ := x.connect("uid-eu", "i1")
	us, _ := x.connect("uid-us", "i2")
	key := request("a").Template
	eu.Capacity(capacityReport(1, 1))
	us.Capacity(&fleetv1.CapacityReport{Sequence: 1})
	x.Expect(x.Evaluating(key)).To(BeTrue(), "us has not evaluated it")
	us.Capacity(capacityReport(2, 1))
	x.Expect(x.Evaluating(key)).To(BeFalse(), "both have")

	us.Capacity(&fleetv1.CapacityReport{Sequence: 3})
	x.Expect(x.Evaluating(key)).To(BeTrue(), "evaluated again")
	x.clock.Step(evaluationWait)
	x.Expect(x.Evaluating(key)).To(BeFalse(), "the wait is bounded")
}
