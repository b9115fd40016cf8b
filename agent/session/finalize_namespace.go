package session

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Removing a finalizer is the one write that the agent may make outside of admitted
// namespaces: a namespace that is deleted loses the agent's RoleBinding in no
// particular order, and nothing can be created there to give the right back.
//
// +kubebuilder:rbac:groups=vdi.kasm.io,resources=sessionassignments,verbs=patch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get

// namespaceGoes reports whether a namespace is being deleted, or is gone.
func (r *Reconciler) namespaceGoes(ctx context.Context, name string) (bool, error) {
	var namespace corev1.Namespace
	err := r.APIReader.Get(ctx, client.ObjectKey{Name: name}, &namespace)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading namespace %s: %w", name, err)
	}
	return err != nil || namespace.DeletionTimestamp != nil, nil
}

// finalizeWithNamespace removes the finalizer of an assignment whose namespace is
// being deleted and where the agent may not write any more. The namespace controller
// deletes all that is there, homes included; only the Pods are waited for, since the
// end of the assignment is reported as the end of the desktop.
func (r *Reconciler) finalizeWithNamespace(ctx context.Context, p *pass) error {
	left, err := r.podsLeft(ctx, p)
	if err != nil {
		return err
	}
	if len(left) > 0 {
		p.RequeueWithin(podPoll)
		return nil
	}
	return r.release(ctx, p)
}
