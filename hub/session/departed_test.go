package session

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/assignment"
	"github.com/vdi-fleet/vdi-fleet/test/sessiontest"
)

// memberInMemory is the only member, and its report of the only session.
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

func TestOnlyAnObservedDeletionIsADeparture(t *testing.T) {
	s := sessiontest.With(sessiontest.PlacedAt(sessiontest.Here, 5))
	for _, c := range []struct {
		name     string
		obj      any
		leads    bool
		departed bool
	}{
		{"a deletion that the watch reports", s, true, true},
		{"an absence from a list", toolscache.DeletedFinalStateUnknown{Key: "desktops/mine", Obj: s}, true, false},
		{"a replica that does not lead", s, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := NewWithT(t)
			r := &Reconciler{Departures: &assignment.Departures{}, Fleet: &oneMember{}, Reservations: &oneMember{}}
			observer{r}.seen(c.obj, true, c.leads)
			g.Expect(r.Departures.Departed(assignment.KeyOf(s), sessiontest.Here)).To(Equal(c.departed))
		})
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
		{"the member was removed", func(x *homesInMemory) {
			x.member.away = true
			x.sessions.Fleet.(*oneMember).gone = map[types.UID]bool{sessiontest.Here: true}
		}, true},
		{"its withdrawal is not confirmed", func(x *homesInMemory) {
			x.sessions.Departures.Observe(sessiontest.With(idleAt(5, 1)), func(types.UID) bool { return false })
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
