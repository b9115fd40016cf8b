package session

import (
	"context"
	"fmt"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/member/health"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
)

// DefaultForceAfter is how long a member gets to confirm a forced withdrawal before the
// session's finalizer is removed without confirmation.
const DefaultForceAfter = 10 * time.Second

// forced reports whether an operator forces the cleanup of a session, and how long its
// members still have to confirm it: zero, if none of them can.
func (r *Reconciler) forced(s *v1alpha1.VDISession) (time.Duration, bool) {
	if status.ForceCleanup(s) == "" {
		return 0, false
	}
	now := r.Clock.Now()
	left := r.memory.ForcedSince(s.UID, now).Add(r.forceAfter()).Sub(now)
	for _, o := range status.Outstanding(s) {
		if r.Fleet.HealthOf(o.ClusterUID) != health.Unreachable {
			return max(0, left), true
		}
	}
	return 0, true
}

func (r *Reconciler) forceAfter() time.Duration {
	if r.ForceAfter == 0 {
		return DefaultForceAfter
	}
	return r.ForceAfter
}

// letGoByForce removes the finalizer of a session whose members have not confirmed that
// nothing of it runs, and reports what may still run where: the hub no longer knows it, and
// does not stop it.
func (r *Reconciler) letGoByForce(ctx context.Context, s *v1alpha1.VDISession) error {
	why, left := status.ForceCleanup(s), status.Outstanding(s)
	if err := r.removeFinalizer(ctx, s); err != nil {
		return client.IgnoreNotFound(err) // it is gone: the members have confirmed
	}
	if err := r.freeHome(ctx, s); err != nil {
		log.FromContext(ctx).Error(err, "The home of a session that was deleted by force is free only once its member reports that nothing runs", "session", s.Namespace+"/"+s.Name)
	}
	name := s.Namespace + "/" + v1alpha1.AssignmentName(s.Name, s.UID)
	var where []string
	for _, o := range left {
		where = append(where, fmt.Sprintf("%s up to epoch %d", o.ClusterName, o.Epoch))
	}
	note := fmt.Sprintf("deleted without its members' confirmation (%s): what may still run is SessionAssignment %s in %s; if it is there when the member is back, delete it by hand",
		why, name, strings.Join(where, " and in "))
	log.FromContext(ctx).Info("Let a session go by force", "session", s.Namespace+"/"+s.Name, "why", why, "assignment", name, "left", where)
	r.Recorder.Eventf(s, nil, "Warning", v1alpha1.EventForced, "Delete", "%s", truncate(note))
	return nil
}
