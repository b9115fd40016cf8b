package assignment

import (
	"context"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
)

// resendEvery is how often an assignment is sent again to a member that keeps
// saying that it lacks Secrets of it.
const resendEvery = 10 * time.Second

// resends remembers when each session's assignment was last sent again for the
// sake of its Secrets. It may be forgotten at any time.
type resends struct {
	mu sync.Mutex
	at map[types.UID]time.Time
}

// wait is how long to wait before a session's assignment is sent again; where
// that is not at all, it counts as sent now.
func (r *resends) wait(session types.UID, now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if last, ok := r.at[session]; ok && now.Before(last.Add(resendEvery)) {
		return last.Add(resendEvery).Sub(now)
	}
	if r.at == nil {
		r.at = map[types.UID]time.Time{}
	}
	maps.DeleteFunc(r.at, func(_ types.UID, last time.Time) bool { return now.Sub(last) > resendEvery })
	r.at[session] = now
	return 0
}

// forget a session whose member lacks nothing.
func (r *resends) forget(session types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.at, session)
}

// resend sends the assignment again to a member that has it and lacks Secrets of it: at
// once, and then now and then.
func (r *Reconciler) resend(ctx context.Context, v *visit) (ctrl.Result, error) {
	wait := r.resends.wait(v.session.UID, r.Clock.Now())
	if wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	if _, err := r.assign(ctx, v); err != nil {
		r.resends.forget(v.session.UID)
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: resendEvery}, nil
}
