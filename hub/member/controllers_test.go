package member

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/backoff"
	"github.com/vdi-fleet/vdi-fleet/hub/member/health"
)

// controllers are the fleet's reconcilers with a fake client that counts writes.
type controllers struct {
	*fixture
	c        client.Client
	members  *Reconciler
	recorder *events.FakeRecorder
	writes   int
	// held is the result of HeldIn.
	held Held
}

func newControllers(t *testing.T, objects ...client.Object) *controllers {
	x := &controllers{fixture: newFixture(t), recorder: events.NewFakeRecorder(100)}
	x.Expect(clientgoscheme.AddToScheme(x.scheme)).To(Succeed())
	x.c = fake.NewClientBuilder().WithScheme(x.scheme).WithObjects(objects...).
		WithStatusSubresource(&v1alpha1.MemberCluster{}, &v1alpha1.VDITemplate{}).
		WithInterceptorFuncs(interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				x.writes++
				return c.Create(ctx, o, opts...)
			},
			Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
				x.writes++
				return c.Update(ctx, o, opts...)
			},
			Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
				x.writes++
				return c.Patch(ctx, o, p, opts...)
			},
			SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
				x.writes++
				return c.SubResource(sub).Update(ctx, o, opts...)
			},
		}).Build()
	x.members = &Reconciler{
		Client: x.c, Recorder: x.recorder, Fleet: x.Fleet, Namespace: "vdi-system",
		HeldIn: func(v1alpha1.ClusterRef) Held { return x.held },
	}
	return x
}

func (x *controllers) reconcile(name string) ctrl.Result {
	result, err := x.members.Reconcile(context.Background(), ctrl.Request{NamespacedName: types.NamespacedName{Name: name}})
	x.Expect(err).NotTo(HaveOccurred())
	return result
}

// shows returns the conditions of a member.
func (x *controllers) shows(mc *v1alpha1.MemberCluster) []string {
	var out []string
	for _, c := range mc.Status.Conditions {
		out = append(out, c.Type+"="+string(c.Status)+"/"+c.Reason)
	}
	return out
}

func newMemberObject(name string) *v1alpha1.MemberCluster {
	mc := &v1alpha1.MemberCluster{}
	mc.Name, mc.UID, mc.Generation = name, types.UID("uid-"+name), 1
	mc.Spec.Region, mc.Spec.IngressDomain = "eu", name+".example.com"
	return mc
}

func TestMemberStatusIsWrittenWhenItMatters(t *testing.T) {
	x := newControllers(t, newMemberObject("eu"))
	x.reconcile("eu")
	x.Expect(x.writes).To(Equal(2), "finalizer and status")
	x.reconcile("eu")
	x.Expect(x.writes).To(Equal(2), "nothing has changed")

	m, _ := x.connect("uid-eu", "i1")
	x.reconcile("eu")
	x.Expect(x.writes).To(Equal(5), "health at once, and the heartbeat, whose Lease has to be created")
	lease := &coordinationv1.Lease{}
	x.Expect(x.c.Get(context.Background(), client.ObjectKey{Namespace: "vdi-system", Name: "member-eu"}, lease)).To(Succeed())
	x.Expect(lease.Spec.RenewTime.Time).To(BeTemporally("==", x.clock.Now()))

	m.Capacity(capacityReport(2, 50))
	result := x.reconcile("eu")
	x.Expect(x.writes).To(Equal(5), "counts wait their turn")
	x.Expect(result.RequeueAfter).To(Equal(backoff.StatusInterval))
	x.clock.Step(backoff.StatusInterval)
	x.reconcile("eu")
	x.Expect(x.writes).To(Equal(6))

	x.clock.Step(x.timings.Suspect - backoff.StatusInterval)
	x.reconcile("eu")
	x.Expect(x.writes).To(Equal(7), "it sends no heartbeats")
	x.Expect(x.recorder.Events).To(Receive(ContainSubstring("NeverConnected")))
	x.Expect(x.recorder.Events).To(Receive(ContainSubstring("Connected")))
	x.Expect(x.recorder.Events).To(Receive(ContainSubstring("Suspect")))
}

// The members of a large fleet connect to a new leader at once: their Leases are written later.
func TestTheLeasesOfALargeFleetAreSpread(t *testing.T) {
	x := newControllers(t)
	led, ready := x.clock.Now(), view{Verdict: health.Verdict{State: health.Ready}, members: 1000, ledSince: x.clock.Now()}
	interval := backoff.LeaseIntervalOf(1000) - x.timings.Heartbeat
	last := 0
	for part := range 5 {
		x.clock.SetTime(led.Add(interval * time.Duration(part) / 4))
		for i := range 100 {
			mc := newMemberObject(fmt.Sprintf("m-%d", i))
			wait, err := x.members.heartbeat(t.Context(), mc, ready)
			x.Expect(err).NotTo(HaveOccurred())
			x.Expect(wait).To(BeNumerically(">", 0), "it is written again")
		}
		leases := &coordinationv1.LeaseList{}
		x.Expect(x.c.List(t.Context(), leases)).To(Succeed())
		x.Expect(len(leases.Items)-last).To(BeNumerically("<", 45), "part %d", part)
		last = len(leases.Items)
	}
	x.Expect(last).To(Equal(100))

	ready.members, ready.ledSince = 60, x.clock.Now()
	_, err := x.members.heartbeat(t.Context(), newMemberObject("of-a-small-fleet"), ready)
	x.Expect(err).NotTo(HaveOccurred())
	x.Expect(x.c.Get(t.Context(), client.ObjectKey{Namespace: "vdi-system", Name: "member-of-a-small-fleet"}, &coordinationv1.Lease{})).To(Succeed(), "at once")
}

func TestMemberInUseIsKept(t *testing.T) {
	x := newControllers(t, newMemberObject("eu"))
	x.reconcile("eu")
	x.connect("uid-eu", "i1")
	ctx := context.Background()
	mc := newMemberObject("eu")
	x.Expect(x.c.Delete(ctx, mc)).To(Succeed())
	there := func() bool { return !apierrors.IsNotFound(x.c.Get(ctx, client.ObjectKeyFromObject(mc), mc)) }

	// An earlier leader placed a session: only the hub's cache has it.
	x.held = Held{Placed: 1}
	x.reconcile("eu")
	x.reconcile("eu")
	x.Expect(there()).To(BeTrue())
	x.Expect(x.Place(request("a"), 1).Placed).To(BeFalse())
	warnings := 0
	for range len(x.recorder.Events) {
		if e := <-x.recorder.Events; strings.HasPrefix(e, "Warning InUse 1 sessions are placed there or not confirmed stopped: delete them") {
			warnings++
		}
	}
	x.Expect(warnings).To(Equal(1), "reported once")
	x.held = Held{}
	// A session was placed a moment ago: only the fleet has it.
	x.Observe(onHub("a", 1, "uid-eu"), false)
	x.reconcile("eu")
	x.Expect(there()).To(BeTrue())
	x.Observe(onHub("a", 1, "uid-eu"), true)
	x.reconcile("eu")
	x.Expect(there()).To(BeFalse())
	x.reconcile("eu")
	x.Expect(x.Fleet.members).To(BeEmpty())
	x.members.blocked.Range(func(member, _ any) bool {
		x.Expect(member).To(BeNil(), "is remembered")
		return true
	})
}
