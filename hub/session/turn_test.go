package session

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/session/sessiontest"
)

// inLine is a session that waits for a place.
func inLine(namespace, name, user string, priority int32) *v1alpha1.VDISession {
	s := &v1alpha1.VDISession{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, CreationTimestamp: metav1.NewTime(sessiontest.Now)}}
	s.Spec.User, s.Spec.Placement.Priority = user, priority
	return s
}

// queued are the turns and a workqueue in their order that holds the sessions.
func queued(t *testing.T, sessions ...*v1alpha1.VDISession) (*turns, workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	t.Helper()
	turns := newTurns(clocktesting.NewFakeClock(sessiontest.Now))
	q := turns.workqueue("", workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	t.Cleanup(q.ShutDown)
	for _, s := range sessions {
		turns.ranked().Create(event.CreateEvent{Object: s})
		q.Add(requestFor(s))
	}
	return turns, q
}

func TestWorkersTakeSessionsUpInTheirOrder(t *testing.T) {
	runs := inLine("a", "runs", "ann", 1000)
	runs.Status.Placement = &v1alpha1.Placement{ClusterName: "eu"}
	turns, q := queued(t,
		inLine("a", "a1", "ann", 0), inLine("a", "a2", "ann", 0), inLine("b", "b1", "ben", 0), inLine("a", "high", "ann", 1), runs)
	var got []string
	for q.Len() > 0 {
		req, _ := q.Get()
		got = append(got, req.Name)
		turns.over(req)
		q.Done(req)
	}
	if want := []string{"runs", "high", "a1", "b1", "a2"}; !slices.Equal(got, want) {
		t.Errorf("order %v, want %v", got, want)
	}
}

func TestSessionThatIsQueuedMovesWithItsPriority(t *testing.T) {
	first, last := inLine("a", "first", "ann", 0), inLine("a", "last", "ann", 0)
	turns, q := queued(t, first, last)
	raised := last.DeepCopy()
	raised.Spec.Placement.Priority = 5
	turns.ranked().Update(event.UpdateEvent{ObjectOld: last, ObjectNew: raised})
	q.Add(requestFor(raised))
	if req, _ := q.Get(); req.Name != "last" {
		t.Errorf("%s is first, want the one whose priority was raised", req.Name)
	}
}

func TestWhoWantsAPlace(t *testing.T) {
	now := metav1.NewTime(sessiontest.Now)
	for _, c := range []struct {
		name   string
		change func(*v1alpha1.VDISession)
		want   bool
	}{
		{"new", func(*v1alpha1.VDISession) {}, true},
		{"being deleted", func(s *v1alpha1.VDISession) { s.DeletionTimestamp = &now }, false},
		{"suspended", func(s *v1alpha1.VDISession) { s.Spec.OperatingMode = v1alpha1.ModeSuspended }, false},
		{"stopping elsewhere", func(s *v1alpha1.VDISession) { s.Status.Releasing = []v1alpha1.Release{{ClusterUID: sessiontest.Here}} }, false},
		{"placed", func(s *v1alpha1.VDISession) { s.Status.Placement = &v1alpha1.Placement{} }, false},
		{"idle, to run again", func(s *v1alpha1.VDISession) { s.Status.Placement = &v1alpha1.Placement{Idle: true} }, true},
		{"idle and given up", func(s *v1alpha1.VDISession) {
			s.Status.Placement = &v1alpha1.Placement{Idle: true}
			s.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionProgressing, Status: metav1.ConditionFalse}}
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := inLine("a", "s", "ann", 0)
			c.change(s)
			if got := rankOf(s).Waits; got != c.want {
				t.Errorf("wants a place: %v, want %v", got, c.want)
			}
		})
	}
}

func TestAgeIsSinceThePlaceWasLost(t *testing.T) {
	s := inLine("a", "s", "ann", 0)
	lost := metav1.NewTime(sessiontest.Now.Add(time.Hour))
	s.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionScheduled, Status: metav1.ConditionFalse, LastTransitionTime: lost}}
	if got := waitsSince(s); !got.Equal(sessiontest.Now) {
		t.Errorf("one that never had a place waits since %s, want its creation", got)
	}
	s.Status.Epoch = 1
	if got := waitsSince(s); !got.Equal(lost.Time) {
		t.Errorf("one that had a place waits since %s, want %s", got, lost)
	}
}

