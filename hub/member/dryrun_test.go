package member

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/dump"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/link/protocol"
	"github.com/vdi-fleet/vdi-fleet/hub/member/health"
	"github.com/vdi-fleet/vdi-fleet/hub/placement"
)

// bookkeeping is all that decisions are made from, what is remembered included.
func (f *Fleet) bookkeeping() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return dump.ForHash(f.ledger) + dump.ForHash(f.placed)
}

// drawFleet is a fleet in which sessions have come and gone. It has no provider:
// its members' caches are taken to have synced.
func drawFleet(t *rapid.T) *Fleet {
	f := New(Options{
		Scheme: kruntime.NewScheme(), Clock: clocktesting.NewFakeClock(time.Unix(1_700_000_000, 0)), Timings: health.DefaultTimings(1),
	})
	for i := range rapid.IntRange(1, 4).Draw(t, "members") {
		mc := &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("m", i), UID: types.UID(fmt.Sprint("uid-m", i))}}
		mc.Spec.Region = rapid.SampledFrom([]string{"eu", "us"}).Draw(t, "region")
		if rapid.IntRange(0, 3).Draw(t, "capped") == 0 {
			mc.Spec.SessionCap = ptr.To(rapid.Int32Range(0, 8).Draw(t, "cap"))
		}
		mc.Spec.HeadroomPercent = rapid.SampledFrom([]int32{0, 0, 20}).Draw(t, "headroom")
		f.Register(mc)
		m, err := f.Open(context.Background(), mc.UID, protocol.Hello{Fingerprint: "fp", Instance: "i"}, &peer{})
		if err != nil {
			t.Fatal(err)
		}
		reportAll(m)
		if rapid.IntRange(0, 5).Draw(t, "reports") > 0 {
			m.Capacity(room(1, rapid.Int32Range(0, 8).Draw(t, "nodes")))
		}
		f.uids[mc.UID].cluster.Synced.Store(true)
	}
	for i := range rapid.IntRange(0, 8).Draw(t, "earlier") {
		req := drawRequest(t, fmt.Sprint("earlier-", i))
		d := f.Place(req, 1)
		if d.Placed && rapid.Bool().Draw(t, "shown") {
			f.Observe(onHub(req.Name, 1, d.Cluster.UID), false)
		}
	}
	return f
}

func drawRequest(t *rapid.T, name string) placement.Request {
	req := request(name)
	req.User = rapid.SampledFrom([]string{"ann", "bob"}).Draw(t, "user")
	req.Resources = placement.Resources{"cpu": rapid.SampledFrom([]int64{250, 500, 1000}).Draw(t, "cpu")}
	if rapid.Bool().Draw(t, "governed") {
		req.PolicyName, req.Policy = "home", &v1alpha1.PlacementPolicySpec{
			Strategy: v1alpha1.StrategyBinPack, Overflow: []v1alpha1.OverflowTier{{Regions: []string{"eu"}}, {}},
		}
		most := func(what string) *int32 {
			if rapid.Bool().Draw(t, what) {
				return nil
			}
			return ptr.To(rapid.Int32Range(0, 6).Draw(t, "most "+what))
		}
		req.Policy.SessionCaps = v1alpha1.SessionCaps{Total: most("total"), PerUser: most("user"), PerCluster: most("cluster")}
	}
	return req
}

func TestAReviewChangesNothingAndTellsWhatPlacingWouldDo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f, req := drawFleet(t), drawRequest(t, "asked")
		count := rapid.IntRange(1, 12).Draw(t, "count")
		before := f.bookkeeping()
		review := f.Review(t.Context(), Inquiry{Request: req, Count: count})
		if f.bookkeeping() != before {
			t.Fatalf("what decisions are made from has changed:\n%s\n%s", before, f.bookkeeping())
		}

		sessions, placed := map[types.UID]int{}, 0
		for n := 1; n <= count; n++ {
			r := req
			if n > 1 {
				r.UID = types.UID(fmt.Sprintf("%s/%d", req.UID, n))
			}
			if d := f.Place(r, 1); d.Placed {
				placed++
				sessions[d.Cluster.UID]++
				if n == 1 && (review.First.Cluster != d.Cluster || review.First.Message != d.Message) {
					t.Fatalf("it went by %q, and the review said %q", d.Message, review.First.Message)
				}
			} else if review.Stuck == nil {
				t.Fatalf("session %d found no room and the review said that all do", n)
			}
		}
		if review.Placed != placed || review.Waiting != count-placed || fmt.Sprint(review.Sessions) != fmt.Sprint(sessions) {
			t.Fatalf("%d were placed, as %v; the review said %d and %d wait, as %v", placed, sessions, review.Placed, review.Waiting, review.Sessions)
		}
	})
}

