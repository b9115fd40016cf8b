package session

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/member"
	"github.com/vdi-fleet/vdi-fleet/hub/session/sessiontest"
)

// drainage is the draining of a fleet's one member; nil: there is none.
type drainage struct {
	drain  *member.Drain
	counts member.DrainCounts
}

func (d *drainage) DrainOf(uid types.UID) (member.Drain, bool) {
	if d.drain == nil || uid != sessiontest.Here {
		return member.Drain{}, false
	}
	return *d.drain, true
}

func (d *drainage) ShowDrain(_ types.UID, counts member.DrainCounts) { d.counts = counts }

// drainedInMemory is a hub whose session runs in "eu", which is drained, and has
// room in "us".
func drainedInMemory(t *testing.T, change ...func(*v1alpha1.VDISession)) (*hubInMemory, *clocktesting.FakePassiveClock) {
	t.Helper()
	h, clock := placedInMemory(t)
	clock.SetTime(clock.Now().Add(time.Hour))
	h.fleet.other = true
	h.fleet.drain = &member.Drain{StartTime: clock.Now(), MaxUnavailable: 1}
	h.edit(func(s *v1alpha1.VDISession) {
		s.Status.StartTime = s.Status.RunningSince.DeepCopy()
		for _, f := range change {
			f(s)
		}
	})
	return h, clock
}

func idle(s *v1alpha1.VDISession) {
	at := metav1.NewTime(sessiontest.Now.Truncate(time.Second))
	s.Status.IdleSince = &at
}

func TestIdleSessionLeavesAMemberThatIsDrainedAtOnce(t *testing.T) {
	h, _ := drainedInMemory(t, idle)
	s := h.pass()
	h.Expect(s.Status.Placement).To(BeNil())
	h.Expect(s.Status.Releasing).To(HaveExactElements(And(HaveField("ClusterUID", sessiontest.Here), HaveField("Epoch", int64(1)))))
	h.Expect(s.Status.IdleSince).To(BeNil())
	h.Expect(h.heard()).To(Equal([]string{v1alpha1.EventMoved}))
	h.Expect(h.fleet.placed).To(Equal([]int64{2}), "room elsewhere first")
	h.Expect(h.fleet.released).To(BeZero(), "and it is kept")
	h.Expect(h.fleet.refused).To(HaveKeyWithValue(sessiontest.Here, ContainSubstring("drained")))
	h.Expect(h.fleet.counts).To(Equal(member.DrainCounts{Moving: 1}))

	h.edit(func(s *v1alpha1.VDISession) { s.Status.Releasing = nil })
	s = h.pass()
	h.Expect(s.Status.Placement.ClusterName).To(Equal("us"))
	h.seeLeaver(s, false)
	h.Expect(h.fleet.counts).To(Equal(member.DrainCounts{Moving: 1}), "it does not run there yet")
	h.edit(func(s *v1alpha1.VDISession) {
		at := s.Status.Placement
		sessiontest.Ready(s)
		s.Status.Placement = at
	})
	h.pass()
	h.seeLeaver(h.stored(), false)
	h.Expect(h.fleet.counts).To(BeZero())
}

func TestSessionInUseIsToldOfTheDrainAndLeavesAtTheDeadline(t *testing.T) {
	h, clock := drainedInMemory(t)
	h.fleet.drain.Deadline = clock.Now().Add(time.Hour)
	result, err := h.reconcile()
	h.Expect(err).NotTo(HaveOccurred())
	h.Expect(result.RequeueAfter).To(Equal(time.Hour))
	s := h.pass()
	h.Expect(s.Status.Phase).To(Equal(v1alpha1.PhaseRunning))
	h.Expect(h.says(v1alpha1.ConditionScheduled)).To(And(HavePrefix("True/Draining: eu is being drained"),
		ContainSubstring(h.fleet.drain.Deadline.UTC().Format(time.RFC3339)), ContainSubstring("save your work")))
	h.Expect(h.heard()).To(Equal([]string{v1alpha1.EventDraining}))
	h.Expect(h.fleet.counts).To(Equal(member.DrainCounts{InUse: 1}))
	h.Expect(h.fleet.placed).To(BeEmpty())

	h.fleet.drain.Deadline = clock.Now().Add(2 * time.Hour)
	h.later(clock, time.Hour)
	h.Expect(h.stored().Status.Placement).NotTo(BeNil(), "it has been put off")
	h.Expect(h.heard()).To(BeEmpty(), "told once")
	s = h.later(clock, time.Hour)
	h.Expect(s.Status.Placement).To(BeNil())
	h.Expect(h.heard()).To(Equal([]string{v1alpha1.EventMoved}))
}

