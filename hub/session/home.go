package session

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// homeOf is the member that holds the user's home of the template, if any.
func (r *Reconciler) homeOf(ctx context.Context, s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec) (*v1alpha1.ClusterRef, error) {
	if t.Home.Mode != v1alpha1.HomePerUser {
		return nil, nil
	}
	h := &v1alpha1.VDIHome{}
	key := types.NamespacedName{Namespace: s.Namespace, Name: v1alpha1.HomeName(s.Namespace, s.Spec.User, s.Spec.Template)}
	if err := r.Client.Get(ctx, key, h); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("reading the home: %w", err)
	}
	return &v1alpha1.ClusterRef{Name: h.Spec.ClusterName, UID: h.Spec.ClusterUID}, nil
}

// keepHome records which member holds a PerUser home before the first
// assignment that needs it.
func (r *Reconciler) keepHome(ctx context.Context, p *pass) error {
	s, t := p.session, p.spec
	if t.Home.Mode != v1alpha1.HomePerUser {
		return nil
	}
	h := &v1alpha1.VDIHome{}
	h.Namespace, h.Name = s.Namespace, v1alpha1.HomeName(s.Namespace, s.Spec.User, s.Spec.Template)
	err := r.Client.Get(ctx, client.ObjectKeyFromObject(h), h)
	if err == nil || !apierrors.IsNotFound(err) {
		return err
	}
	h.Spec = v1alpha1.HomeSpec{
		User: s.Spec.User, Template: s.Spec.Template,
		ClusterName: p.reserved.ClusterName, ClusterUID: p.reserved.ClusterUID,
		ClaimName: h.Name, Size: t.Home.Size,
	}
	if err := r.Client.Create(ctx, h); err != nil {
		// Another session of the user may have been first: the retry finds its
		// record, and goes where it says.
		return fmt.Errorf("recording the home: %w", err)
	}
	return nil
}
