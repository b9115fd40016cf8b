package member

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/member/health"
)

// writeFenced writes into a status whether an operator's declaration holds. A removal
// because the agent has returned is shown until the member is ready.
func writeFenced(status *v1alpha1.MemberClusterStatus, v view, generation int64) {
	was := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionFenced)
	switch {
	case v.fence.declared != nil:
		v1alpha1.SetCondition(&status.Conditions, generation, fencedCondition(v))
	case was == nil, was.Reason == v1alpha1.ReasonFencedAlive && v.State != health.Ready:
	default:
		v1alpha1.RemoveCondition(&status.Conditions, v1alpha1.ConditionFenced)
	}
}

// fencedCondition reports whether a declaration holds, and why not.
func fencedCondition(v view) metav1.Condition {
	fenced := condition(v1alpha1.ConditionFenced)
	declaration := declaredBy(v.fence.declared)
	switch {
	case v.fence.other:
		return fenced(metav1.ConditionFalse, v1alpha1.ReasonFencedOther, fmt.Sprintf(
			"%s, of cluster %q, and this member is cluster %q: it has no effect; remove it with `kubectl vdi unfence %s`",
			declaration, bounded(v.fence.declared.Fingerprint), v.fingerprint, v.name))
	case v.fence.alive:
		return fenced(metav1.ConditionFalse, v1alpha1.ReasonFencedAlive, declaration+
			", and its agent has returned: the cluster is not off, so the hub removes the declaration and then admits the agent")
	}
	return fenced(metav1.ConditionTrue, v1alpha1.ReasonMemberFenced, declaration+
		": its sessions are rescheduled, and what is left of them there is stopped if its agent returns")
}

func declaredBy(d *v1alpha1.FencedDeclaration) string {
	return fmt.Sprintf("%s declared at %s that nothing runs there any more", bounded(d.By), d.At.UTC().Format(time.RFC3339))
}

// unfence removes the declaration of a member whose agent has returned.
func (r *Reconciler) unfence(ctx context.Context, mc *v1alpha1.MemberCluster, v view) error {
	if !v.fence.alive || v.fence.other || mc.Spec.Fenced == nil {
		return nil
	}
	after := mc.DeepCopy()
	after.Spec.Fenced = nil
	if err := r.Client.Patch(ctx, after, locked(mc)); err != nil {
		return fmt.Errorf("removing the declaration: %w", err)
	}
	r.Fleet.Register(after) // its agent waits for that
	r.Recorder.Eventf(after, nil, corev1.EventTypeWarning, v1alpha1.EventFenced, "Unfence",
		"its agent has returned: removed the declaration that it is fenced, as %s", declaredBy(mc.Spec.Fenced))
	return nil
}

// announceFenced records an event when a declaration takes effect, or can't. Its removal is
// announced by unfence.
func (r *Reconciler) announceFenced(before, after *v1alpha1.MemberCluster) {
	was, is := conditionIn(&before.Status, v1alpha1.ConditionFenced), conditionIn(&after.Status, v1alpha1.ConditionFenced)
	if is.Reason != "" && is.Reason != v1alpha1.ReasonFencedAlive && is.Reason != was.Reason {
		r.Recorder.Eventf(after, nil, corev1.EventTypeWarning, v1alpha1.EventFenced, "Fence", "%s", is.Message)
	}
}
