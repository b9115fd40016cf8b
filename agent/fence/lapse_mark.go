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

// markConcurrency is how many assignments are marked at once.
const markConcurrency = 8

// affected reports whether a lapse stops an assignment, which the hub may have rescheduled
// since. The hub does not reschedule one without a guard, and a withdrawn one does not run
// again.
func affected(a *v1alpha1.SessionAssignment) bool {
	return a.Spec.FailoverMode == v1alpha1.FailoverFence && a.Status.Guarded && a.DeletionTimestamp.IsZero()
}

// number numbers a lapse, if it affects any assignment.
func (k *Keeper) number(ctx context.Context) error {
	// Only lapses before the list are handled.
	k.mu.Lock()
	seen := k.lease.lapses
	k.mu.Unlock()
	var all v1alpha1.SessionAssignmentList
	if err := k.live.List(ctx, &all); err != nil {
		return fmt.Errorf("listing the assignments that a lapse affects: %w", err)
	}
	if k.cacheBehind(ctx, all.Items) {
		return nil // The next step retries.
	}
	highest, count := int64(0), 0
	for i := range all.Items {
		a := &all.Items[i]
		highest = max(highest, a.Spec.Lapse, a.Status.Lapse)
		if affected(a) {
			count++
		}
	}
	k.mu.Lock()
	now := k.Clock()
	if k.lease.advance(now); k.lease.lapses != seen || !k.lease.renewed(now) {
		k.mu.Unlock()
		return nil // There was another lapse: the next step retries.
	}
	if count == 0 && !k.lease.record.Marking {
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
		"lapse", numbered.Lapse, "sessions", count)
	return k.mark(ctx)
}

// mark marks every affected assignment with the last lapse, and then makes the lease valid.
// It ends early if the cache, from which sessions are reconciled, lacks a mark.
func (k *Keeper) mark(ctx context.Context) error {
	k.mu.Lock()
	lapse := k.lease.record.Lapse
	k.mu.Unlock()
	var all v1alpha1.SessionAssignmentList
	if err := k.live.List(ctx, &all); err != nil {
		return fmt.Errorf("listing the assignments that lapse %d affects: %w", lapse, err)
	}
	if k.cacheBehind(ctx, all.Items) {
		return nil // The next step retries.
	}
	group, each := errgroup.WithContext(ctx)
	group.SetLimit(markConcurrency)
	done := true
	for i := range all.Items {
		a := &all.Items[i]
		switch {
		case !affected(a):
		case a.Status.Lapse < lapse:
			done = false
			group.Go(func() error { return k.markOne(each, a, lapse) })
		default:
			done = done && k.cacheShows(ctx, a, lapse)
		}
	}
	if err := group.Wait(); err != nil || !done {
		return err // The next step retries.
	}
	k.mu.Lock()
	marked := k.lease.marked()
	current := marked.Length > 0 && !k.lease.lapsed() && k.lease.record.Lapse == lapse
	k.mu.Unlock()
	if !current {
		return nil
	}
	return k.save(ctx, marked)
}

// cacheBehind reports whether the cache, from which sessions are reconciled and guards
// answered, shows fenced assignments that are deleted or withdrawn in the API server. They
// have no mark, and the hub may have rescheduled them: no lease may be valid for them.
func (k *Keeper) cacheBehind(ctx context.Context, live []v1alpha1.SessionAssignment) bool {
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

// markOne writes the mark. It needs no optimistic lock: only the keeper writes the field of
// fenced assignments, and agent/guard that of held ones.
func (k *Keeper) markOne(ctx context.Context, a *v1alpha1.SessionAssignment, lapse int64) error {
	before := a.DeepCopy()
	a.Status.Lapse = lapse
	err := k.client.Status().Patch(ctx, a, client.MergeFrom(before))
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("marking %s/%s with lapse %d: %w", a.Namespace, a.Name, lapse, err)
	}
	return nil
}

// cacheShows reports whether the cache shows a mark.
func (k *Keeper) cacheShows(ctx context.Context, a *v1alpha1.SessionAssignment, lapse int64) bool {
	var cached v1alpha1.SessionAssignment
	err := k.client.Get(ctx, client.ObjectKeyFromObject(a), &cached)
	return err == nil && cached.UID == a.UID && cached.Status.Lapse >= lapse
}
