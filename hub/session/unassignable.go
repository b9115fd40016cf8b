package session

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/secret"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
)

// over is whether the member has ended the very placement that the session
// stands at: then there is nothing to assign, but an end to record.
func over(v *visit) bool {
	return v.reported != nil && status.Ended(v.reported) && v.reported.Spec.Epoch >= v.session.Status.Placement.Epoch
}

// showUnfit says on the session why it can't be assigned, and looks again later:
// what has to change may be none of what the hub watches.
func (r *MemberReconciler) showUnfit(ctx context.Context, v *visit, why *secret.NotAssignableError) (ctrl.Result, error) {
	after := v.session.DeepCopy()
	v1alpha1.SetCondition(&after.Status.Conditions, after.Generation, metav1.Condition{
		Type: v1alpha1.ConditionAssigned, Status: metav1.ConditionFalse, Reason: why.Reason, Message: why.Message,
	})
	status.Summarize(after, v.spec, r.Clock.Now())
	return ctrl.Result{RequeueAfter: DefaultLookAfter}, r.patch(ctx, v.session, after)
}
