package assignment

import (
	"context"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
)

// resendEvery is how often an assignment is sent again while its member reports missing
// Secrets.
const resendEvery = 10 * time.Second

// resend sends an assignment with its Secrets again: at once, and then every resendEvery.
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
