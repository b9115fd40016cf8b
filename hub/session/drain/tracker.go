package drain

import (
	"iter"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
)

// Tracker tracks all members that are drained. The zero value tracks none.
type Tracker struct {
	mu      sync.Mutex
	budgets map[types.UID]*budget
}

// Update is a change of a member's drain.
type Update struct {
	Member types.UID
	// Counts is the progress, without a start time.
	Counts v1alpha1.DrainStatus
	// Next are the sessions that may move now.
	Next []types.NamespacedName
}

// Limit sets how many sessions may be moving at a time. It reports whether the member is
// tracked: if not, Begin has to be called.
func (t *Tracker) Limit(member types.UID, limit int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	b := t.budgets[member]
	if b != nil {
		b.limit = limit
	}
	return b != nil
}

// Begin tracks a member. A leader that takes over a drain reads from the statuses which
// sessions are moving. The status of a session that was rescheduled since does not name its
// former member. Therefore all sessions count that were placed since the drain began, in any
// member, and do not run yet. That may be too many, never too few: the member's agent has
// connected to this leader, and by then the hub's cache has the writes of an earlier one.
// Of a member that is tracked, as another session has begun meanwhile, only the limit is set.
func (t *Tracker) Begin(member types.UID, limit int, since time.Time, sessions iter.Seq[*v1alpha1.VDISession]) {
	b := &budget{limit: limit, sessions: map[types.UID]Session{}}
	for s := range sessions {
		if epoch := mayHaveLeft(s, member, since); epoch > 0 {
			b.sessions[s.UID] = Session{Key: client.ObjectKeyFromObject(s), Stage: Moving, Epoch: epoch}
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.budgets == nil {
		t.budgets = map[types.UID]*budget{}
	}
	if tracked := t.budgets[member]; tracked != nil {
		tracked.limit = limit
		return
	}
	t.budgets[member] = b
}

// End ends the tracking of a member's drain.
func (t *Tracker) End(member types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.budgets, member)
}

// Set records the stage of a session that is still placed in a member.
func (t *Tracker) Set(member, uid types.UID, s Session) Update {
	return t.change(member, func(b *budget) { b.sessions[uid] = s })
}

// Drop removes a session that is no longer in a member and needs no budget.
func (t *Tracker) Drop(member, uid types.UID) Update {
	return t.change(member, func(b *budget) { delete(b.sessions, uid) })
}

// Evict reports whether a session may move out of a member now. If so it is moving, and
// if not it waits. It is idempotent.
func (t *Tracker) Evict(member, uid types.UID, s Session) (allowed bool, u Update) {
	u = t.change(member, func(b *budget) { allowed = b.evict(uid, s) })
	return allowed, u
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

// Observe applies the state of a session in the hub's cache: the budget of one that runs
// elsewhere, or is gone, is free for the next.
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

// hasLeft reports whether a session is no longer part of a member's drain. An object from
// before its placement was released does not show that.
func hasLeft(l Session, s *v1alpha1.VDISession, member types.UID) bool {
	at := s.Status.Placement
	there := at != nil && at.ClusterUID == member && at.Epoch <= l.Epoch
	if l.Stage != Moving {
		return !there
	}
	return !there && (at == nil || at.Epoch > l.Epoch) && settledElsewhere(s)
}

// mayHaveLeft returns the epoch under which a session may have been placed in a member
// since its drain began, if it does not run elsewhere yet, or 0.
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
