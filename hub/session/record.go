package session

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
)

// recordStopped makes durable that nothing up to an epoch runs in a member any
// more: the release is struck off, a placement that ended unasked is given up
// so that the session is placed anew, and a deleted session of which nothing
// else is outstanding is let go.
func (r *MemberReconciler) recordStopped(ctx context.Context, s *v1alpha1.VDISession, member v1alpha1.ClusterRef, reported *v1alpha1.SessionAssignment, epoch int64) error {
	after, left := s.DeepCopy(), status.SupersededIn(s, member)
	status.ConfirmStopped(after, member.UID, epoch)
	if after.Status.Placement == nil {
		status.EndStoppedRun(after, reported, r.Clock.Now())
	}
	if !s.DeletionTimestamp.IsZero() && len(status.Outstanding(after)) == 0 {
		if err := r.Sessions.letGo(ctx, s); err != nil {
			return err
		}
		r.Fleet.Observe(s, true)
		return nil
	}
	if s.DeletionTimestamp.IsZero() && after.Status.Placement == nil && left == nil {
		v1alpha1.SetCondition(&after.Status.Conditions, after.Generation, metav1.Condition{
			Type: v1alpha1.ConditionScheduled, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonReleasing,
			Message: "its assignment ended in its member: it is placed anew",
		})
		after.Status.Conditions = status.DropAgentConditions(after.Status.Conditions)
	}
	status.Summarize(after, nil, r.Clock.Now())
	if err := r.patch(ctx, s, after); err != nil {
		return err
	}
	if left != nil {
		r.healed(after, *left)
	}
	return nil
}

// recordRefused gives up a placement that the member would not store: nothing
// of it runs, so the session may go elsewhere at once.
func (r *MemberReconciler) recordRefused(ctx context.Context, s *v1alpha1.VDISession, reported *v1alpha1.SessionAssignment, member types.UID) error {
	pauses := r.Sessions.refusals.add(s.UID, member, s.Status.Placement.Epoch, reported.Status.Reason, reported.Status.Message, r.Clock.Now())
	cluster := s.Status.Placement.ClusterName
	message := fmt.Sprintf("%s refused it: %s: %s", cluster, reported.Status.Reason, reported.Status.Message)
	if pauses {
		message += fmt.Sprintf("; %d or more in a row have refused it, and it is tried again after a pause", refusalStreak)
	}
	after := s.DeepCopy()
	after.Status.Placement, after.Status.URL, after.Status.IdleSince = nil, "", nil
	for _, c := range []metav1.Condition{
		{Type: v1alpha1.ConditionScheduled, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonRefused, Message: message},
		{Type: v1alpha1.ConditionAssigned, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonRefused, Message: message},
	} {
		v1alpha1.SetCondition(&after.Status.Conditions, after.Generation, c)
	}
	status.Summarize(after, nil, r.Clock.Now())
	if err := r.patch(ctx, s, after); err != nil {
		return err
	}
	placements.WithLabelValues("refused").Inc()
	r.Recorder.Eventf(after, nil, "Warning", v1alpha1.EventRefused, "Assign", "%s", truncate(message))
	return nil
}
