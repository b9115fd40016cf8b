package session

import (
	"context"
	"fmt"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/placement"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
)

// A hub whose etcd was restored from a backup has forgotten placements and epochs
// that its members know. Three rules keep it from giving anything twice:
//
//   - While it waits for its members' reports (Fleet.Recovering), nothing is sent to
//     a member but what stops sessions that were given up there or deleted, and
//     nothing is placed.
//   - A copy that a member proves to have been given later than all that the hub
//     knows of becomes the placement: see adopt.
//   - No epoch is given that a hub of before the restore may have given: see
//     nextEpoch. What the hub believes to be placed in a member that holds nothing
//     of it may have ended there, or moved on: it gets a new epoch, wherever it goes.

// Restore is a restore of the hub's etcd from a backup.
type Restore struct {
	// Term that the hub had once the restore was noticed, above all that agents had
	// seen by then; 0: there was none.
	Term int64
	// Time when it was noticed.
	Time time.Time
}

// Restores knows of the hub's restores.
type Restores interface {
	// Last is the hub's last restore.
	Last() Restore
	// Noticed makes durable that a member has proven an epoch that this hub did not
	// give, so that it was restored. It returns at once where that is known.
	Noticed(context.Context) error
}

const (
	// epochsPerTerm is more epochs than a session is given between two restores.
	epochsPerTerm = 1 << 20
	// recoveryPoll is how often what waits for the end of the recovery is looked at.
	recoveryPoll = time.Second
)

// lastGiven is the highest epoch that a hub of before the restore may have given
// to a session; 0: none, since the session was created later.
func (r Restore) lastGiven(s *v1alpha1.VDISession) int64 {
	if r.Term == 0 || !s.CreationTimestamp.Time.Before(r.Time) {
		return 0
	}
	return r.Term * epochsPerTerm
}

func (r *Reconciler) lastRestore() Restore {
	if r.Restores == nil {
		return Restore{}
	}
	return r.Restores.Last()
}

// nextEpoch is the epoch of a session's next placement.
func (r *Reconciler) nextEpoch(s *v1alpha1.VDISession) int64 {
	return max(s.Status.Epoch, r.lastRestore().lastGiven(s)) + 1
}

// fromBackup reports whether all that the hub knows of a session's placements is
// from before the last restore, so that members may know more.
func (r *Reconciler) fromBackup(s *v1alpha1.VDISession) bool {
	last := r.lastRestore().lastGiven(s)
	return last > 0 && s.Status.Epoch <= last
}

// claimed is the decision not to place a session of which a member reports a later
// copy than the hub knows of, until that is taken over.
func (r *Reconciler) claimed(s *v1alpha1.VDISession) (placement.Decision, bool) {
	if !r.fromBackup(s) {
		return placement.Decision{}, false
	}
	member, yes := r.Fleet.Claims(assignmentKey(s), s.UID, s.Status.Epoch)
	return placement.Decision{Reason: v1alpha1.ReasonHubRestored, Message: fmt.Sprintf(
		"the hub was restored from a backup, and %s reports a copy that was placed since: it is taken over", member)}, yes
}

// unheard is why a session of mode Hold is not placed yet by a hub that was
// restored: a member that has not reported may run it, and nothing but its report or
// an operator tells. Others are placed once Timings.Recovery is over; until then all
// say the same, which is not written anew with each report.
func (r *Reconciler) unheard(s *v1alpha1.VDISession, mode v1alpha1.FailoverMode) string {
	if mode != v1alpha1.FailoverHold || !r.fromBackup(s) || r.Fleet.Recovering() {
		return ""
	}
	away := r.Fleet.Unheard()
	if len(away) == 0 {
		return ""
	}
	return fmt.Sprintf("the hub was restored from a backup, and %s may run the session (mode Hold): reconnect it, or declare it fenced once it is off for certain", away[0])
}

// inRecovery returns what remains of a step while the hub waits for its members'
// reports after a restore, and whether to look again: nothing is sent that starts a
// desktop, and nothing that stops one which the hub has not given up.
func (r *MemberReconciler) inRecovery(v *visit, s step) (step, bool) {
	switch {
	case s != stepAssign && s != stepResend && s != stepWithdraw, v.session == nil, !r.Fleet.Recovering():
		return s, false
	case s != stepWithdraw && v.reported != nil && v.reported.Spec.Epoch == v.wanted.Spec.Epoch:
		return stepMirror, true
	case s == stepWithdraw && status.DesiredIn(v.session, v.ref.UID).Stop && status.SupersededIn(v.session, v.ref) == nil:
		return s, false
	}
	return stepNone, true
}

// usedUp reports whether a placement from the backup is in a member that holds
// nothing of it: it may have ended there, and its epoch been used up.
func (r *MemberReconciler) usedUp(v *visit) bool {
	return (v.reported == nil || status.Ended(v.reported)) && r.Sessions.lastRestore().lastGiven(v.session) >= v.wanted.Spec.Epoch
}

// reissue gives up a placement from the backup of which the member holds nothing.
// The member confirms that, and the session is placed under a new epoch.
func (r *MemberReconciler) reissue(ctx context.Context, v *visit) error {
	after := v.session.DeepCopy()
	r.Sessions.giveUpPlace(&pass{session: after})
	status.Summarize(after, nil, r.Clock.Now())
	log.FromContext(ctx).Info("A placement from the hub's backup is not in its member any more; the session is placed under a new epoch",
		"session", client.ObjectKeyFromObject(v.session), "member", v.ref.Name, "epoch", v.wanted.Spec.Epoch)
	return r.patch(ctx, v.session, after)
}

// givenTwice reports whether a member proves the very epoch under which the session
// is placed in another: a hub of before a restore has given it there.
func givenTwice(v *visit) bool {
	if v.session == nil || v.reported == nil || !v.proven || v.reported.Status.State != v1alpha1.AssignmentActive {
		return false
	}
	at := v.session.Status.Placement
	return at != nil && at.ClusterUID != v.ref.UID && at.Epoch == v.reported.Spec.Epoch
}

// reclaim returns a session to the member that was given its epoch before a restore
// that was noticed too late. The copy that this leader has placed elsewhere since is
// the younger one, and is stopped. It is false where an earlier leader placed that:
// then nobody knows which one is in use, and the placement stays.
func (r *MemberReconciler) reclaim(ctx context.Context, v *visit) (bool, error) {
	if err := r.notice(ctx, v); err != nil {
		return false, err
	}
	if r.Sessions.given.epoch(v.session.UID) != v.reported.Spec.Epoch {
		return false, nil
	}
	_, err := r.takeOver(ctx, v, r.Sessions.nextEpoch(v.session))
	return true, err
}

// notice makes durable that the hub was restored, once the API server itself has
// confirmed that the session is as the cache has it: that may be behind what an
// earlier leader wrote.
func (r *MemberReconciler) notice(ctx context.Context, v *visit) error {
	if r.Sessions.Restores == nil {
		return nil
	}
	live := &v1alpha1.VDISession{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(v.session), live); err != nil {
		return err
	}
	if live.UID != v.session.UID || live.ResourceVersion != v.session.ResourceVersion {
		return errOldView
	}
	return r.Sessions.Restores.Noticed(ctx)
}

// waitFor has a visit made again soon.
func waitFor(result ctrl.Result, d time.Duration) ctrl.Result {
	result.RequeueAfter = soonest(result.RequeueAfter, d)
	return result
}
