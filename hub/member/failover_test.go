package member

import (
	"context"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/failover"
	"github.com/vdi-fleet/vdi-fleet/hub/member/health"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

var (
	restarts = failover.Session{Mode: v1alpha1.FailoverRestart}
	fences   = failover.Session{Mode: v1alpha1.FailoverFence, Guarded: true}
	held     = failover.Session{Mode: v1alpha1.FailoverHold}
)

// region is a fleet whose hub has led for long and whose members all renew.
type region struct {
	*fixture
	members []types.UID
	// dead has the members that no longer renew.
	dead map[types.UID]bool
}

func newRegion(t *testing.T, names ...string) *region {
	r := &region{fixture: watched(t), dead: map[types.UID]bool{}}
	for _, name := range names {
		uid := types.UID("uid-" + name)
		r.register(name, uid)
		r.connectAs(uid)
		r.members = append(r.members, uid)
	}
	r.passes(r.timings.Failover.Regain)
	return r
}

// connectAs connects a member's agent, from a cluster of its own.
func (r *region) connectAs(uid types.UID) {
	m, err := r.Open(context.Background(), uid, &fleetv1.Hello{Fingerprint: "fp-" + string(uid), Instance: "i1"}, &peer{})
	r.Expect(err).NotTo(HaveOccurred())
	reportAll(m)
	m.Capacity(capacityReport(1, 100))
	r.Eventually(r.cluster(string(uid[4:]))).Should(Succeed())
	r.renew(uid, "i1")
}

// passes advances time while the live members renew and the health of all is checked.
func (r *region) passes(d time.Duration) {
	for ; d > 0; d -= r.timings.Renew {
		r.runs(min(d, r.timings.Renew))
		for _, uid := range r.members {
			if !r.dead[uid] {
				r.renew(uid, "i1")
			}
		}
		for _, uid := range r.members {
			r.show(string(uid[4:]))
		}
	}
}

func (r *region) disconnect(names ...string) {
	for _, name := range names {
		r.dead[types.UID("uid-"+name)] = true
	}
}

// moves returns the member to which a session is moved, if any, and the verdict.
func (r *region) moves(name string, mode failover.Session, from types.UID) (string, failover.Verdict) {
	d, v := r.Failover(request(name), mode, from, 2)
	r.Expect(d.Placed).To(Equal(d.Cluster.Name != ""))
	return d.Cluster.Name, v
}

func TestSessionsOfALostMemberAreFailedOverByTheirModes(t *testing.T) {
	r := newRegion(t, "eu", "us", "asia")
	r.disconnect("eu")
	r.passes(35 * time.Second)
	r.Expect(r.FailoverOf("uid-eu").Decide(restarts)).To(Equal(failover.Verdict{}), "an outage of 35 s moves nothing")
	lostAt := r.clock.Now().Add(-35 * time.Second)
	r.passes(10 * time.Second)
	r.Expect(r.State("uid-eu").LastHeartbeat).To(Equal(lostAt))

	to, v := r.moves("a", restarts, "uid-eu")
	r.Expect(to).To(BeEmpty())
	r.Expect(v.Wait).To(Equal(55 * time.Second))
	r.Expect(r.sessions("us") + r.sessions("asia")).To(BeZero())
	r.passes(v.Wait)
	to, v = r.moves("a", restarts, "uid-eu")
	r.Expect(to).To(BeElementOf("us", "asia"))
	r.Expect(v.Reason).To(Equal(v1alpha1.ReasonMemberUnreachable))
	r.Expect(r.sessions("us")+r.sessions("asia")).To(Equal(int32(1)), "capacity is reserved")

	v = r.FailoverOf("uid-eu").Decide(fences)
	r.Expect(v.Due).To(BeFalse())
	r.Expect(r.clock.Now().Add(v.Wait)).To(Equal(lostAt.Add(300*time.Second)), "R after the last grant")
	r.passes(time.Hour)
	r.Expect(r.FailoverOf("uid-eu").Decide(fences).Due).To(BeTrue())
	r.Expect(r.FailoverOf("uid-eu").Decide(failover.Session{Mode: v1alpha1.FailoverFence}).Due).To(BeFalse(), "no guard")
	r.Expect(r.FailoverOf("uid-eu").Decide(held).Due).To(BeFalse())

	r.connectAs("uid-eu")
	r.Expect(r.FailoverOf("uid-eu").Decide(restarts)).To(Equal(failover.Verdict{}), "it is back")
}

func TestHeadroomIsForFailoverAndNothingMovesWithoutCapacity(t *testing.T) {
	r := newRegion(t, "eu", "us", "asia")
	r.register("us", "uid-us", func(mc *v1alpha1.MemberCluster) { mc.Generation, mc.Spec.HeadroomPercent = 2, 100 })
	r.register("asia", "uid-asia", func(mc *v1alpha1.MemberCluster) { mc.Generation, mc.Spec.Scheduling = 2, v1alpha1.SchedulingCordoned })
	r.disconnect("eu")
	r.passes(100 * time.Second)
	r.Expect(r.Place(request("new"), 1).Placed).To(BeFalse(), "it is kept free")
	to, _ := r.moves("a", restarts, "uid-eu")
	r.Expect(to).To(Equal("us"))

	req := request("b")
	req.Refused = map[types.UID]string{"uid-us": "its stop there is not confirmed"}
	d, v := r.Failover(req, restarts, "uid-eu", 2)
	r.Expect(d.Placed).To(BeFalse())
	r.Expect(v).To(HaveField("Due", true))
	r.Expect(v.Wait).To(BeZero(), "it waits for capacity, not for time")
	r.Expect(d.Message).To(ContainSubstring("cordoned"))
	r.Expect(req.Refused).To(HaveLen(1), "the request is not changed")
	r.Expect(req.Failover).To(BeFalse())
}

func TestNewLeaderWaitsForMembersToReconnect(t *testing.T) {
	x := watched(t)
	ready := func(mc *v1alpha1.MemberCluster) {
		mc.Status.AgentVersion, mc.Status.Fingerprint = "v1", "fp"
	}
	x.register("eu", "uid-eu", ready)
	x.register("us", "uid-us")
	x.connect("uid-us", "i1")
	r := &region{fixture: x, members: []types.UID{"uid-eu", "uid-us"}, dead: map[types.UID]bool{"uid-eu": true}}
	r.passes(290 * time.Second)
	for _, mode := range []failover.Session{restarts, fences} {
		v := r.FailoverOf("uid-eu").Decide(mode)
		r.Expect(v.Wait).To(Equal(10 * time.Second))
		r.Expect(v.Due).To(BeFalse())
	}
	r.passes(10 * time.Second)
	r.Expect(r.FailoverOf("uid-eu").Decide(restarts).Due).To(BeTrue())
	r.Expect(r.FailoverOf("uid-eu").Decide(fences).Due).To(BeTrue(), "no earlier leader granted anything since")
	r.Expect(r.FailoverOf("uid-none").Decide(held).Reason).To(Equal(v1alpha1.ReasonMemberFenced), "a member that there is not any more")
}

func TestMemberThatTheCacheDoesNotShowYetIsNotGone(t *testing.T) {
	x := watched(t)
	x.Expect(x.Gone("uid-eu")).To(BeFalse())
	x.Expect(x.FailoverOf("uid-eu").Decide(restarts).Due).To(BeFalse(), "before any is known")
	x.register("us", "uid-us")
	v := x.FailoverOf("uid-eu").Decide(held)
	x.Expect(v.Due).To(BeFalse())
	x.Expect(v.Wait).To(Equal(x.timings.Failover.Regain))
	x.runs(v.Wait)
	x.Expect(x.FailoverOf("uid-eu").Decide(held).Due).To(BeTrue())
	x.Expect(x.Gone("uid-eu")).To(BeTrue())

	x.register("eu", "uid-eu")
	x.Expect(x.Gone("uid-eu")).To(BeFalse())
	x.Remove("eu")
	x.Expect(x.Gone("uid-eu")).To(BeTrue())
	fresh := watched(t)
	fresh.register("eu", "uid-eu")
	fresh.Remove("eu")
	fresh.Expect(fresh.Gone("uid-eu")).To(BeTrue(), "it saw it go")
}

func TestHubAfterALongPauseDelaysFailovers(t *testing.T) {
	r := newRegion(t, "eu", "us", "asia")
	r.disconnect("eu")
	r.passes(41 * time.Second)
	r.clock.Step(10 * time.Second)
	r.passes(55 * time.Second)
	r.Expect(r.FailoverOf("uid-eu").Decide(restarts).Due).To(BeFalse(), "the hub was paused for 10 s of it")
	r.passes(10 * time.Second)
	r.Expect(r.FailoverOf("uid-eu").Decide(restarts).Due).To(BeTrue(), "but a short pause makes no new leader")

	r.clock.Step(time.Hour)
	v := r.FailoverOf("uid-eu").Decide(restarts)
	r.Expect(v.Due).To(BeFalse())
	r.Expect(v.Wait).To(Equal(r.timings.Failover.Regain))
	r.Expect(v.Message).To(ContainSubstring("run without a pause, only since"))
	r.passes(v.Wait)
	r.Expect(r.FailoverOf("uid-eu").Decide(restarts).Due).To(BeTrue())
}

func TestWhenAllOthersAreGoneItIsTheHubThatIsCutOff(t *testing.T) {
	r := newRegion(t, "home", "eu", "us")
	r.register("never", "uid-never")
	r.HubCluster("fp-uid-home")
	r.disconnect("eu", "us")
	r.passes(time.Hour)
	for _, mode := range []failover.Session{restarts, fences, {Mode: v1alpha1.FailoverRestart, After: new(time.Duration)}} {
		to, v := r.moves("a", mode, "uid-eu")
		r.Expect(to).To(BeEmpty(), "its own member is no witness")
		r.Expect(v.Wait).To(BeZero())
		r.Expect(v.Message).To(ContainSubstring("the hub itself may be cut off"))
	}
	r.changes.take()
	r.back("us")
	r.show("us")
	r.Expect(r.changes.take()).To(ContainElement(Change{Kind: MemberChanged, Member: "eu", UID: "uid-eu"}), "its sessions may go soon")
	r.passes(r.timings.Unreachable + r.timings.Failover.After)
	to, _ := r.moves("a", restarts, "uid-eu")
	r.Expect(to).NotTo(BeEmpty())
}

func TestCutOffIsDetectedBeforeTheLastMemberIsUnreachable(t *testing.T) {
	r := newRegion(t, "eu", "us")
	atOnce := failover.Session{Mode: v1alpha1.FailoverRestart, After: new(time.Duration)}
	r.disconnect("eu")
	r.passes(20 * time.Second)
	r.disconnect("us")
	r.passes(20 * time.Second)
	r.Expect(r.State("uid-eu").Health).To(Equal(health.Unreachable))
	r.Expect(r.State("uid-us").Health).To(Equal(health.Suspect))
	r.Expect(r.FailoverOf("uid-eu").Decide(atOnce).Due).To(BeFalse(), "no member sends heartbeats any more")
}

func TestMemberWhoseAccessIsRevokedIsLostAtOnce(t *testing.T) {
	r := newRegion(t, "eu", "us")
	granted := r.clock.Now()
	r.register("eu", "uid-eu", revoked)
	r.disconnect("eu")
	r.Expect(r.FailoverOf("uid-eu").Decide(restarts).Wait).To(Equal(60 * time.Second))
	r.Expect(r.State("uid-eu").LastHeartbeat).To(Equal(granted))
	r.passes(60 * time.Second)
	r.Expect(r.FailoverOf("uid-eu").Decide(restarts).Due).To(BeTrue())
	v := r.FailoverOf("uid-eu").Decide(fences)
	r.Expect(r.clock.Now().Add(v.Wait)).To(Equal(granted.Add(300*time.Second)), "its last grant counts nevertheless")

	r.register("eu", "uid-eu", func(mc *v1alpha1.MemberCluster) { mc.Generation = 3 })
	v = r.FailoverOf("uid-eu").Decide(fences)
	r.Expect(r.clock.Now().Add(v.Wait)).To(Equal(granted.Add(300 * time.Second)))
	r.disconnect("us")
	r.passes(time.Minute)
	r.register("eu", "uid-eu", revoked)
	r.Expect(r.FailoverOf("uid-eu").Decide(restarts).Due).To(BeFalse(), "the others are gone")
}

// A member that an operator revoked is no evidence about the hub's network.
func TestOnlyMemberBesideTheHubsOwnThatIsRevoked(t *testing.T) {
	r := newRegion(t, "home", "eu")
	r.HubCluster("fp-uid-home")
	r.register("eu", "uid-eu", revoked)
	r.disconnect("eu")
	r.passes(time.Minute)
	to, _ := r.moves("a", restarts, "uid-eu")
	r.Expect(to).To(Equal("home"))
}

func TestSessionsAreFailedOverAFewAtATime(t *testing.T) {
	r := newRegion(t, "eu", "us", "asia")
	r.disconnect("eu")
	r.passes(100 * time.Second)
	moved := func(n int) (went int, waits []time.Duration) {
		for i := range n {
			to, v := r.moves(fmt.Sprint("s", went, "-", i), restarts, "uid-eu")
			if to != "" {
				went++
				continue
			}
			r.Expect(v.Due).To(BeTrue())
			r.Expect(v.Message).To(ContainSubstring("waiting for the failover rate limit"))
			waits = append(waits, v.Wait)
		}
		return went, waits
	}
	went, waits := moved(40)
	r.Expect(went).To(Equal(20), "a second's worth")
	r.Expect(waits).To(HaveLen(20))
	r.Expect(waits[0]).To(BeNumerically(">", 0))
	r.Expect(waits[19]).To(BeNumerically("~", time.Second, 100*time.Millisecond))
	r.Expect(r.waiting()).To(BeEquivalentTo(20))

	r.disconnect("us")
	r.passes(45 * time.Second)
	went, waits = moved(40)
	r.Expect(went).To(BeNumerically("<=", 1), "two of three are gone, and one target is left")
	r.Expect(waits[0]).To(BeNumerically(">", 400*time.Millisecond))
}

func TestOneTargetGetsTenASecond(t *testing.T) {
	r := newRegion(t, "eu", "us", "asia")
	r.register("asia", "uid-asia", func(mc *v1alpha1.MemberCluster) { mc.Generation, mc.Spec.Scheduling = 2, v1alpha1.SchedulingCordoned })
	r.disconnect("eu")
	r.passes(100 * time.Second)
	went := 0
	for i := range 40 {
		if to, _ := r.moves(fmt.Sprint("s", i), restarts, "uid-eu"); to != "" {
			went++
		}
	}
	r.Expect(went).To(Equal(10))
	r.Expect(r.sessions("us")).To(Equal(int32(10)), "nothing is reserved for those that wait")
}

func TestRestoredHubMovesNothingBeforeMembersHaveReported(t *testing.T) {
	r := newRegion(t, "eu", "us", "asia")
	r.disconnect("eu")
	r.passes(100 * time.Second)
	r.register("late", "uid-late", func(mc *v1alpha1.MemberCluster) { mc.Status.AgentVersion = "v1" })
	r.Restored()
	d, v := r.Failover(request("a"), restarts, "uid-eu", 2)
	r.Expect(d.Placed).To(BeFalse())
	r.Expect(d.Reason).To(Equal(v1alpha1.ReasonHubRestored))
	r.Expect(v.Wait).To(Equal(r.timings.Recovery))
}

func TestWhenAMemberFellIsKnownToALaterLeader(t *testing.T) {
	x := watched(t)
	fell := x.clock.Now().Add(-10 * time.Minute).Truncate(time.Second)
	x.register("eu", "uid-eu", func(mc *v1alpha1.MemberCluster) {
		mc.Status.AgentVersion = "v1"
		mc.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, LastTransitionTime: metav1.NewTime(fell)}}
	})
	x.register("us", "uid-us")
	x.Expect(x.State("uid-eu").LastHeartbeat).To(BeTemporally("==", fell))
	x.Expect(x.State("uid-us").LastHeartbeat).To(Equal(x.began), "no time is known")
}

// A decision that was never written is undone by the next request.
func TestFailoverThatWasNotWrittenIsForgotten(t *testing.T) {
	r := newRegion(t, "eu", "us", "asia")
	r.disconnect("eu")
	r.passes(100 * time.Second)
	for range 5 {
		to, _ := r.moves("a", restarts, "uid-eu")
		r.Expect(to).NotTo(BeEmpty())
	}
	r.Expect(r.sessions("us") + r.sessions("asia")).To(Equal(int32(1)))
	r.Release("uid-a")
	r.Expect(r.sessions("us") + r.sessions("asia")).To(BeZero())
}

// waiting returns how many sessions wait for the rate limits, according to the metric.
func (x *fixture) waiting() float64 {
	families, err := metrics.Registry.Gather()
	x.Expect(err).NotTo(HaveOccurred())
	for _, f := range families {
		if f.GetName() == "vdi_hub_failover_rate_limited_sessions" {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	return -1
}
