package assignment

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/bulk"
	"github.com/vdi-fleet/vdi-fleet/hub/session/index"
	"github.com/vdi-fleet/vdi-fleet/test/sessiontest"
)

// However many sessions the members have that connect, those for which something may be left to do
// are compared at once, and the others at a limited rate.
func TestWhatIsLeftToDoDoesNotWaitBehindSettledSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newConnecting(t)
		const others = bulk.AtOnce + 5*bulk.PerSecond
		for i := range others {
			h.add(fmt.Sprintf("settled-%d", i), true)
		}
		h.add("starts", true, func(s *v1alpha1.VDISession) { s.Status.Phase = v1alpha1.PhaseCreating })
		h.add("edited", true, func(s *v1alpha1.VDISession) { s.Generation++ })
		h.add("sent", true, sessiontest.Condition(v1alpha1.ConditionAssigned, sessiontest.No, v1alpha1.ReasonSending))
		h.add("deleted", true, sessiontest.Deleted)
		h.add("released", true, sessiontest.ReleasingAt(sessiontest.Elsewhere, 4))
		h.add("not-reported", false)
		h.add("ended", true)
		h.reported[KeyOf(h.placed[len(h.placed)-1])] = false
		h.reported[types.NamespacedName{Namespace: "desktops", Name: v1alpha1.AssignmentName("unknown", "uid-unknown")}] = true

		h.connects()
		now := []string{"deleted", "edited", "ended", "not-reported", "released", "sent", "starts"}
		h.Expect(h.taken()).To(Equal(now))
		h.Expect(h.requests()).To(Equal(append(now, "unknown")))

		h.connects() // it connects again
		h.Expect(h.taken()).To(Equal(now))
		h.Expect(h.requests()).To(HaveLen(len(now) + 1))
		h.Expect(h.settled.Len()).To(Equal(1), "the member waits once")

		ctx, stop := context.WithCancel(t.Context())
		go h.settled.Run(ctx, h.compareSettled)
		synctest.Wait()
		h.Expect(h.requests()).To(HaveLen(bulk.AtOnce), "a member of usual size waits for nothing")
		time.Sleep(time.Second)
		synctest.Wait()
		h.Expect(h.requests()).To(HaveLen(bulk.PerSecond))
		time.Sleep(4 * time.Second)
		synctest.Wait()
		h.Expect(h.requests()).To(HaveLen(4*bulk.PerSecond), "all are compared")
		h.Expect(h.taken()).To(BeEmpty(), "their sessions need nothing")
		stop()
	})
}

// connecting is the controller with a member that connects, and its sessions.
type connecting struct {
	*WithT
	*connections
	placed   []*v1alpha1.VDISession
	reported map[types.NamespacedName]bool
	enqueued map[string]bool
}

func newConnecting(t *testing.T) *connecting {
	h := &connecting{WithT: NewWithT(t), enqueued: map[string]bool{}, reported: map[types.NamespacedName]bool{}}
	h.connections = newConnections(&Reconciler{
		Fleet: &unnamed{reported: h.reported}, Departures: &Departures{}, Sessions: enqueued{by: h.enqueued},
	}, workqueue.NewTyped[mcreconcile.Request]())
	return h
}

// add adds a settled session with changes, which the member may report.
func (h *connecting) add(name string, reports bool, changes ...func(*v1alpha1.VDISession)) {
	s := sessiontest.With(append([]func(*v1alpha1.VDISession){sessiontest.Ready, func(s *v1alpha1.VDISession) {
		s.Name, s.UID, s.Status.Phase = name, types.UID("uid-"+name), v1alpha1.PhaseRunning
	}}, changes...)...)
	h.placed = append(h.placed, s)
	if reports {
		h.reported[KeyOf(s)] = true
	}
}

// connects reports that the member has connected.
func (h *connecting) connects() {
	h.Cached = index.Of(h.placed...)
	h.enqueueMember("name-of-uid-here")
}

// taken returns the names of the sessions that were enqueued since the last call.
func (h *connecting) taken() []string {
	names := slices.Sorted(maps.Keys(h.enqueued))
	clear(h.enqueued)
	return names
}

// requests returns the readable names of the assignments that were enqueued since the last call.
func (h *connecting) requests() []string {
	var names []string
	for h.queue.Len() > 0 {
		r, _ := h.queue.Get()
		h.queue.Done(r)
		names = append(names, v1alpha1.ReadablePart(r.Name))
	}
	slices.Sort(names)
	return names
}

// enqueued are the sessions that the session controller is to reconcile.
type enqueued struct {
	Sessions
	by map[string]bool
}

func (e enqueued) Enqueue(session types.NamespacedName) { e.by[session.Name] = true }

// unnamed knows no member by its name, but what it reports.
type unnamed struct {
	members
	reported map[types.NamespacedName]bool
}

func (u *unnamed) Reported(string) map[types.NamespacedName]bool { return maps.Clone(u.reported) }

func (*unnamed) RefOf(string) (v1alpha1.ClusterRef, bool) { return v1alpha1.ClusterRef{}, false }