func TestAReviewSetsAsideWhatTheSessionHas(t *testing.T) {
	x := newFixture(t)
	x.register("eu", "uid-eu", func(mc *v1alpha1.MemberCluster) { mc.Spec.SessionCap = ptr.To[int32](1) })
	m, _ := x.connect("uid-eu", "i1")
	m.Capacity(room(2, 1))
	x.Expect(x.Place(request("a"), 1).Placed).To(BeTrue())
	req := request("a")
	x.Expect(x.Review(t.Context(), Inquiry{Request: req}).First.Placed).To(BeTrue(), "a decision that was not written yet")
	x.Observe(onHub("a", 1, "uid-eu"), false)
	req.Seat = &placement.Seat{Cluster: "uid-eu", Taken: true}
	x.Expect(x.Review(t.Context(), Inquiry{Request: req}).First.Placed).To(BeTrue(), "its reservation")
	m.Results([]protocol.Result{{SessionUID: "uid-a", Namespace: "desktops", Name: "a", Epoch: 1, SpecHash: "h", Code: protocol.Stored, CountedFrom: 3}})
	m.Capacity(room(3, 0))
	review := x.Review(t.Context(), Inquiry{Request: req, Count: 3})
	x.Expect(review.First.Placed).To(BeTrue(), "what the report counts")
	x.Expect([]int{review.Placed, review.Waiting}).To(Equal([]int{1, 2}), "it stays where it is, and there is no room for others")
	req.Seat = nil
	x.Expect(x.Review(t.Context(), Inquiry{Request: req}).First.Placed).To(BeFalse(), "one that does not sit there")
}

func TestAReviewTellsHowOldTheReportsAre(t *testing.T) {
	x := newFixture(t)
	x.register("eu", "uid-eu")
	x.register("us", "uid-us")
	x.connect("uid-eu", "i1")
	m, _, err := x.open("uid-us", "i2")
	x.Expect(err).NotTo(HaveOccurred())
	reportAll(m)
	x.clock.Step(7 * time.Second)
	review := x.Review(t.Context(), Inquiry{Request: request("a")})
	x.Expect(review.Ages).To(Equal(map[types.UID]time.Duration{"uid-eu": 7 * time.Second}), "us has made none")
	x.Expect(review.First.Verdicts).To(HaveLen(2))
	x.Expect(review.First.Verdicts[1]).To(And(HaveField("Cluster.Name", "us"), HaveField("Fits", false)))
}

func TestAReviewEndsWithItsTime(t *testing.T) {
	x := newFixture(t)
	x.register("eu", "uid-eu")
	x.connect("uid-eu", "i1")
	ctx, stop := context.WithCancel(t.Context())
	stop()
	review := x.Review(ctx, Inquiry{Request: request("a"), Count: 50})
	x.Expect([]int{review.Placed, review.Waiting, review.Unasked}).To(Equal([]int{1, 0, 49}), "the first is always asked")
	x.Expect(review.Stuck).To(BeNil())
}

func TestOfDistinctUsersOneAtHisCapHoldsUpNobody(t *testing.T) {
	x := newFixture(t)
	x.register("eu", "uid-eu")
	x.connect("uid-eu", "i1")
	req := request("b")
	req.PolicyName, req.Policy = "home", &v1alpha1.PlacementPolicySpec{SessionCaps: v1alpha1.SessionCaps{PerUser: ptr.To[int32](1)}}
	first := req
	first.UID = "uid-a"
	x.Expect(x.Place(first, 1).Placed).To(BeTrue())
	review := x.Review(t.Context(), Inquiry{Request: req, Count: 3})
	x.Expect([]int{review.Placed, review.Waiting}).To(Equal([]int{0, 3}))
	x.Expect(review.Stuck.Reason).To(Equal(v1alpha1.ReasonPolicyCap))
	review = x.Review(t.Context(), Inquiry{Request: req, Count: 3, DistinctUsers: true})
	x.Expect([]int{review.Placed, review.Waiting}).To(Equal([]int{2, 1}), "the first is of a user who has one already")
}

func TestOneThatIsHeldUpTakesNoRoom(t *testing.T) {
	x := newFixture(t)
	x.register("eu", "uid-eu")
	m, _ := x.connect("uid-eu", "i1")
	m.Capacity(room(2, 2))
	review := x.Review(t.Context(), Inquiry{Request: request("a"), Count: 3, Held: true})
	x.Expect([]int{review.Placed, review.Waiting}).To(Equal([]int{2, 1}))
	x.Expect(review.First.Verdicts).To(HaveExactElements(HaveField("Fits", true)), "where it would go is told all the same")
}

func TestNothingWouldBePlacedByARestoredHub(t *testing.T) {
	x := newFixture(t)
	x.register("eu", "uid-eu")
	x.connect("uid-eu", "i1")
	x.register("us", "uid-us", func(mc *v1alpha1.MemberCluster) { mc.Status.AgentVersion = "v1" })
	x.Restored()
	review := x.Review(t.Context(), Inquiry{Request: request("a"), Count: 5})
	x.Expect([]int{review.Placed, review.Waiting}).To(Equal([]int{0, 5}))
	x.Expect(review.Stuck.Reason).To(Equal(v1alpha1.ReasonHubRestored))
	x.Expect(review.First.Verdicts).To(HaveLen(2), "what the members are like is told all the same")
}

func TestDecisionsGoOnBesideReviews(t *testing.T) {
	x := newFixture(t)
	x.register("eu", "uid-eu")
	m, _ := x.connect("uid-eu", "i1")
	m.Capacity(room(2, 200))
	var group sync.WaitGroup
	for i := range 4 {
		group.Go(func() { x.Review(t.Context(), Inquiry{Request: request(fmt.Sprint("r", i)), Count: 300}) })
		group.Go(func() {
			for j := range 50 {
				x.Place(request(fmt.Sprintf("s%d-%d", i, j)), 1)
			}
		})
	}
	group.Wait()
	x.Expect(x.sessions("eu")).To(Equal(int32(200)), "every slot was given away, and none to a review")
}
