package session

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// secrets records the hub's Secrets that are missing or differ from what was sent. The hub
// resends those that the status names, and agent/assignment stores them. A Pod is created once
// all exist.
func (r *Reconciler) secrets(ctx context.Context, p *pass) error {
	for _, want := range p.Assignment.Spec.Secrets {
		var have corev1.Secret
		err := r.Client.Get(ctx, client.ObjectKey{Namespace: p.Assignment.Namespace, Name: want.Name}, &have,
			&client.GetOptions{UnsafeDisableDeepCopy: ptr.To(true)})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("reading Secret %s: %w", want.Name, err)
		}
		if apierrors.IsNotFound(err) || !asSent(&have, want.Version) {
			p.Found.Secrets = append(p.Found.Secrets, want.Name)
		}
	}
	return nil
}

// asSent reports whether a Secret has the assignment's version, without drift.
func asSent(secret *corev1.Secret, version string) bool {
	return secret.DeletionTimestamp == nil &&
		secret.Annotations[api.AnnotationSecretVersion] == version &&
		secret.Annotations[api.AnnotationSecretHash] == api.SecretDataHash(secret.Data)
}
