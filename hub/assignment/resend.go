package assignment

import (
	"context"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
)

// resendEvery is how often an assignment is sent again to a member that keeps
// saying that it lacks Secrets of it.
const resendEvery = 10 * time.Second

// resend sends the assignment again to a member that has it and lacks Secrets of it: at
// once, and then now and then.
func (r *Reconciler) resend(ctx context.Context, v *visit) (ctrl.Result, error) {
	now := r.Clock.Now()
	if wait := r.resends.Wait(v.session.UID, now); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	if _, err := r.assign(ctx, v); err != nil {
		return ctrl.Result{}, err
	}
	r.resends.Took(v.session.UID, now, resendEvery)
	return ctrl.Result{RequeueAfter: resendEvery}, nil
}
