package identity

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/backoff"
	"github.com/vdi-fleet/vdi-fleet/hub/link"
)

// SetupWithManager registers the controller of revocations.
func (a *Authority) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("memberaccess").
		For(&v1alpha1.MemberCluster{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WithOptions(controller.Options{RateLimiter: backoff.Limiter[reconcile.Request]()}).
		Complete(reconcile.AsReconciler(a.options.Client, reconcile.TypedFunc[*v1alpha1.MemberCluster](a.reconcileAccess)))
}

// reconcileAccess removes the certificates and tokens of a member whose access is revoked.
// Its agent is refused already.
func (a *Authority) reconcileAccess(ctx context.Context, mc *v1alpha1.MemberCluster) (reconcile.Result, error) {
	if mc.Spec.Access != v1alpha1.AccessRevoked {
		return reconcile.Result{}, nil
	}
	err := a.revoke(ctx, mc)
	if errors.Is(err, link.ErrUnknownMember) {
		err = nil // the member was removed
	}
	return reconcile.Result{}, err
}

// revoke deletes the tokens, also if the certificates were removed before: with a token
// the same key could enroll again once access is allowed.
func (a *Authority) revoke(ctx context.Context, cached *v1alpha1.MemberCluster) error {
	mc, err := a.members.get(ctx, cached.Name, cached.UID)
	if err != nil {
		return err
	}
	if mc.Spec.Access != v1alpha1.AccessRevoked {
		return nil
	}
	err = a.tokens.delete(ctx, func(secret *corev1.Secret) bool {
		return string(secret.Data[v1alpha1.JoinTokenMemberUID]) == string(mc.UID)
	})
	if err != nil {
		return err
	}
	return a.members.change(ctx, mc.Name, mc.UID, func(mc *v1alpha1.MemberCluster) error {
		if mc.Spec.Access == v1alpha1.AccessRevoked {
			// Not nil, so that none is valid.
			mc.Status.Certificate = &v1alpha1.MemberCertificate{}
		}
		return nil
	})
}
