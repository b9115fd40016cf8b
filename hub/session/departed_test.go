package session

import (
	"context"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/session/sessiontest"
)

// memberInMemory is the only member, and what it reports of the only session.
type memberInMemory struct {
	multicluster.Provider
	away     bool
	reported *v1alpha1.SessionAssignment
}

func (m *memberInMemory) Get(context.Context, multicluster.ClusterName) (cluster.Cluster, error) {
	if m.away {
		return nil, multicluster.ErrClusterNotFound
	}
	return inMemory{member: m}, nil
}

// inMemory is the member as a cluster.
type inMemory struct {
	cluster.Cluster
	member *memberInMemory
}

func (c inMemory) GetClient() client.Client { return memberCache{member: c.member} }

type memberCache struct {
	client.Client
	member *memberInMemory
}

func (c memberCache) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	if c.member.reported == nil {
		return apierrors.NewNotFound(v1alpha1.GroupVersion.WithResource("sessionassignments").GroupResource(), key.Name)
	}
	c.member.reported.DeepCopyInto(into.(*v1alpha1.SessionAssignment))
	return nil
}

func noneGone(types.UID) bool { return false }

func assignmentOf(s *v1alpha1.VDISession) types.NamespacedName {
	return types.NamespacedName{Namespace: s.Namespace, Name: v1alpha1.AssignmentName(s.Name, s.UID)}
}

func TestADepartedSessionIsRememberedUntilEveryMemberHasConfirmed(t *testing.T) {
	g := NewWithT(t)
	s := sessiontest.With(sessiontest.PlacedAt(sessiontest.Here, 5), sessiontest.ReleasingAt(elsewhere, 4))
	var d Departures
	var requested []mcreconcile.Request
	d.listen(func(r []mcreconcile.Request) { requested = append(requested, r...) })
	d.observe(s, noneGone)
	g.Expect(requested).To(HaveLen(2), "it is withdrawn from both members")

	key := assignmentOf(s)
	for member, epoch := range map[types.UID]int64{sessiontest.Here: 5, elsewhere: 4} {
		uid, upTo, ok := d.of(key, member)
		g.Expect(ok).To(BeTrue())
		g.Expect(uid).To(Equal(s.UID))
		g.Expect(upTo).To(Equal(epoch))
		g.Expect(d.in(member)).To(ConsistOf(key))
	}
	d.stopped(key, sessiontest.Here)
	_, _, ok := d.of(key, sessiontest.Here)
	g.Expect(ok).To(BeFalse())
	g.Expect(d.in(elsewhere)).To(ConsistOf(key))
	d.stopped(key, elsewhere)
	g.Expect(d.by).To(BeEmpty())
}

func TestWhatTheHubLetGoOrNeverPlacedIsNoDeparture(t *testing.T) {
	g := NewWithT(t)
	var d Departures
	s := sessiontest.With(sessiontest.PlacedAt(sessiontest.Here, 5))
	d.release(s.UID)
	d.observe(s, noneGone)
	g.Expect(d.by).To(BeEmpty())
	g.Expect(d.released).To(BeEmpty(), "nothing is left of a session that is gone")
	d.observe(sessiontest.With(), noneGone)
	g.Expect(d.by).To(BeEmpty())

	d.release(s.UID)
	d.keep(s.UID) // it could not be removed, and then somebody else did
	d.observe(s, noneGone)
	g.Expect(d.by).To(HaveLen(1))
}

func TestTheMemoryForDepartedSessionsIsBounded(t *testing.T) {
	g := NewWithT(t)
	d := Departures{most: 3}
	named := func(i int, member types.UID) *v1alpha1.VDISession {
		return sessiontest.With(sessiontest.PlacedAt(member, 5), func(s *v1alpha1.VDISession) { s.UID = types.UID(fmt.Sprint("u", i)) })
	}
	for i := range 2 {
		d.observe(named(i, elsewhere), noneGone)
	}
	for i := range 5 {
		d.observe(named(10+i, sessiontest.Here), noneGone)
	}
	g.Expect(d.by).To(HaveLen(3))
	elsewhereIsGone := func(member types.UID) bool { return member == elsewhere }
	d.observe(named(20, sessiontest.Here), elsewhereIsGone)
	g.Expect(d.by).To(HaveLen(2), "nobody will confirm for a member that was removed")
	g.Expect(d.in(sessiontest.Here)).To(HaveLen(2))
}

