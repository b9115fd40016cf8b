package template

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// maxRevisions bounds the revisions in a template's status: those with the most sessions.
const maxRevisions = 64

// keep keeps a template while sessions use it: the finalizer is added before any session
// can, and removed once it is being deleted and no session is left.
func (r *Reconciler) keep(ctx context.Context, t *v1alpha1.VDITemplate, sessions int32) error {
	marked := controllerutil.ContainsFinalizer(t, v1alpha1.TemplateFinalizer)
	wanted := t.DeletionTimestamp.IsZero() || sessions > 0 && marked
	if marked == wanted {
		return nil
	}
	before := t.DeepCopy()
	if wanted {
		controllerutil.AddFinalizer(t, v1alpha1.TemplateFinalizer)
	} else {
		controllerutil.RemoveFinalizer(t, v1alpha1.TemplateFinalizer)
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Patch(ctx, t, patch); err != nil {
		return client.IgnoreNotFound(fmt.Errorf("marking template %s as in use: %w", t.Name, err))
	}
	return nil
}

// status writes a template's status if it changed: its counts at most once per interval, and at
// once that it can run or no longer can. wait is how long a change is delayed.
func (r *Reconciler) status(ctx context.Context, t *v1alpha1.VDITemplate, revision string, used map[string]int32, interval time.Duration) (wait time.Duration, err error) {
	before := t.DeepCopy()
	can, of := r.Members.CanRun(t.Name, revision)
	t.Status.ObservedGeneration = t.Generation
	t.Status.Revision = revision
	t.Status.AvailableClusters = can
	t.Status.Revisions = byUse(used)
	t.Status.Sessions = total(used)
	leaving := !t.DeletionTimestamp.IsZero()
	v1alpha1.SetCondition(&t.Status.Conditions, t.Generation, available(can, of, leaving, t.Status.Sessions))
	if equality.Semantic.DeepEqual(before.Status, t.Status) {
		return 0, nil
	}
	now := r.Clock.Now()
	if !pressing(&before.Status, &t.Status) {
		if wait := r.written.Wait(t.Name, now); wait > 0 {
			return wait, nil
		}
	}
	if err := r.Client.Status().Patch(ctx, t, client.MergeFrom(before)); err != nil {
		return 0, client.IgnoreNotFound(fmt.Errorf("writing the status of template %s: %w", t.Name, err))
	}
	r.written.Took(t.Name, now, interval)
	return 0, nil
}

// pressing reports whether a change of a status can't wait.
func pressing(before, after *v1alpha1.TemplateStatus) bool {
	was := ptr.Deref(meta.FindStatusCondition(before.Conditions, v1alpha1.ConditionAvailable), metav1.Condition{})
	is := ptr.Deref(meta.FindStatusCondition(after.Conditions, v1alpha1.ConditionAvailable), metav1.Condition{})
	return before.ObservedGeneration != after.ObservedGeneration || before.Revision != after.Revision ||
		was.Status != is.Status || was.Reason != is.Reason
}

func total(used map[string]int32) int32 {
	var sum int32
	for _, n := range used {
		sum += n
	}
	return sum
}

// byUse returns revisions with their sessions, the most used first.
func byUse(used map[string]int32) []v1alpha1.RevisionSessions {
	var out []v1alpha1.RevisionSessions
	for revision, n := range used {
		if n > 0 {
			out = append(out, v1alpha1.RevisionSessions{Revision: revision, Sessions: n})
		}
	}
	slices.SortFunc(out, func(a, b v1alpha1.RevisionSessions) int {
		return cmp.Or(cmp.Compare(b.Sessions, a.Sessions), cmp.Compare(a.Revision, b.Revision))
	})
	return out[:min(len(out), maxRevisions)]
}

func available(can, of int32, leaving bool, sessions int32) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionAvailable, Status: metav1.ConditionTrue, Reason: v1alpha1.ConditionAvailable}
	c.Message = fmt.Sprintf("%d of %d members can run it", can, of)
	switch {
	case leaving:
		c.Status, c.Reason = metav1.ConditionFalse, v1alpha1.ReasonTerminating
		c.Message = fmt.Sprintf("being deleted: %d sessions use it; it is removed once they are deleted", sessions)
		if sessions == 1 {
			c.Message = "being deleted: 1 session uses it; it is removed once that is deleted"
		}
	case can == 0:
		c.Status, c.Reason = metav1.ConditionFalse, v1alpha1.ReasonUnschedulable
		c.Message += ": see status.templates of each MemberCluster for why"
	}
	return c
}
