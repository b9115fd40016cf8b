package assignment

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// Reconcile carries out a session's withdrawal, and then its assignment. Each stays pending
// until its final answer.
func (s *Store) Reconcile(ctx context.Context, uid types.UID) (reconcile.Result, error) {
	s.mu.Lock()
	current := s.pending.slots[uid]
	s.mu.Unlock()
	var requeue time.Duration
	if w := current.withdraw; w != nil {
		wait, err := s.withdrawer.withdraw(ctx, w)
		if err != nil {
			return reconcile.Result{}, fmt.Errorf("withdrawing %s/%s up to epoch %d: %w", w.GetNamespace(), w.GetName(), w.GetUpToEpoch(), err)
		}
		if requeue = wait; wait == 0 {
			s.update(uid, func(sl *slot) {
				if sl.withdraw == w {
					sl.withdraw = nil
				}
			})
		}
	}
	if current.assign != nil {
		wait, err := s.assign(ctx, uid, current.assign, current.received)
		if err != nil {
			return reconcile.Result{}, err
		}
		if requeue == 0 || wait > 0 && wait < requeue {
			requeue = wait
		}
	}
	return reconcile.Result{RequeueAfter: requeue}, nil
}

// assign stores an assignment, and acknowledges or refuses it. It returns the delay before
// a retry, and 0 if it is done.
func (s *Store) assign(ctx context.Context, uid types.UID, a *v1alpha1.SessionAssignment, received time.Time) (time.Duration, error) {
	began := time.Now()
	out, err := s.applier.apply(ctx, a)
	if err != nil {
		return 0, fmt.Errorf("storing %s/%s, epoch %d: %w", a.Namespace, a.Name, a.Spec.Epoch, err)
	}
	if out == nil {
		return recheck, nil
	}
	s.traceStored(a, out, received, began)
	logRefused(ctx, a, out)
	s.answer(uid, a, out)
	s.Starts.await(ctx, client.ObjectKeyFromObject(a))
	return 0, nil
}

// answer reports the result of an assignment, unless a newer order has replaced it.
func (s *Store) answer(uid types.UID, a *v1alpha1.SessionAssignment, result *fleetv1.OrderResult) {
	current := false
	s.update(uid, func(sl *slot) {
		if sl.assign == a {
			sl.assign, current = nil, true
		}
	})
	if !current {
		return
	}
	if result.GetCode() == fleetv1.ResultCode_RESULT_CODE_REFUSED {
		metricRefused.WithLabelValues(result.GetReason()).Inc()
	}
	s.Reporter.Add(result)
}

// update changes a session's slot without enqueueing the session.
func (s *Store) update(uid types.UID, change func(*slot)) {
	s.change(uid, func(p *pending) bool {
		p.update(uid, change)
		return false
	})
}
