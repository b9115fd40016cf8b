package session

import (
	"context"
	"fmt"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/home"
	"github.com/vdi-fleet/vdi-fleet/hub/session/lifecycle"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
)

// finish removes the finalizer of a deleted session. The lock ensures that the decision is
// based on what is stored.
func (r *Reconciler) finish(ctx context.Context, in *lifecycle.Input, plan *lifecycle.Plan) error {
	if plan.Forced {
		return r.finishByForce(ctx, plan.Session)
	}
	s := in.Session
	switch err := r.writer().removeFinalizer(ctx, s.DeepCopy()); {
	case client.IgnoreNotFound(err) != nil:
		return err
	case err == nil:
		logEnd(ctx, s, r.Clock.Now())
		traces{r.Orders.Trace}.ended(s, r.Clock.Now())
	}
	if plan.Stopped {
		r.Reservations.Observe(s, true)
	}
	return nil
}

// finishByForce removes the finalizer of a session whose members have not confirmed that
// nothing of it runs, and reports what may still run where: the hub does not stop it any more.
func (r *Reconciler) finishByForce(ctx context.Context, s *v1alpha1.VDISession) error {
	why, left := status.ForceCleanup(s), status.Outstanding(s)
	if err := r.writer().removeFinalizer(ctx, s); err != nil {
		return client.IgnoreNotFound(err) // it is gone: the members have confirmed
	}
	if err := freeHome(ctx, r.Client, s, r.Clock.Now()); err != nil {
		log.FromContext(ctx).Error(err, "The home of a session that was deleted by force is free only once its member reports that nothing runs", "session", s.Namespace+"/"+s.Name)
	}
	name := s.Namespace + "/" + v1alpha1.AssignmentName(s.Name, s.UID)
	var where []string
	for _, o := range left {
		where = append(where, fmt.Sprintf("%s up to epoch %d", o.ClusterName, o.Epoch))
	}
	note := fmt.Sprintf("deleted without its members' confirmation (%s): SessionAssignment %s may still run in %s; if it is there when the member reconnects, delete it by hand",
		why, name, strings.Join(where, " and in "))
	log.FromContext(ctx).Info("Removed the finalizer of a session by force", "session", s.Namespace+"/"+s.Name, "why", why, "assignment", name, "left", where)
	r.Recorder.Eventf(s, nil, "Warning", v1alpha1.EventForced, "Delete", "%s", truncate(note))
	return nil
}

// freeHome releases the home of a session whose finalizer was removed by force: an operator
// has declared that nothing of it runs.
func freeHome(ctx context.Context, c client.Client, s *v1alpha1.VDISession, now time.Time) error {
	h := &v1alpha1.VDIHome{}
	err := c.Get(ctx, home.Key(s), h)
	if err != nil || h.Status.MountedByUID != s.UID {
		return client.IgnoreNotFound(err)
	}
	return home.Release(ctx, c, h, nil, status.Seconds(now))
}
