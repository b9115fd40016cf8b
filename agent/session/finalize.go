package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/agent/observe"
	"github.com/vdi-fleet/vdi-fleet/agent/session/children"
	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/proto/denied"
)

// finalizer removes the children of an assignment that is being deleted.
type finalizer struct{ *podStep }

// finalize removes the children in order, and then the finalizer: first the endpoint, then the
// Pods and the config, and last the home. Only the Pods are waited for without a
// deadline.
func (f finalizer) finalize(ctx context.Context, p *pass) error {
	if !controllerutil.ContainsFinalizer(p.Assignment, api.AssignmentFinalizer) {
		return nil
	}
	err := f.removeAll(ctx, p)
	if !apierrors.IsForbidden(err) && p.Found.Denied == "" {
		return err
	}
	if terminating, readErr := f.namespaceTerminating(ctx, p.Assignment.Namespace); readErr != nil || !terminating {
		return errors.Join(err, readErr)
	}
	return f.finalizeWithNamespace(ctx, p)
}

// removeAll removes the children, and the finalizer once they are gone.
func (f finalizer) removeAll(ctx context.Context, p *pass) error {
	for _, s := range []struct {
		name string
		run  func(context.Context, *pass) (done bool, err error)
	}{
		{"endpoint", f.removeEndpoint},
		{"Pods", f.removePods},
		{"config", f.removeConfig},
		{"home", f.finalizeHome},
		{"remaining objects", f.awaitRemoval},
	} {
		done, err := s.run(ctx, p)
		if err != nil {
			return fmt.Errorf("removing the %s: %w", s.name, err)
		}
		if !done {
			return f.report(ctx, p, f.stopping(ctx, p))
		}
	}
	return f.release(ctx, p)
}

// removeEndpoint deletes Ingress, HTTPRoute and Service, and does not wait for their
// finalizers, such as a load balancer's.
func (f finalizer) removeEndpoint(ctx context.Context, p *pass) (bool, error) {
	if err := removeOwned(ctx, p, children.Ingresses); err != nil {
		return false, err
	}
	problem, err := p.OpenRoutes(ctx, f.Options.Network.Gateway != nil)
	if err != nil {
		return false, err
	}
	if problem == nil {
		if err := removeOwned(ctx, p, children.HTTPRoutes); err != nil {
			return false, err
		}
	}
	return true, removeOwned(ctx, p, children.Services)
}

// removeConfig deletes the config, now that the Pod is gone.
func (f finalizer) removeConfig(ctx context.Context, p *pass) (bool, error) {
	return true, removeOwned(ctx, p, children.ConfigMaps)
}

// removeOwned removes a child, if the assignment owns one.
func removeOwned[T client.Object](ctx context.Context, p *pass, k children.Kind[T]) error {
	have, err := k.Find(ctx, p.Set, p.Assignment.Name)
	if err != nil || !k.Owns(p.Assignment, have) {
		return err
	}
	p.recordFinalizers(k.Name, have)
	if err := k.Remove(ctx, p.Set, have); err != nil {
		return err
	}
	if p.Found.Denied != "" && !slices.Contains(p.left, p.Found.Denied) {
		p.left = append(p.left, p.Found.Denied)
	}
	return nil
}

// recordFinalizers records a child whose deletion waits for its finalizers.
func (p *pass) recordFinalizers(kind string, o client.Object) {
	if finalizers := o.GetFinalizers(); len(finalizers) > 0 {
		p.left = append(p.left, fmt.Sprintf("%s %s is kept by finalizer %s", kind, o.GetName(), strings.Join(finalizers, ", ")))
	}
}

// awaitRemoval waits for the remaining objects until CleanupDeadline: no desktop runs any
// more, and no load balancer or storage driver must keep a session for ever.
func (f finalizer) awaitRemoval(ctx context.Context, p *pass) (bool, error) {
	if _, forced := p.Assignment.Annotations[api.AnnotationForceCleanup]; forced || len(p.left) == 0 {
		return true, nil
	}
	if p.memory.stoppedAt.IsZero() {
		p.memory.stoppedAt = p.Now
	}
	if wait := p.memory.stoppedAt.Add(f.Options.CleanupDeadline).Sub(p.Now); wait > 0 {
		p.RequeueWithin(min(wait, removalPoll))
		return false, nil
	}
	left := strings.Join(p.left, "; ")
	log.FromContext(ctx).Info("Cleanup deadline passed, removing the finalizer", "left", left)
	f.event(p.Assignment, corev1.EventTypeWarning, api.EventSkipped, "The desktop is stopped, and the session no longer waits for the remaining objects: "+left+".")
	return true, nil
}

// stopping returns the status of an assignment with remaining children.
func (f finalizer) stopping(ctx context.Context, p *pass) api.SessionAssignmentStatus {
	status := observe.Stopping(p.Assignment, p.Found, p.left, p.Now)
	f.account(ctx, p, &status)
	return status
}

// release removes the finalizer, which confirms the stop to the hub.
func (f finalizer) release(ctx context.Context, p *pass) error {
	before := p.Assignment.DeepCopy()
	controllerutil.RemoveFinalizer(p.Assignment, api.AssignmentFinalizer)
	children.CountWrite(kindAssignment, "release")
	err := f.Client.Patch(ctx, p.Assignment, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	switch {
	case apierrors.IsConflict(err):
		p.RequeueWithin(children.ConflictRetry)
		return nil
	case denied.Is(err) && !apierrors.IsNotFound(err):
		p.Assignment = before
		p.DenyRemoval(ctx, kindAssignment, fmt.Errorf("removing the finalizer: %w", err))
		return f.report(ctx, p, f.stopping(ctx, p))
	case client.IgnoreNotFound(err) != nil:
		return fmt.Errorf("removing the finalizer: %w", err)
	}
	p.After = 0
	f.wroteRelease(ctx, p)
	return nil
}

// Removing a finalizer is the only write that the agent may do outside of admitted namespaces:
// a namespace that is deleted may lose the agent's RoleBinding first, which can't be
// recreated.
//
// +kubebuilder:rbac:groups=vdi.kasm.io,resources=sessionassignments,verbs=patch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get

// namespaceTerminating reports whether a namespace is being deleted, or is gone.
func (f finalizer) namespaceTerminating(ctx context.Context, name string) (bool, error) {
	var namespace corev1.Namespace
	err := f.APIReader.Get(ctx, client.ObjectKey{Name: name}, &namespace)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading namespace %s: %w", name, err)
	}
	return err != nil || namespace.DeletionTimestamp != nil, nil
}

// finalizeWithNamespace removes the finalizer of an assignment whose namespace is being
// deleted, after the agent has lost its permissions there. The namespace controller deletes
// all objects, including homes; only the Pods are waited for, since the end of the assignment
// is reported as the end of the desktop.
func (f finalizer) finalizeWithNamespace(ctx context.Context, p *pass) error {
	left, err := f.podsLeft(ctx, p)
	if err == nil && len(left) == 0 {
		return f.release(ctx, p)
	}
	p.RequeueWithin(podPoll)
	return err
}
