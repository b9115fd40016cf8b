package session

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/agent/render"
	"github.com/vdi-fleet/vdi-fleet/agent/session/children"
	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/proto/denied"
)

// finalizeHome removes a home that is deleted with its session, and annotates another with the
// time of its last use.
func (f finalizer) finalizeHome(ctx context.Context, p *pass) (bool, error) {
	home := p.Assignment.Spec.Desktop.Home
	if home.Mode == api.HomePerUser || home.Retention == api.RetentionRetain {
		return f.annotateLastUse(ctx, p)
	}
	return true, f.removeHome(ctx, p)
}

// removeHome deletes the session's claim, which has no owner, as read from the API server. A
// session without a home may have had one in an earlier run, which the cache shows.
func (f finalizer) removeHome(ctx context.Context, p *pass) error {
	var list corev1.PersistentVolumeClaimList
	from := f.APIReader
	if !render.HasHome(p.Assignment) {
		from = f.Client
	}
	own := client.MatchingLabels(render.Selector(p.Assignment))
	own[render.LabelHomeMode] = string(api.HomePerSession)
	if err := from.List(ctx, &list, client.InNamespace(p.Assignment.Namespace), own); err != nil {
		return fmt.Errorf("listing claims: %w", err)
	}
	for i := range list.Items {
		p.recordFinalizers(children.Homes.Name, &list.Items[i])
		if err := children.Homes.Remove(ctx, p.Set, &list.Items[i]); err != nil {
			return err
		}
		p.RequeueWithin(podPoll)
	}
	return nil
}

// annotateLastUse annotates the claim with the end of its use, from which its retention
// counts, unless another session uses it.
func (f finalizer) annotateLastUse(ctx context.Context, p *pass) (bool, error) {
	want := render.Home(p.Assignment)
	if want == nil || want.Annotations[api.AnnotationRetention] == "" {
		return true, nil
	}
	have, err := children.Homes.Live(ctx, p.Set, want.Name)
	if err != nil || !children.Homes.Owns(p.Assignment, have) || have.DeletionTimestamp != nil {
		return err == nil, err
	}
	if used, err := f.inUse(ctx, have, p.Assignment.Name); err != nil || used {
		return err == nil, err
	}
	if have.Annotations[api.AnnotationLastUse] != "" {
		return true, nil
	}
	annotated := have.DeepCopy()
	annotated.Annotations = labels.Merge(annotated.Annotations, map[string]string{
		api.AnnotationLastUse:   p.Now.UTC().Format(time.RFC3339),
		api.AnnotationRetention: want.Annotations[api.AnnotationRetention],
	})
	children.CountWrite(children.Homes.Name, "stamp")
	err = f.Client.Patch(ctx, annotated, client.MergeFromWithOptions(have, client.MergeFromWithOptimisticLock{}))
	switch {
	case err == nil, apierrors.IsNotFound(err):
		return true, nil
	case apierrors.IsConflict(err):
		p.RequeueWithin(children.ConflictRetry)
		return false, nil
	case denied.Is(err):
		// Keeping the home too long is better than keeping the session.
		log.FromContext(ctx).Error(err, "Annotating the home's last use", "claim", have.Name)
		return true, nil
	default:
		return false, fmt.Errorf("annotating the last use of claim %s: %w", have.Name, err)
	}
}

// inUse reports whether another assignment that is not being deleted uses the claim.
func (f finalizer) inUse(ctx context.Context, claim *corev1.PersistentVolumeClaim, except string) (bool, error) {
	var users api.SessionAssignmentList
	err := f.Client.List(ctx, &users, client.InNamespace(claim.Namespace),
		client.MatchingFields{claimIndex: claim.Name}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return false, fmt.Errorf("listing the assignments that use claim %s: %w", claim.Name, err)
	}
	return slices.ContainsFunc(users.Items, func(a api.SessionAssignment) bool {
		return a.Name != except && a.DeletionTimestamp == nil
	}), nil
}
