package session

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/assignment"
	"github.com/vdi-fleet/vdi-fleet/hub/placement"
)

// A hub whose etcd was restored from a backup has lost placements and epochs that its
// members have. Three rules keep it from assigning anything twice:
//
//   - While it waits for its members' reports (Fleet.Recovering), a member gets only
//     orders that stop sessions which were released there or deleted, and nothing is
//     placed.
//   - A copy that a member proves to have been placed later than all that the hub
//     has becomes the placement: see adopt.
//   - No epoch is assigned that a hub of before the restore may have assigned: see
//     nextEpoch. A session that the hub has as placed in a member without a copy of it
//     may have ended there, or moved: it gets a new epoch, wherever it is placed.

// Restore is a restore of the hub's etcd from a backup.
type Restore struct {
	// Term that the hub had once the restore was noticed, above all that agents had seen by
	// then; 0: there was none.
	Term int64
	// Time at which it was noticed.
	Time time.Time
}

// Restores records the hub's restores.
type Restores interface {
	// Last returns the hub's last restore.
	Last() Restore
	// Noticed records durably that a member has proven an epoch that this hub did not
	// assign, so that it was restored. It returns at once if that is known.
	Noticed(context.Context) error
}

// epochsPerTerm is more epochs than a session gets between two restores.
const epochsPerTerm = 1 << 20

// lastGiven returns the highest epoch that a hub of before the restore may have assigned to
// a session; 0: none, since the session was created later.
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

// nextEpoch returns the epoch of a session's next placement.
func (r *Reconciler) nextEpoch(s *v1alpha1.VDISession) int64 {
	return max(s.Status.Epoch, r.lastRestore().lastGiven(s)) + 1
}

// fromBackup reports whether all of the hub's state of a session's placements is from
// before the last restore, so that members may have later placements.
func (r *Reconciler) fromBackup(s *v1alpha1.VDISession) bool {
	last := r.lastRestore().lastGiven(s)
	return last > 0 && s.Status.Epoch <= last
}

// claimed returns the decision not to place a session of which a member reports a later
// copy than the hub has, until that is taken over.
func (r *Reconciler) claimed(s *v1alpha1.VDISession) (placement.Decision, bool) {
	if !r.fromBackup(s) {
		return placement.Decision{}, false
	}
	member, yes := r.Fleet.Claims(assignment.KeyOf(s), s.UID, s.Status.Epoch)
	return placement.Decision{Reason: v1alpha1.ReasonHubRestored, Message: fmt.Sprintf(
		"the hub was restored from a backup, and %s reports a copy that was placed since: it is taken over", member)}, yes
}

// unheard returns why a restored hub does not place a session of mode Hold yet: a member
// that has not reported may run it, and only its report or an operator can rule that out.
// Others are placed once Timings.Recovery is over; until then all have the same message,
// which is not rewritten with each report.
func (r *Reconciler) unheard(s *v1alpha1.VDISession, mode v1alpha1.FailoverMode) string {
	if mode != v1alpha1.FailoverHold || !r.fromBackup(s) || r.Fleet.Recovering() {
		return ""
	}
	away := r.Fleet.Unreported()
	if len(away) == 0 {
		return ""
	}
	return fmt.Sprintf("the hub was restored from a backup, and %s may run the session (mode Hold): reconnect it, or declare it fenced once it is off for certain", away[0])
}

// reissue releases a placement from the backup of which the member has no copy. The member
// confirms that, and the session is placed under a new epoch.
func (r *Reconciler) reissue(ctx context.Context, p *pass, rep *assignment.Report) {
	epoch := p.session.Status.Placement.Epoch
	r.giveUpPlace(p)
	p.events = append(p.events, func() {
		log.FromContext(ctx).Info("A placement from the hub's backup is not in its member any more; the session is placed under a new epoch",
			"session", client.ObjectKeyFromObject(p.session), "member", rep.Ref.Name, "epoch", epoch)
	})
}

// notice records durably that the hub was restored, once the API server itself has
// confirmed that the session is as in the cache, which may lag behind an earlier leader's
// writes.
func (r *Reconciler) notice(ctx context.Context, s *v1alpha1.VDISession) error {
	if r.Restores == nil {
		return nil
	}
	live := &v1alpha1.VDISession{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(s), live); err != nil {
		return err
	}
	if live.UID != s.UID || live.ResourceVersion != s.ResourceVersion {
		return errOldView
	}
	return r.Restores.Noticed(ctx)
}

// LastGiven returns the highest epoch that a hub of before the last restore may have
// assigned to a session; 0: none.
func (r *Reconciler) LastGiven(s *v1alpha1.VDISession) int64 { return r.lastRestore().lastGiven(s) }

// Given returns the last epoch that this process assigned to a session and that is known to
// be stored; 0: none.
func (r *Reconciler) Given(session types.UID) int64 { return r.memory.Given(session) }

// Noticed reports whether it is known that the hub was restored since the session was
// created.
func (r *Reconciler) Noticed(s *v1alpha1.VDISession) bool {
	return r.Restores == nil || r.LastGiven(s) > 0
}