func TestSessionInUseIsNeverForcedOutWithoutADeadline(t *testing.T) {
	h, clock := drainedInMemory(t)
	for range 5 {
		h.Expect(h.later(clock, 1000*time.Hour).Status.Placement).NotTo(BeNil())
	}
	h.edit(idle)
	h.Expect(h.pass().Status.Placement).To(BeNil(), "but leaves when nobody uses it")
}

func TestSessionThatDoesNotRunLeavesAMemberThatIsDrained(t *testing.T) {
	h, _ := drainedInMemory(t, suspended)
	h.fleet.nowhere = true
	s := h.pass()
	h.Expect(s.Status.Placement).To(BeNil(), "it needs no room")
	h.Expect(h.fleet.counts).To(BeZero(), "and is nobody's loss")
	h.Expect(h.heard()).To(Equal([]string{v1alpha1.EventSuspended, v1alpha1.EventMoved, v1alpha1.EventWaiting}))
	h.Expect(s.Status.Releasing).To(HaveLen(1))
	h.edit(func(s *v1alpha1.VDISession) { s.Status.Releasing = nil })
	h.pass()
	h.Expect(h.says(v1alpha1.ConditionScheduled)).To(HavePrefix("False/Suspended"))
}

func TestSessionStaysInAMemberThatIsDrained(t *testing.T) {
	for _, c := range []struct {
		name   string
		why    func(*hubInMemory)
		counts member.DrainCounts
		says   string
	}{
		{"where its home is", func(h *hubInMemory) {
			h.edit(func(s *v1alpha1.VDISession) {
				s.Status.Home = &v1alpha1.SessionHome{ClusterName: "eu", ClusterUID: sessiontest.Here, ClaimName: "c"}
			})
		}, member.DrainCounts{Homes: 1}, "its home is there"},
		{"while no other member takes it", func(h *hubInMemory) { h.fleet.nowhere = true }, member.DrainCounts{NoRoom: 1}, "2 clusters: 2 lack cpu"},
		{"where it has failed", func(h *hubInMemory) { h.edit(hasFailed) }, member.DrainCounts{Failed: 1}, "spec.attempt"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, clock := drainedInMemory(t, idle)
			c.why(h)
			h.fleet.drain.Deadline = clock.Now()
			for range 3 {
				h.Expect(h.later(clock, time.Hour).Status.Placement).NotTo(BeNil())
			}
			h.Expect(h.fleet.counts).To(Equal(c.counts))
			h.Expect(h.says(v1alpha1.ConditionScheduled)).To(And(HavePrefix("True/Draining: eu is being drained"), ContainSubstring(c.says)))
			h.Expect(h.heard()).To(ContainElement(v1alpha1.EventDraining))
		})
	}
}

func TestSessionThatFindsNoRoomElsewhereIsAmongThoseThatWait(t *testing.T) {
	h, _ := drainedInMemory(t, idle)
	h.fleet.nowhere = true
	h.pass()
	reasons, _ := h.scheduler.Waiting()
	h.Expect(reasons).To(Equal(map[string]int{v1alpha1.ReasonDraining: 1}))
	h.fleet.nowhere = false
	h.Expect(h.pass().Status.Placement).To(BeNil())
}

func TestDrainOfAMemberThatIsAwayWaits(t *testing.T) {
	h, _ := drainedInMemory(t, idle)
	h.fleet.away = true
	h.Expect(h.pass().Status.Placement).NotTo(BeNil())
	h.Expect(h.fleet.placed).To(BeEmpty())
}

func TestDrainThatIsCalledOff(t *testing.T) {
	h, _ := drainedInMemory(t)
	h.pass()
	h.heard()
	h.fleet.drain = nil
	h.edit(idle)
	s := h.pass()
	h.Expect(s.Status.Placement.ClusterName).To(Equal("eu"))
	h.Expect(h.says(v1alpha1.ConditionScheduled)).To(HavePrefix("True/Placed: eu: it is placed there, and is not drained any more"))
	h.Expect(h.heard()).To(Equal([]string{v1alpha1.EventDraining}))
	h.Expect(h.leaves.of).To(BeEmpty())
}

func TestGivingUpThatIsNotWrittenIsTriedAgain(t *testing.T) {
	h, _ := drainedInMemory(t, idle)
	h.answer = fmt.Errorf("no")
	_, err := h.reconcile()
	h.Expect(err).To(HaveOccurred())
	h.Expect(h.fleet.counts).To(Equal(member.DrainCounts{Moving: 1}), "nobody knows whether it was")
	h.answer = nil
	h.Expect(h.pass().Status.Placement).To(BeNil())
	h.Expect(h.fleet.counts).To(Equal(member.DrainCounts{Moving: 1}))
}