func TestOnlyAnObservedDeletionIsADeparture(t *testing.T) {
	s := sessiontest.With(sessiontest.PlacedAt(sessiontest.Here, 5))
	for _, c := range []struct {
		name     string
		obj      any
		leads    bool
		departed int
	}{
		{"a deletion that the watch reports", s, true, 1},
		{"an absence from a list", toolscache.DeletedFinalStateUnknown{Key: "desktops/mine", Obj: s}, true, 0},
		{"a replica that does not lead", s, false, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := NewWithT(t)
			r := &Reconciler{Departures: &Departures{}, Fleet: &oneMember{}}
			r.seen(c.obj, true, c.leads)
			g.Expect(r.Departures.by).To(HaveLen(c.departed))
		})
	}
}

// TestStepsOfADepartedSession is the specification: for what a member reports, at an
// older, the same and a newer epoch than it was given last.
func TestStepsOfADepartedSession(t *testing.T) {
	for state, want := range map[v1alpha1.AssignmentState]string{
		v1alpha1.AssignmentActive:   "Withdraw 5|Withdraw 5|Orphan 6",
		v1alpha1.AssignmentStopping: "Withdraw 5|Withdraw 5|Orphan 6",
		v1alpha1.AssignmentStopped:  "Withdraw 5|Forget 5|Forget 6",
		v1alpha1.AssignmentRefused:  "Withdraw 5|Forget 5|Forget 6",
	} {
		got := ""
		for epoch := int64(4); epoch <= 6; epoch++ {
			a := &v1alpha1.SessionAssignment{}
			a.Spec.Epoch, a.Status.State = epoch, state
			next, upTo := planDeparted(5, a)
			got += fmt.Sprintf("|%s %d", next, upTo)
		}
		if got[1:] != want {
			t.Errorf("%s: got %s, want %s", state, got[1:], want)
		}
	}
	if next, upTo := planDeparted(5, nil); next != stepWithdraw || upTo != 5 {
		t.Errorf("an order may be on its way to a member that reports nothing: %s %d", next, upTo)
	}
}

func TestTheHomeOfASessionThatIsGoneIsHeldWhileItMayBeMounted(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(x *homesInMemory)
		free   bool
	}{
		{"the member reports nothing of it", func(*homesInMemory) {}, true},
		{"the member runs it", func(x *homesInMemory) { x.member.reported = &v1alpha1.SessionAssignment{} }, false},
		{"the member has stopped it", func(x *homesInMemory) {
			x.member.reported = &v1alpha1.SessionAssignment{}
			x.member.reported.Status.State = v1alpha1.AssignmentStopped
		}, true},
		{"the member is away", func(x *homesInMemory) { x.member.away = true }, false},
		{"the member was removed for good", func(x *homesInMemory) {
			x.member.away = true
			x.sessions.Fleet.(*oneMember).gone = map[types.UID]bool{sessiontest.Here: true}
		}, true},
		{"its withdrawal is not confirmed", func(x *homesInMemory) {
			x.sessions.Departures.observe(sessiontest.With(idleAt(5, 1)), noneGone)
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := newHomesInMemory(t, "5.1", idleAt(5, 1))
			x.Expect(x.c.Delete(context.Background(), x.session())).To(Succeed())
			c.change(x)
			result := x.reconcile()
			x.Expect(x.home().Status.MountedByUID == "").To(Equal(c.free))
			if !c.free {
				x.Expect(result.RequeueAfter).To(BeNumerically(">", time.Duration(0)))
			}
		})
	}
}
