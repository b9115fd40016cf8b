package session

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/assignment"
	"github.com/vdi-fleet/vdi-fleet/hub/session/lifecycle"
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
	// Term is the hub's term once the restore was detected, higher than all that agents
	// had seen by then; 0 if there was no restore.
	Term int64
	// Time at which it was detected.
	Time time.Time
}

// Restores records the hub's restores.
type Restores interface {
	// Last returns the hub's last restore.
	Last() Restore
	// Detected records durably that a member has proven an epoch that this hub did not
	// assign, so that it was restored. It returns at once if that is already recorded.
	Detected(context.Context) error
}

// epochsPerTerm is more epochs than a session gets between two restores.
const epochsPerTerm = 1 << 20

// LastAssigned returns the highest epoch that a hub of before the last restore may have
// assigned to a session, or 0 if there is none or the session was created later.
func (r *Reconciler) LastAssigned(s *v1alpha1.VDISession) int64 {
	if r.Restores == nil {
		return 0
	}
	last := r.Restores.Last()
	if last.Term == 0 || !s.CreationTimestamp.Time.Before(last.Time) {
		return 0
	}
	return last.Term * epochsPerTerm
}

// restored returns the state of a restored hub as far as a session depends on it.
func (g gatherer) restored(s *v1alpha1.VDISession) lifecycle.Restore {
	out := lifecycle.Restore{LastAssigned: g.LastAssigned(s), Recovering: g.Fleet.Recovering()}
	if out.LastAssigned == 0 || s.Status.Epoch > out.LastAssigned {
		return out
	}
	if member, claims := g.Fleet.Claims(assignment.KeyOf(s), s.UID, s.Status.Epoch); claims {
		out.Claim = member
	}
	out.Unreported = g.Fleet.Unreported()
	return out
}

// detectRestore records durably that the hub was restored, once the API server itself has confirmed
// that the session is as in the cache, which may lag behind an earlier leader's writes.
func (g gatherer) detectRestore(ctx context.Context, s *v1alpha1.VDISession) error {
	if g.Restores == nil {
		return nil
	}
	live := &v1alpha1.VDISession{}
	if err := g.Live.Get(ctx, client.ObjectKeyFromObject(s), live); err != nil {
		return err
	}
	if live.UID != s.UID || live.ResourceVersion != s.ResourceVersion {
		return errStaleCache
	}
	return g.Restores.Detected(ctx)
}

// errStaleCache is the conflict of a session that is newer than the cache.
var errStaleCache = apierrors.NewConflict(v1alpha1.GroupVersion.WithResource("vdisessions").GroupResource(), "", fmt.Errorf("the cache is behind"))

// LastEpoch returns the last epoch that this process assigned to a session and that is
// stored for certain, or 0.
func (r *Reconciler) LastEpoch(session types.UID) int64 { return r.memory.LastEpoch(session) }
