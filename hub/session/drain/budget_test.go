package drain

import (
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/sessiontest"
)

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
		{"suspended", func(s *v1alpha1.VDISession) {
			s.Status.Placement, s.Status.Epoch = nil, 4
			s.Spec.OperatingMode = v1alpha1.ModeSuspended
		}, 0},
	} {
		s := sessiontest.With()
		s.Status.Phase = v1alpha1.PhaseCreating
		c.change(s)
		if got := mayHaveLeft(s, sessiontest.Here, since); got != c.want {
			t.Errorf("%s: epoch %d, want %d", c.name, got, c.want)
		}
	}
}

// In every order of events and reconciles, no more sessions are moving than are
// allowed, sessions in use never move before idle ones, and in the end all have been
// moved.
func TestEvictedSessionsNeverExceedTheDrainBudget(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := &budget{limit: rapid.IntRange(1, 4).Draw(t, "limit"), sessions: map[types.UID]Session{}}
		count := rapid.IntRange(1, 12).Draw(t, "sessions")
		there, moving := map[types.UID]Session{}, map[types.UID]bool{}
		for i := range count {
			uid := types.UID(fmt.Sprint(i))
			there[uid] = Session{Key: types.NamespacedName{Name: string(uid)}, Epoch: 1, InUse: rapid.Bool().Draw(t, "used")}
		}
		allowed := func(uid types.UID) {
			l := there[uid]
			idleWait := false
			for other, o := range b.sessions {
				idleWait = idleWait || other != uid && o.Stage == Waiting && !o.InUse
			}
			if !b.evict(uid, l) {
				return
			}
			if l.InUse && idleWait {
				t.Fatalf("%s is in use, and goes before one that is idle", uid)
			}
			if rapid.IntRange(0, 4).Draw(t, "no capacity") == 0 {
				l.Stage = NoCapacity
				b.sessions[uid] = l
				return
			}
			delete(there, uid)
			moving[uid] = true
		}
		arrive := func(uid types.UID) {
			delete(moving, uid)
			delete(b.sessions, uid)
		}
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			uid := types.UID(fmt.Sprint(rapid.IntRange(0, count-1).Draw(t, "session")))
			switch {
			case moving[uid]:
				arrive(uid)
			case there[uid].Epoch > 0:
				allowed(uid)
			}
			if len(moving) > b.limit || len(moving) != b.moving() {
				t.Fatalf("%d are moving (%d are counted), %d are allowed", len(moving), b.moving(), b.limit)
			}
		}
		for range 1000 * count {
			for uid := range moving {
				arrive(uid)
			}
			for uid, l := range there {
				if b.sessions[uid].Stage != Waiting || b.sessions[uid].Epoch == 0 {
					there[uid] = l
					allowed(uid) // it is new, or there is capacity now
				}
			}
			for _, item := range b.next() {
				if uid := types.UID(item.Name); there[uid].Epoch > 0 {
					allowed(uid)
				}
			}
			if len(moving) > b.limit {
				t.Fatalf("%d are moving, %d are allowed", len(moving), b.limit)
			}
		}
		if len(there) > 0 {
			t.Fatalf("%d never left", len(there))
		}
	})
}

// Two sessions may begin the drain of their member at once: the second keeps what the first
// has recorded, or that would never move, or too many would.
func TestADrainThatHasBegunKeepsItsSessions(t *testing.T) {
	session := func(name string) Session {
		return Session{Key: types.NamespacedName{Name: name}, Epoch: 1}
	}
	drains := &Tracker{}
	drains.Begin(sessiontest.Here, 1, sessiontest.Now, slices.Values[[]*v1alpha1.VDISession](nil))
	if allowed, _ := drains.Evict(sessiontest.Here, "a", session("a")); !allowed {
		t.Error("a may not move")
	}
	if allowed, _ := drains.Evict(sessiontest.Here, "b", session("b")); allowed {
		t.Error("b may move beside a")
	}
	drains.Begin(sessiontest.Here, 1, sessiontest.Now, slices.Values[[]*v1alpha1.VDISession](nil))
	if allowed, update := drains.Evict(sessiontest.Here, "c", session("c")); allowed || update.Counts != (v1alpha1.DrainStatus{Moving: 1, Waiting: 2}) {
		t.Errorf("c may move: %v; %+v", allowed, update.Counts)
	}
	if update := drains.Drop(sessiontest.Here, "a"); len(update.Next) != 1 {
		t.Errorf("%d may move after a, want one", len(update.Next))
	}
}
