package fence

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// +kubebuilder:rbac:groups=vdi.kasm.io,resources=sessionassignments,verbs=list;watch
// +kubebuilder:rbac:groups=vdi.kasm.io,roleName=vdi-agent-sessions,resources=sessionassignments/status,verbs=patch

// markers is how many assignments are marked at once.
const markers = 8

// concerned reports whether a lapse stops an assignment: the hub may have rescheduled it
// since. It holds one without a guard, and one that is withdrawn does not run again.
func concerned(a *v1alpha1.SessionAssignment) bool {
	return a.Spec.FailoverMode == v1alpha1.FailoverFence && a.Status.Guarded && a.DeletionTimestamp.IsZero()
}

// number numbers a lapse, if it concerns any assignment.
func (k *Keeper) number(ctx context.Context) error {
	// Lapses from before the list are handled.
	k.mu.Lock()
	seen := k.lease.lapses
	k.mu.Unlock()
	var all v1alpha1.SessionAssignmentList
	if err := k.live.List(ctx, &all); err != nil {
		return fmt.Errorf("listing the assignments that a lapse concerns: %w", err)
	}
	if k.behind(ctx, all.Items) {
		return nil // The next step retries.
	}
	highest, concerns := int64(0), 0
	for i := range all.Items {
		a := &all.Items[i]
		highest = max(highest, a.Spec.Lapse, a.Status.Lapse)
		if concerned(a) {
			concerns++
		}
	}
	k.mu.Lock()
	now := k.Clock()
	if k.lease.advance(now); k.lease.lapses != seen || !k.lease.renewed(now) {
		k.mu.Unlock()
		return nil // There is another one: the next step retries.
	}
	if concerns == 0 && !k.lease.record.Marking {
		k.lease.handled = k.lease.lapses
		k.mu.Unlock()
		return nil
	}
	numbered := k.lease.number(highest)
	k.mu.Unlock()
	if err := k.save(ctx, numbered); err != nil {
		return err
	}
	metricLapses.Inc()
	log.FromContext(ctx).Info("The hub is reachable again: fenced desktops wait until it affirms that it did not reschedule them",
		"lapse", numbered.Lapse, "sessions", concerns)
	return k.mark(ctx)
}

// mark marks every assignment with the last lapse that concerns it, and then makes the
// lease valid. It ends early where the cache, from which sessions are reconciled, does not
// show a mark yet.
func (k *Keeper) mark(ctx context.Context) error {
	k.mu.Lock()
	lapse := k.lease.record.Lapse
	k.mu.Unlock()
	var all v1alpha1.SessionAssignmentList
	if err := k.live.List(ctx, &all); err != nil {
		return fmt.Errorf("listing the assignments that lapse %d concerns: %w", lapse, err)
	}
	if k.behind(ctx, all.Items) {
		return nil // The next step retries.
	}
	group, each := errgroup.WithContext(ctx)
	group.SetLimit(markers)
	done := true
	for i := range all.Items {
		a := &all.Items[i]
		switch {
		case !concerned(a):
		case a.Status.Lapse < lapse:
			done = false
			group.Go(func() error { return k.markOne(each, a, lapse) })
		default:
			done = done && k.shown(ctx, a, lapse)
		}
	}
	if err := group.Wait(); err != nil || !done {
		return err // The next step retries.
	}
	k.mu.Lock()
	marked := k.lease.marked()
	stillGood := marked.Length > 0 && !k.lease.lapsed() && k.lease.record.Lapse == lapse
	k.mu.Unlock()
	if !stillGood {
		return nil
	}
	return k.save(ctx, marked)
}

// behind reports whether the cache, from which sessions are reconciled and guards answered,
// still shows fenced assignments that the API server does not, or that are withdrawn
// there. They have no mark, so no lease may be valid for them: while the API server was
// away the hub may have rescheduled them.
func (k *Keeper) behind(ctx context.Context, live []v1alpha1.SessionAssignment) bool {
	wanted := make(map[types.UID]bool, len(live))
	for i := range live {
		wanted[live[i].UID] = live[i].DeletionTimestamp.IsZero()
	}
	var cached v1alpha1.SessionAssignmentList
	if err := k.client.List(ctx, &cached, client.UnsafeDisableDeepCopy); err != nil {
		return true
	}
	return slices.ContainsFunc(cached.Items, func(a v1alpha1.SessionAssignment) bool {
		return a.Spec.FailoverMode == v1alpha1.FailoverFence && a.DeletionTimestamp.IsZero() && !wanted[a.UID]
	})
}

// markOne writes a field that no other part writes for fenced assignments, and needs no
// optimistic lock. For held ones agent/guard writes it, with one.
func (k *Keeper) markOne(ctx context.Context, a *v1alpha1.SessionAssignment, lapse int64) error {
	before := a.DeepCopy()
	a.Status.Lapse = lapse
	err := k.client.Status().Patch(ctx, a, client.MergeFrom(before))
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("marking %s/%s with lapse %d: %w", a.Namespace, a.Name, lapse, err)
	}
	return nil
}

// shown reports whether the cache has caught up with a mark.
func (k *Keeper) shown(ctx context.Context, a *v1alpha1.SessionAssignment, lapse int64) bool {
	var cached v1alpha1.SessionAssignment
	err := k.client.Get(ctx, client.ObjectKeyFromObject(a), &cached)
	return err == nil && cached.UID == a.UID && cached.Status.Lapse >= lapse
}
