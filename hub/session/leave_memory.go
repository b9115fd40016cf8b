package session

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/member"
	"github.com/vdi-fleet/vdi-fleet/hub/scheduling"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
)

// leaves remembers who leaves the members that are drained, and what sessions
// were asked to leave. It is rebuilt from the sessions' statuses.
type leaves struct {
	mu sync.Mutex
	// of each member that is drained.
	of map[types.UID]*exodus
}

type leftMember struct {
	member types.UID
	until  time.Time
}

// wasLeft is why a session is not sent back to a member that it was to leave.
const wasLeft = "Moved: it was asked to leave that member"

// changeExodus changes what is known of a member's draining, tells the fleet of
// it, and calls those whose turn it is then.
func (r *Reconciler) changeExodus(member types.UID, change func(*exodus)) {
	v := &r.leaves
	v.mu.Lock()
	e := v.of[member]
	if e == nil {
		v.mu.Unlock()
		return
	}
	change(e)
	counts, next := e.counts(), e.next()
	v.mu.Unlock()
	r.Fleet.ShowDrain(member, counts)
	scheduling.Requeued(scheduling.EventDrain, len(next))
	for _, item := range next {
		r.feed.add(item)
	}
}

// drained begins, or goes on with, what is known of a member's draining. A leader
// that is new to it learns from the statuses which sessions are on the move. What
// they do not tell is where those came from that have been rescheduled since:
// so all count that were given a place since the draining began, in any member,
// and do not run yet. That may be too many, never too few: the member's health
// says that its agent has spoken to this leader, and by then the hub's cache has
// what an earlier one wrote.
func (r *Reconciler) drained(ctx context.Context, member types.UID, d member.Drain) error {
	v := &r.leaves
	v.mu.Lock()
	defer v.mu.Unlock()
	if e := v.of[member]; e != nil {
		e.most = d.MaxUnavailable
		return nil
	}
	list := &v1alpha1.VDISessionList{}
	if err := r.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("looking who leaves a member that is drained: %w", err)
	}
	e := newExodus()
	e.most = d.MaxUnavailable
	for i := range list.Items {
		s := &list.Items[i]
		if epoch := mayHaveLeft(s, member, d.StartTime); epoch > 0 {
			e.moved(s.UID, leaver{item: requestFor(s), epoch: epoch})
		}
	}
	if v.of == nil {
		v.of = map[types.UID]*exodus{}
	}
	v.of[member] = e
	return nil
}

// mayHaveLeft is the epoch under which a session may have been given up in a
// member since its draining began, and does not run elsewhere yet; 0: it was not.
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

// scheduledSince is whether a session has lost its place since a time.
func scheduledSince(s *v1alpha1.VDISession, since time.Time) bool {
	c := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionScheduled)
	return c == nil || !c.LastTransitionTime.Time.Before(since)
}

// settledElsewhere is whether a session that was given up where it was is not on
// the move any more: it runs, or is not to run at all.
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

// seeLeaver takes a session as the hub's cache shows it: one that runs elsewhere
// makes room for the next.
func (r *Reconciler) seeLeaver(s *v1alpha1.VDISession, gone bool) {
	r.leaves.mu.Lock()
	var members []types.UID
	for member, e := range r.leaves.of {
		if l, ok := e.sessions[s.UID]; ok && (gone || !s.DeletionTimestamp.IsZero() || isOut(l, s, member)) {
			members = append(members, member)
		}
	}
	r.leaves.mu.Unlock()
	for _, member := range members {
		r.changeExodus(member, func(e *exodus) { e.drop(s.UID) })
	}
}

// isOut is whether a session concerns a member's draining no more. A view from
// before it was given up says nothing.
func isOut(l leaver, s *v1alpha1.VDISession, member types.UID) bool {
	at := s.Status.Placement
	there := at != nil && at.ClusterUID == member && at.Epoch <= l.epoch
	if l.stage != leaveMoving {
		return !there
	}
	return !there && (at == nil || at.Epoch > l.epoch) && settledElsewhere(s)
}

// callOff forgets a member's draining.
func (v *leaves) callOff(member types.UID) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.of, member)
}
