package session

import (
	"context"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/bulk"
	"github.com/vdi-fleet/vdi-fleet/hub/scheduling"
	"github.com/vdi-fleet/vdi-fleet/hub/session/index"
	"github.com/vdi-fleet/vdi-fleet/test/sessiontest"
)

// The sessions of a member whose health has changed are reconciled at a limited rate, unless something
// may be left to do for them, or the member is lost.
func TestSettledSessionsDelayNothing(t *testing.T) {
	g := NewWithT(t)
	settled := func(name string, changes ...func(*v1alpha1.VDISession)) *v1alpha1.VDISession {
		return sessiontest.With(append([]func(*v1alpha1.VDISession){sessiontest.Ready, func(s *v1alpha1.VDISession) {
			s.Name, s.Status.Phase = name, v1alpha1.PhaseRunning
		}}, changes...)...)
	}
	placed := index.Of(settled("runs"), settled("runs-too"), settled("edited", func(s *v1alpha1.VDISession) { s.Generation++ }))
	for lost, atOnce := range map[bool][]string{false: {"edited"}, true: {"edited", "runs", "runs-too"}} {
		w := newWatches(t, &Reconciler{Cached: placed, Fleet: &oneMember{away: lost}})
		w.enqueueMember("name-of-uid-here", w.queue)
		g.Expect(w.taken()).To(ConsistOf(atOnce), "lost: %v", lost)
		w.passSettled(g)
		g.Expect(w.taken()).To(HaveLen(3-len(atOnce)), "lost: %v", lost)
	}
}

// A new leader lists all sessions. New ones do not wait behind those that are settled.
func TestSettledSessionsOfTheFirstListDelayNothing(t *testing.T) {
	g := NewWithT(t)
	runs := sessiontest.With(sessiontest.Ready, func(s *v1alpha1.VDISession) { s.Name, s.Status.Phase = "runs", v1alpha1.PhaseRunning })
	starts := sessiontest.With(sessiontest.Created, func(s *v1alpha1.VDISession) { s.Name, s.Status.Phase = "starts", v1alpha1.PhaseCreating })
	w := newWatches(t, &Reconciler{Cached: index.Of(runs, starts)})
	for _, s := range []*v1alpha1.VDISession{runs, starts} {
		w.sessions().Create(t.Context(), event.CreateEvent{Object: s, IsInInitialList: true}, w.queue)
	}
	g.Expect(w.taken()).To(ConsistOf("starts"))
	w.passSettled(g)
	g.Expect(w.taken()).To(ConsistOf("runs"))

	w.sessions().Update(t.Context(), event.UpdateEvent{ObjectOld: runs, ObjectNew: runs}, w.queue)
	g.Expect(w.taken()).To(ConsistOf("runs"), "an update does not wait")
	w.sessions().Create(t.Context(), event.CreateEvent{Object: runs}, w.queue)
	g.Expect(w.taken()).To(ConsistOf("runs"), "one that is not in the list does not wait")
}

// A user does not wait until all sessions of a lost member are reconciled, nor all that wait for capacity.
func TestASessionThatStartsDoesNotWaitBehindOthers(t *testing.T) {
	g := NewWithT(t)
	named := func(name string, phase v1alpha1.SessionPhase) *v1alpha1.VDISession {
		return sessiontest.With(sessiontest.Ready, func(s *v1alpha1.VDISession) { s.Name, s.Status.Phase = name, phase })
	}
	fresh := sessiontest.With(func(s *v1alpha1.VDISession) { s.Name = "fresh" })
	deleted := sessiontest.With(sessiontest.Deleted, func(s *v1alpha1.VDISession) { s.Name, s.Status.Phase = "deleted", v1alpha1.PhasePending })
	waits := sessiontest.With(func(s *v1alpha1.VDISession) {
		s.Name, s.Status.Phase = "waits", v1alpha1.PhasePending
		s.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionScheduled, Status: metav1.ConditionFalse}}
	})
	w := newWatches(t, &Reconciler{Cached: index.Of(waits, named("one", v1alpha1.PhaseRunning), named("two", v1alpha1.PhaseRunning),
		named("three", v1alpha1.PhaseFailed), deleted, fresh, named("starts", v1alpha1.PhaseCreating), named("moves", v1alpha1.PhaseRunning))})
	w.Scheduler = answering{sessions: []string{"moves"}}
	for _, name := range []string{"waits", "one", "two", "three", "deleted", "gone", "fresh", "starts", "moves"} {
		w.queue.Add(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: fresh.Namespace, Name: name}})
	}
	g.Expect(w.taken()).To(Equal([]string{"fresh", "waits", "starts", "one", "moves", "two", "three", "deleted", "gone"}), "nor does one for which the scheduler has an answer")
}

// answering is a scheduler that has answers for some sessions.
type answering struct {
	Scheduler
	sessions []string
}

func (a answering) Answered(session types.NamespacedName) bool {
	return slices.Contains(a.sessions, session.Name)
}

// watched are the watches of the controller, with its queue.
type watched struct {
	watches
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]
}

func newWatches(t *testing.T, r *Reconciler) watched {
	r.settled = bulk.NewFeed[reconcile.Request]()
	r.Scheduler = answering{}
	w := watched{watches: watches{r}}
	options := w.options()
	w.queue = options.NewQueue("", options.RateLimiter)
	t.Cleanup(w.queue.ShutDown)
	return w
}

// passSettled enqueues the settled sessions that wait.
func (w watched) passSettled(g *WithT) {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	waiting := w.settled.Len()
	g.Expect(w.settled.Start(ctx, w.queue)).To(Succeed())
	g.Eventually(w.queue.Len).Should(Equal(waiting))
}

// taken returns the names of the sessions in the queue, which are then reconciled.
func (w watched) taken() (names []string) {
	for w.queue.Len() > 0 {
		req, _ := w.queue.Get()
		w.queue.Done(req)
		names = append(names, req.Name)
	}
	return names
}

// The scheduler knows whether a session's status shows why no member fits it, so that a new leader does not
// write that again before its members have connected.
func TestRequestOfASessionThatShowsWhyItIsPending(t *testing.T) {
	h := newHubInMemory(t)
	requests := &requests{Scheduler: h.scheduler}
	h.Reconciler.Scheduler = requests
	pending := func(reason string) func(*v1alpha1.VDISession) {
		return func(s *v1alpha1.VDISession) {
			s.Status.Conditions = []metav1.Condition{{
				Type: v1alpha1.ConditionScheduled, Status: metav1.ConditionFalse, Reason: reason, ObservedGeneration: s.Generation,
			}}
		}
	}
	for reason, shown := range map[string]bool{v1alpha1.ReasonUnschedulable: true, v1alpha1.ReasonHomeInUse: false} {
		h.edit(pending(reason))
		_, err := h.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "desktops", Name: "mine"}})
		h.Expect(err).NotTo(HaveOccurred())
		h.Expect(requests.shown).To(HaveEach(shown), reason)
		h.Expect(requests.shown).NotTo(BeEmpty())
		requests.shown = nil
		h.scheduler.Forget(types.NamespacedName{Namespace: "desktops", Name: "mine"})
	}
}

// requests is a scheduler that records what its requests show.
type requests struct {
	Scheduler
	shown []bool
}

func (r *requests) Decide(req *scheduling.Request) (scheduling.Answer, bool) {
	r.shown = append(r.shown, req.Shown)
	return r.Scheduler.Decide(req)
}
