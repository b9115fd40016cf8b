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

// epochsPerTerm is more epochs than a session is given between two restores.
const epochsPerTerm = 1 << 20

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
	member, yes := r.Fleet.Claims(assignment.KeyOf(s), s.UID, s.Status.Epoch)
	return placement.Decision{Reason: v1alpha1.ReasonHubRestored, Message: fmt.Sprintf(
		"the hub was restored from a backup, and %s reports a copy that was placed since: it is taken over", member)}, yes
}

// unheard is why a session of mode Hold is not placed yet by a hub that was
// restored: a member that has not reported may run it, and nothing but its report or
// an operator tells. Others are placed once Timings.Recovery is over; until then all
// say the same, which is not written again with each report.
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

// reissue gives up a placement from the backup of which the member holds nothing.
// The member confirms that, and the session is placed under a new epoch.
func (r *Reconciler) reissue(ctx context.Context, p *pass, rep *assignment.Report) {
	epoch := p.session.Status.Placement.Epoch
	r.giveUpPlace(p)
	p.events = append(p.events, func() {
		log.FromContext(ctx).Info("A placement from the hub's backup is not in its member any more; the session is placed under a new epoch",
			"session", client.ObjectKeyFromObject(p.session), "member", rep.Ref.Name, "epoch", epoch)
	})
}

// notice makes durable that the hub was restored, once the API server itself has
// confirmed that the session is as the cache has it: that may be behind what an
// earlier leader wrote.
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

// LastGiven is the highest epoch that a hub of before the last restore may have given to
// a session; 0: none.
func (r *Reconciler) LastGiven(s *v1alpha1.VDISession) int64 { return r.lastRestore().lastGiven(s) }

// Given is the last epoch that this process has given to a session and knows to be
// stored; 0: none.
func (r *Reconciler) Given(session types.UID) int64 { return r.memory.Given(session) }

// Noticed reports whether it is known that the hub was restored since the session was
// created.
func (r *Reconciler) Noticed(s *v1alpha1.VDISession) bool {
	return r.Restores == nil || r.LastGiven(s) > 0
}