func TestNewLeaderCountsThoseThatAnEarlierOneHasSent(t *testing.T) {
	since := sessiontest.Now.Truncate(time.Second)
	at := func(cluster types.UID, epoch int64, placed time.Time) func(*v1alpha1.VDISession) {
		return func(s *v1alpha1.VDISession) {
			s.Status.Epoch = epoch
			s.Status.Placement = &v1alpha1.Placement{ClusterUID: cluster, Epoch: epoch, Run: 1, PlacementTime: metav1.NewTime(placed)}
		}
	}
	for _, c := range []struct {
		name   string
		change func(*v1alpha1.VDISession)
		want   int64
	}{
		{"still stopping there", func(s *v1alpha1.VDISession) {
			s.Status.Placement, s.Status.Releasing = nil, []v1alpha1.Release{{ClusterUID: sessiontest.Here, Epoch: 4}}
		}, 4},
		{"superseded there", func(s *v1alpha1.VDISession) {
			s.Status.Placement, s.Status.Releasing = nil, []v1alpha1.Release{{ClusterUID: sessiontest.Here, Epoch: 4, Superseded: true}}
		}, 0},
		{"stopped, and not placed yet", func(s *v1alpha1.VDISession) { s.Status.Placement, s.Status.Epoch = nil, 4 }, 4},
		{"placed elsewhere, and not running yet", at(sessiontest.Elsewhere, 5, since), 4},
		{"placed elsewhere before", at(sessiontest.Elsewhere, 5, since.Add(-time.Second)), 0},
		{"placed elsewhere for the first time", at(sessiontest.Elsewhere, 1, since), 0},
		{"placed there still", at(sessiontest.Here, 5, since), 0},
		{"running elsewhere", func(s *v1alpha1.VDISession) {
			at(sessiontest.Elsewhere, 5, since)(s)
			s.Status.Phase = v1alpha1.PhaseRunning
		}, 0},
		{"suspended", func(s *v1alpha1.VDISession) { s.Status.Placement, s.Status.Epoch = nil, 4; suspended(s) }, 0},
	} {
		s := sessiontest.With()
		s.Status.Phase = v1alpha1.PhaseCreating
		c.change(s)
		if got := mayHaveLeft(s, sessiontest.Here, since); got != c.want {
			t.Errorf("%s: epoch %d, want %d", c.name, got, c.want)
		}
	}
}

// Whatever sessions do, and in whatever order their turns come, no more are on
// the move than are allowed, those in use never go before those that are idle,
// and in the end everybody has gone.
func TestNoMoreSessionsAreOnTheMoveThanAreAllowed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := newExodus()
		e.most = rapid.IntRange(1, 4).Draw(t, "most")
		count := rapid.IntRange(1, 12).Draw(t, "sessions")
		there, moving := map[types.UID]leaver{}, map[types.UID]bool{}
		for i := range count {
			uid := types.UID(fmt.Sprint(i))
			there[uid] = leaver{item: requestOfUID(uid), epoch: 1, used: rapid.Bool().Draw(t, "used")}
		}
		turn := func(uid types.UID) {
			l := there[uid]
			idleWait := false
			for other, o := range e.sessions {
				idleWait = idleWait || other != uid && o.stage == leaveWaits && !o.used
			}
			if !e.leave(uid, l) {
				return
			}
			if l.used && idleWait {
				t.Fatalf("%s is in use, and goes before one that is idle", uid)
			}
			if rapid.IntRange(0, 4).Draw(t, "no room") == 0 {
				l.stage = leaveNoRoom
				e.note(uid, l)
				return
			}
			delete(there, uid)
			moving[uid] = true
		}
		arrive := func(uid types.UID) {
			delete(moving, uid)
			e.drop(uid)
		}
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			uid := types.UID(fmt.Sprint(rapid.IntRange(0, count-1).Draw(t, "session")))
			switch {
			case moving[uid]:
				arrive(uid)
			case there[uid].epoch > 0:
				turn(uid)
			}
			if len(moving) > e.most || len(moving) != e.moving() {
				t.Fatalf("%d are on the move (%d are counted), %d are allowed", len(moving), e.moving(), e.most)
			}
		}
		for range 1000 * count {
			for uid := range moving {
				arrive(uid)
			}
			for uid, l := range there {
				if e.sessions[uid].stage != leaveWaits || e.sessions[uid].epoch == 0 {
					there[uid] = l
					turn(uid) // it is new, or room has come
				}
			}
			for _, item := range e.next() {
				if uid := types.UID(item.Name); there[uid].epoch > 0 {
					turn(uid)
				}
			}
			if len(moving) > e.most {
				t.Fatalf("%d are on the move, %d are allowed", len(moving), e.most)
			}
		}
		if len(there) > 0 {
			t.Fatalf("%d never left", len(there))
		}
	})
}

func requestOfUID(uid types.UID) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Name: string(uid)}}
}