func TestDecisionsAreMadeInTheOrderOfTheTurns(t *testing.T) {
	const sessions = 40
	var all []*v1alpha1.VDISession
	for i := range sessions {
		all = append(all, inLine("a", fmt.Sprintf("s%02d", i), "ann", int32(sessions-i)))
	}
	turns, q := queued(t, all...)
	r := &Reconciler{Clock: clocktesting.NewFakeClock(sessiontest.Now)}
	r.lines.once.Do(func() { r.lines.turns, r.lines.waiting, r.lines.news = turns, newWaiting(), newNews() })
	var mu sync.Mutex
	var got, want []string
	var workers, begun sync.WaitGroup
	begun.Add(8)
	q.ShutDown() // what is queued is still handed out, and then nobody waits for more
	for range 8 {
		workers.Go(func() {
			first := true
			for {
				req, over := q.Get()
				if over {
					return
				}
				if first {
					first = false
					begun.Done()
					begun.Wait() // all have one in hand
				}
				s := &v1alpha1.VDISession{ObjectMeta: metav1.ObjectMeta{Namespace: req.Namespace, Name: req.Name}}
				turns.wait(context.Background(), req)
				mu.Lock()
				got = append(got, s.Name)
				mu.Unlock()
				turns.decided(req)
				turns.over(req)
				q.Done(req)
			}
		})
	}
	workers.Wait()
	for _, s := range all {
		want = append(want, s.Name)
	}
	if !slices.Equal(got, want) {
		t.Errorf("decided in order\n%v, want\n%v", got, want)
	}
}

func TestDecisionWaitsForThoseBeforeItAlone(t *testing.T) {
	g := NewWithT(t)
	a, b, c := inLine("a", "a", "u", 3), inLine("a", "b", "u", 2), inLine("a", "c", "u", 1)
	turns, q := queued(t, a, b, c)
	for range 3 {
		q.Get()
	}
	first := func(s *v1alpha1.VDISession) bool {
		_, first := turns.isFirst(requestFor(s))
		return first
	}
	g.Expect(first(a)).To(BeTrue())
	g.Expect(first(b)).To(BeFalse())
	turns.decided(requestFor(a))
	g.Expect(first(b)).To(BeTrue(), "a has decided, though its turn goes on")
	g.Expect(first(c)).To(BeFalse())
	turns.over(requestFor(b))
	g.Expect(first(c)).To(BeTrue(), "b's turn is over without a decision")
	g.Expect(first(inLine("a", "none", "u", 0))).To(BeTrue(), "one that waits for no place waits for nobody")
}

func TestDecisionIsNotHeldUpForEver(t *testing.T) {
	hangs, next, after := inLine("a", "hangs", "u", 2), inLine("a", "next", "u", 1), inLine("a", "after", "u", 0)
	turns, q := queued(t, hangs, next, after)
	for range 3 {
		q.Get()
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	turns.wait(ctx, requestFor(next)) // a hub that stops waits for nobody
	if _, first := turns.isFirst(requestFor(next)); first {
		t.Fatal("the turn before is past its decision: nothing is waited for")
	}
	turns.wait(t.Context(), requestFor(next)) // the test's own time limit says if it never returns
	turns.decided(requestFor(next))
	if _, first := turns.isFirst(requestFor(after)); !first {
		t.Error("what hangs is waited for again")
	}
}

func TestTurnThatCameToAPlaceIsCharged(t *testing.T) {
	turns, q := queued(t, inLine("a", "a", "u", 0), inLine("b", "b", "u", 0))
	take := func() reconcile.Request {
		req, _ := q.Get()
		return req
	}
	one, two := take(), take()
	turns.served(one)
	for _, req := range []reconcile.Request{one, two} {
		turns.over(req)
		q.Done(req)
	}
	q.Add(one)
	q.Add(two)
	if got := take(); got != two {
		t.Errorf("%s is first, want %s, which got nothing", got, two)
	}
}
