package drain

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/member"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
)

// Tracker tracks all members that are drained. The zero value tracks none.
type Tracker struct {
	mu      sync.Mutex
	budgets map[types.UID]*budget
}

// Update is what has changed of a member's draining.
type Update struct {
	Member types.UID
	Counts member.DrainCounts
	// Next are the sessions whose turn has come.
	Next []types.NamespacedName
}

// Limit sets how many sessions may be moving at a time. It reports whether the member is
// tracked: if not, Begin has to be called.
func (t *Tracker) Limit(member types.UID, most int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	b := t.budgets[member]
	if b != nil {
		b.most = most
	}
	return b != nil
}

// Begin tracks a member. A leader that is new to its draining learns from the statuses which
// sessions are moving. What they do not say is where those came from that have been
// rescheduled since: so all count that were placed since the draining began, in any member,
// and do not run yet. That may be too many, never too few: the member's health says that its
// agent has connected to this leader, and by then the hub's cache has what an earlier one
// wrote.
func (t *Tracker) Begin(member types.UID, most int, since time.Time, sessions []v1alpha1.VDISession) {
	b := &budget{most: most, sessions: map[types.UID]Session{}}
	for i := range sessions {
		s := &sessions[i]
		if epoch := mayHaveLeft(s, member, since); epoch > 0 {
			b.sessions[s.UID] = Session{Key: client.ObjectKeyFromObject(s), Stage: Moving, Epoch: epoch}
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.budgets == nil {
		t.budgets = map[types.UID]*budget{}
	}
	t.budgets[member] = b
}

// End forgets a member's draining.
func (t *Tracker) End(member types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.budgets, member)
}

// Set notes the stage of a session that is placed in a member still.
func (t *Tracker) Set(member, uid types.UID, s Session) Update {
	return t.change(member, func(b *budget) { b.sessions[uid] = s })
}

// Drop forgets a session that has left a member without a loss to anybody.
func (t *Tracker) Drop(member, uid types.UID) Update {
	return t.change(member, func(b *budget) { delete(b.sessions, uid) })
}

// Take reports whether it is a session's turn to leave a member. If so it is moving, and if
// not it waits. To ask again changes nothing.
func (t *Tracker) Take(member, uid types.UID, s Session) (turn bool, u Update) {
	u = t.change(member, func(b *budget) { turn = b.take(uid, s) })
	return turn, u
}

func (t *Tracker) change(member types.UID, change func(*budget)) Update {
	t.mu.Lock()
	defer t.mu.Unlock()
	b := t.budgets[member]
	if b == nil {
		return Update{}
	}
	change(b)
	return Update{Member: member, Counts: b.counts(), Next: b.next()}
}

// Observe takes a session as the hub's cache shows it: one that runs elsewhere, or is gone,
// lets the next one go.
func (t *Tracker) Observe(s *v1alpha1.VDISession, gone bool) (updates []Update) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for member, b := range t.budgets {
		if l, ok := b.sessions[s.UID]; ok && (gone || !s.DeletionTimestamp.IsZero() || hasLeft(l, s, member)) {
			delete(b.sessions, s.UID)
			updates = append(updates, Update{Member: member, Counts: b.counts(), Next: b.next()})
		}
	}
	return updates
}

// hasLeft reports whether a session does not concern a member's draining any more. A view
// from before its placement was released says nothing.
func hasLeft(l Session, s *v1alpha1.VDISession, member types.UID) bool {
	at := s.Status.Placement
	there := at != nil && at.ClusterUID == member && at.Epoch <= l.Epoch
	if l.Stage != Moving {
		return !there
	}
	return !there && (at == nil || at.Epoch > l.Epoch) && settledElsewhere(s)
}

// mayHaveLeft returns the epoch under which a session may have been placed in a member since
// its draining began, if it does not run elsewhere yet; 0: it was not.
func mayHaveLeft(s *v1alpha1.VDISession, member types.UID, since time.Time) int64 {
	if settledElsewhere(s) {
		return 0
	}
	for _, x := range s.Status.Releasing {
		if x.ClusterUID == member && !x.Superseded {
			return x.Epoch
		}
	}
	switch at := s.Status.Placement; {
	case at == nil && len(s.Status.Releasing) == 0 && s.Status.Epoch > 0 && scheduledSince(s, since):
		return s.Status.Epoch
	case at != nil && at.ClusterUID != member && at.Epoch > 1 && at.Run <= 1 && !at.PlacementTime.Time.Before(since):
		return at.Epoch - 1
	}
	return 0
}

// scheduledSince reports whether a session has lost its placement since a time.
func scheduledSince(s *v1alpha1.VDISession, since time.Time) bool {
	c := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionScheduled)
	return c == nil || !c.LastTransitionTime.Time.Before(since)
}

// settledElsewhere reports whether a session whose placement was released is not moving any
// more: it runs, or is not to run at all.
func settledElsewhere(s *v1alpha1.VDISession) bool {
	switch {
	case !s.DeletionTimestamp.IsZero(), s.Spec.OperatingMode == v1alpha1.ModeSuspended:
		return true
	case s.Status.Placement != nil:
		return s.Status.Placement.Idle && status.FailedPermanently(s) != nil || s.Status.Phase == v1alpha1.PhaseRunning || s.Status.Phase == v1alpha1.PhaseFailed
	}
	accepted := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionAccepted)
	scheduled := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionScheduled)
	return accepted != nil && accepted.Status == metav1.ConditionFalse ||
		scheduled != nil && scheduled.Reason == v1alpha1.ReasonTimeExpired
}
