package member

import (
	"context"
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/failover"
	"github.com/vdi-fleet/vdi-fleet/hub/link"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// The agent returned to a leader that ended before it removed the declaration. Its desktops
// run, and the next leader still reads the declaration.
func TestDeclarationEndsWithTheAgentsReturnWhateverLeaderThereIs(t *testing.T) {
	next := newFixture(t)
	next.pauses.Start(next.clock.Now())
	stored := func(mc *v1alpha1.MemberCluster) {
		mc.Status.AgentVersion, mc.Status.Fingerprint = "v1", "fp-uid-eu"
		declared("fp-uid-eu")(mc)
	}
	next.register("eu", "uid-eu", stored)
	next.register("us", "uid-us")
	r := &region{fixture: next}
	r.connectAs("uid-us")
	r.Expect(r.FailoverOf("uid-eu").Decide(held).Due).To(BeFalse(), "it has not listened for its agent yet")

	r.runs(r.timings.Unreachable / 2)
	r.Expect(r.tryConnect()).To(MatchError(link.ErrFenced))
	v, _ := r.viewOf("eu")
	r.Expect(v.fence.alive).To(BeTrue(), "so the declaration is cleared")
	r.runs(10 * r.timings.Unreachable)
	r.Expect(r.FailoverOf("uid-eu").Decide(held).Due).To(BeFalse())

	r.register("eu", "uid-eu", func(mc *v1alpha1.MemberCluster) { mc.Generation = 3 })
	r.connectAs("uid-eu")
	r.Expect(r.FailoverOf("uid-eu").Decide(held)).To(Equal(failover.Verdict{}))
}

// If the agent does not return, the next leader acts on the declaration as soon as the member
// is Unreachable for it without the declaration, and no later.
func TestNextLeaderActsOnADeclarationAfterTheHeartbeatTimeout(t *testing.T) {
	next := watched(t)
	next.register("eu", "uid-eu", declared("fp"), func(mc *v1alpha1.MemberCluster) {
		mc.Status.AgentVersion, mc.Status.Fingerprint = "v1", "fp"
	})
	next.runs(next.timings.Unreachable - time.Second)
	next.Expect(next.FailoverOf("uid-eu").Decide(held).Due).To(BeFalse())
	next.runs(time.Second)
	v := next.FailoverOf("uid-eu").Decide(held)
	next.Expect(v.Due).To(BeTrue())
	next.Expect(v.Reason).To(Equal(v1alpha1.ReasonMemberFenced))
}

// An admitted agent may start what the next leader, if it reads the declaration, places
// elsewhere: the agent is refused until the removal of the declaration is stored.
func TestAgentIsAdmittedOnceTheDeclarationIsGoneFromTheAPIServer(t *testing.T) {
	x := newFencing(t)
	x.edit(declared("fp"))
	down := errors.New("the API server is away")
	x.members.Client = interceptor.NewClient(x.c.(client.WithWatch), interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			if down != nil {
				return down
			}
			return c.Patch(ctx, o, p, opts...)
		},
	})
	for range 3 {
		x.expectRefused()
		_, err := x.members.update(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "eu"}})
		x.Expect(err).To(MatchError(down))
		_, err = x.Renew("uid-eu", link.Renewal{Instance: "i1"})
		x.Expect(err).To(MatchError(link.ErrFenced), "a lease would allow Fence desktops to run")
	}
	x.Expect(x.read().Spec.Fenced).NotTo(BeNil())
	down = nil
	x.reconcile("eu")
	x.Expect(x.read().Spec.Fenced).To(BeNil())
	x.connect("uid-eu", "i2")
}

// The hub delays the agent's connection until the declaration is removed: no retry is needed.
func TestAgentWaitsWhileTheDeclarationIsCleared(t *testing.T) {
	x := newFencing(t)
	x.edit(declared("fp"))
	x.unfenceWait = time.Minute
	opened := make(chan error, 1)
	go func() {
		_, _, err := x.open("uid-eu", "i2")
		opened <- err
	}()
	x.Eventually(func() bool {
		v, _ := x.viewOf("eu")
		return v.fence.alive
	}).Should(BeTrue())
	x.Consistently(opened, "50ms").ShouldNot(Receive())
	x.reconcile("eu")
	x.Eventually(opened).Should(Receive(BeNil()))
}

// A declaration ends an open connection: no later order or lease may run what is placed
// elsewhere because of it.
func TestDeclarationEndsAConnection(t *testing.T) {
	r := newRegion(t, "us")
	r.register("eu", "uid-eu")
	p := &peer{}
	_, err := r.Open(context.Background(), "uid-eu", &fleetv1.Hello{Fingerprint: "fp-uid-eu", Instance: "i1"}, p)
	r.Expect(err).NotTo(HaveOccurred())
	r.register("eu", "uid-eu", declared("fp-uid-eu"))
	r.Expect(p.closed).To(MatchError(link.ErrFenced))
	_, err = r.Renew("uid-eu", link.Renewal{Instance: "i1"})
	r.Expect(err).To(MatchError(link.ErrFenced))
}

// A status that the API server refuses does not block the other writes.
func TestRefusedStatusDelaysNeitherUnfenceNorHeartbeat(t *testing.T) {
	x := newFencing(t)
	x.edit(declared("fp"))
	refused := errors.New("etcdserver: request is too large")
	x.members.Client = interceptor.NewClient(x.c.(client.WithWatch), interceptor.Funcs{
		SubResourceUpdate: func(context.Context, client.Client, string, client.Object, ...client.SubResourceUpdateOption) error {
			return refused
		},
	})
	x.expectRefused()
	_, err := x.members.update(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "eu"}})
	x.Expect(err).To(MatchError(refused))
	x.Expect(x.read().Spec.Fenced).To(BeNil())

	x.connect("uid-eu", "i2")
	x.renewFor("uid-eu", "i2", x.timings.Stable+x.timings.Renew)
	_, err = x.members.update(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "eu"}})
	x.Expect(err).To(MatchError(refused))
	lease := &coordinationv1.Lease{}
	x.Expect(x.c.Get(t.Context(), types.NamespacedName{Namespace: "vdi-system", Name: "member-eu"}, lease)).To(Succeed())
	x.Expect(lease.Spec.RenewTime.Time).To(BeTemporally("==", x.clock.Now()))
}
