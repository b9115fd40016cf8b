package member

import (
	"context"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/backoff"
	"github.com/vdi-fleet/vdi-fleet/hub/failover"
	"github.com/vdi-fleet/vdi-fleet/hub/link"
	"github.com/vdi-fleet/vdi-fleet/hub/member/health"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

func declared(fingerprint string) func(*v1alpha1.MemberCluster) {
	return func(mc *v1alpha1.MemberCluster) {
		mc.Generation++
		mc.Spec.Fenced = &v1alpha1.FencedDeclaration{
			Fingerprint: fingerprint, By: "ann", At: metav1.NewTime(time.Unix(1_700_000_000, 0)),
		}
	}
}

func TestDeclaringAMemberFencedReleasesSessionsOfEveryModeAtOnce(t *testing.T) {
	r := newRegion(t, "eu", "us", "asia")
	r.disconnect("eu", "us", "asia")
	r.passes(20 * time.Second)
	r.Expect(r.FailoverOf("uid-eu").Decide(held).Due).To(BeFalse())
	r.changes.take()
	r.register("eu", "uid-eu", declared("fp-uid-eu"))
	r.Expect(r.changes.take()).To(ContainElement(Change{Kind: MemberChanged, Member: "eu", UID: "uid-eu"}), "its sessions are reconciled")
	r.Expect(r.State("uid-eu").Health).To(Equal(health.Unreachable))
	for _, mode := range []failover.Session{restarts, fences, held, {Mode: v1alpha1.FailoverFence}} {
		v := r.FailoverOf("uid-eu").Decide(mode)
		r.Expect(v.Due).To(BeTrue(), "with all others silent, too")
		r.Expect(v.Reason).To(Equal(v1alpha1.ReasonMemberFenced))
	}
	r.connectAs("uid-us")
	r.passes(time.Minute)
	to, _ := r.moves("a", held, "uid-eu")
	r.Expect(to).To(BeEmpty(), "capacity is required nevertheless")
}

func TestFencedMemberGetsNoSessionsUntilItIsCleared(t *testing.T) {
	r := newRegion(t, "eu")
	r.disconnect("eu")
	r.passes(20 * time.Second)
	r.register("eu", "uid-eu", declared("fp-uid-eu"))
	d := r.Place(request("a"), 1)
	r.Expect(d.Placed).To(BeFalse())
	r.Expect(d.Message).To(ContainSubstring(messageFenced))

	r.Expect(r.tryConnect()).To(MatchError(link.ErrFenced))
	r.Expect(r.FailoverOf("uid-eu").Decide(held)).To(Equal(failover.Verdict{}), "it is not off")
	r.Expect(r.Place(request("a"), 1).Placed).To(BeFalse(), "as long as it is declared")
	v, _ := r.viewOf("eu")
	r.Expect(v.fence.alive).To(BeTrue())
	r.register("eu", "uid-eu")
	r.connectAs("uid-eu")
	r.dead = nil
	r.passes(time.Minute)
	r.Expect(r.Place(request("a"), 1).Placed).To(BeTrue())
}

// An agent that returns only for a moment shows that its cluster is not off.
func TestAgentThatReconnectsBrieflyClearsTheDeclaration(t *testing.T) {
	r := newRegion(t, "eu", "us")
	r.disconnect("eu")
	r.passes(20 * time.Second)
	r.register("eu", "uid-eu", declared("fp-uid-eu"))
	r.Expect(r.tryConnect()).To(MatchError(link.ErrFenced))
	r.passes(time.Minute)
	r.Expect(r.FailoverOf("uid-eu").Decide(held).Due).To(BeFalse())
	r.Expect(r.State("uid-eu").Health).To(Equal(health.Unreachable))
	r.register("eu", "uid-eu", declared("fp-uid-eu"), func(mc *v1alpha1.MemberCluster) { mc.Spec.Fenced.At.Time = r.clock.Now() })
	r.Expect(r.FailoverOf("uid-eu").Decide(held).Due).To(BeTrue(), "declared again, it holds")
}

func TestDeclarationOfAConnectedMemberDoesNotCount(t *testing.T) {
	r := newRegion(t, "eu", "us")
	r.register("eu", "uid-eu", declared("fp-uid-eu"))
	r.Expect(r.FailoverOf("uid-eu").Decide(held)).To(Equal(failover.Verdict{}))
	r.disconnect("eu")
	r.passes(time.Minute)
	r.Expect(r.FailoverOf("uid-eu").Decide(held).Due).To(BeFalse(), "it was declared too early")
}

// tryConnect tries to connect the agent of "eu", and returns the refusal.
func (r *region) tryConnect() error {
	_, err := r.Open(context.Background(), "uid-eu", &fleetv1.Hello{Fingerprint: "fp-uid-eu", Instance: "i1"}, &peer{})
	return err
}

// fencing is a fleet of one disconnected member, which an operator may declare fenced.
type fencing struct {
	*controllers
	mc *v1alpha1.MemberCluster
}

func newFencing(t *testing.T) *fencing {
	x := &fencing{controllers: newControllers(t, newMemberObject("eu")), mc: newMemberObject("eu")}
	x.reconcile("eu")
	m, _ := x.connect("uid-eu", "i1")
	x.renew("uid-eu", "i1")
	x.reconcile("eu")
	m.Closed(nil)
	x.clock.Step(x.timings.Suspect)
	x.reconcile("eu")
	x.events()
	return x
}

func (x *fencing) edit(f func(*v1alpha1.MemberCluster)) {
	x.read()
	f(x.mc)
	x.Expect(x.c.Update(context.Background(), x.mc)).To(Succeed())
	x.reconcile("eu")
	x.read()
}

func (x *fencing) read() *v1alpha1.MemberCluster {
	x.Expect(x.c.Get(context.Background(), client.ObjectKeyFromObject(x.mc), x.mc)).To(Succeed())
	return x.mc
}

func (x *fencing) events() (out []string) {
	for range len(x.recorder.Events) {
		out = append(out, <-x.recorder.Events)
	}
	return out
}

func (x *fencing) expectRefused() {
	_, _, err := x.open("uid-eu", "i2")
	x.Expect(err).To(MatchError(link.ErrFenced))
}

func (x *fencing) fenced() string {
	return conditionIn(&x.read().Status, v1alpha1.ConditionFenced).Message
}

func TestDeclarationIsShownForAsLongAsItHolds(t *testing.T) {
	x := newFencing(t)
	x.edit(declared("fp"))
	x.Expect(x.shows(x.mc)).To(ContainElements("Fenced=True/MemberFenced", "Ready=False/Unreachable"))
	x.Expect(x.fenced()).To(Equal("ann declared at 2023-11-14T22:13:20Z that nothing runs there any more: its sessions are rescheduled, and what is left of them there is stopped if its agent returns"))
	x.Expect(x.events()).To(ContainElement(HavePrefix("Warning Fenced ann declared at")))
	writes := x.writes
	x.reconcile("eu")
	x.Expect(x.writes).To(Equal(writes))
	x.edit(func(mc *v1alpha1.MemberCluster) { mc.Generation, mc.Spec.Fenced = 9, nil })
	x.Expect(x.shows(x.mc)).NotTo(ContainElement(HavePrefix("Fenced")))
	x.Expect(x.FailoverOf("uid-eu").Decide(held)).To(Equal(failover.Verdict{}), "the operator cleared it")
}

func TestDeclarationIsClearedOnceTheAgentIsBack(t *testing.T) {
	x := newFencing(t)
	x.edit(declared("fp"))
	x.events()
	x.expectRefused()
	x.reconcile("eu")
	x.Expect(x.read().Spec.Fenced).To(BeNil())
	x.Expect(x.shows(x.mc)).To(ContainElement("Fenced=False/FencedButAlive"))
	x.Expect(x.events()).To(ContainElement("Warning Fenced its agent has returned: removed the declaration that it is fenced, as ann declared at 2023-11-14T22:13:20Z that nothing runs there any more"))
	x.connect("uid-eu", "i2")
	x.reconcile("eu")
	x.Expect(x.shows(x.read())).To(ContainElement("Fenced=False/FencedButAlive"), "until it is ready")
	x.renewFor("uid-eu", "i2", x.timings.Stable+x.timings.Renew)
	x.reconcile("eu")
	x.Expect(x.shows(x.read())).To(ContainElement("Ready=True/Connected"))
	x.Expect(x.shows(x.mc)).NotTo(ContainElement(HavePrefix("Fenced")))
}

func TestDeclarationOfAnotherClusterDoesNotCount(t *testing.T) {
	x := newFencing(t)
	x.edit(declared("another"))
	x.Expect(x.shows(x.mc)).To(ContainElement("Fenced=False/FencedOtherCluster"))
	x.Expect(x.fenced()).To(ContainSubstring(`of cluster "another", and this member is cluster "fp"`))
	x.Expect(x.FailoverOf("uid-eu").Decide(held).Due).To(BeFalse())
	x.connect("uid-eu", "i2")
	x.reconcile("eu")
	x.Expect(x.read().Spec.Fenced).NotTo(BeNil(), "only an operator can decide what was meant")
}

func TestFencedMemberIsRemovedOnceNothingIsPlacedThere(t *testing.T) {
	x := newFencing(t)
	x.Observe(onHub("a", 1, "uid-eu"), false)
	x.Observe(onHub("b", 2, "uid-us", "uid-eu"), false)
	x.held = Held{Placed: 1, Releasing: 1}
	x.clock.Step(backoff.StatusInterval)
	x.reconcile("eu")
	x.Expect(x.read().Status.Sessions).To(Equal(int32(1)))
	x.Expect(x.mc.Status.Releasing).To(Equal(int32(1)))
	x.Expect(x.c.Delete(context.Background(), x.mc)).To(Succeed())
	x.reconcile("eu")
	x.Expect(x.events()).To(ContainElement(ContainSubstring("2 sessions are placed there or not confirmed stopped: delete them, or drain it")))

	x.edit(declared("fp"))
	x.Expect(x.FailoverOf("uid-eu").Decide(held).Due).To(BeTrue())
	x.Expect(x.events()).To(ContainElement(ContainSubstring("it is declared fenced, and 1 sessions are still placed there")))
	x.held.Placed = 0
	x.reconcile("eu")
	x.read()
	x.held, x.changes.seen = Held{Releasing: 2}, nil
	x.Observe(onHub("a", 2, "uid-us", "uid-eu"), false)
	x.reconcile("eu")
	x.reconcile("eu")
	x.Expect(apierrors.IsNotFound(x.c.Get(context.Background(), client.ObjectKeyFromObject(x.mc), x.mc))).To(BeTrue())
	x.Expect(x.Gone("uid-eu")).To(BeTrue(), "what was released there is dropped")
	x.Expect(x.changes.take()).To(ContainElement(Change{Kind: MemberChanged, Member: "eu", UID: "uid-eu"}))
}

func TestMemberThatIsBackIsNotRemovedBeforeItsStopsAreConfirmed(t *testing.T) {
	x := newFencing(t)
	x.edit(declared("fp"))
	x.Expect(x.c.Delete(context.Background(), x.mc)).To(Succeed())
	x.held = Held{Releasing: 1}
	x.expectRefused()
	x.reconcile("eu")
	x.connect("uid-eu", "i2")
	x.reconcile("eu")
	x.read()
	x.held = Held{}
	x.reconcile("eu")
	x.Expect(apierrors.IsNotFound(x.c.Get(context.Background(), client.ObjectKeyFromObject(x.mc), x.mc))).To(BeTrue())
}

func TestMemberInTheHubsOwnClusterIsShown(t *testing.T) {
	x := newFencing(t)
	x.HubCluster("fp")
	x.reconcile("eu")
	x.Expect(x.read().Status.HubCluster).To(BeTrue())
}

func TestLostMembersAreMeasured(t *testing.T) {
	x := newFencing(t)
	x.edit(declared("fp"))
	x.Expect(x.collected("vdi_hub_members_lost")).To(ContainElement("vdi_hub_members_lost{reason=MemberFenced} 1"))
	x.Expect(strings.Join(x.shows(x.mc), " ")).To(ContainSubstring("MemberFenced"))
}
