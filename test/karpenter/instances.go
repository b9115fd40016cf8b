package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	controllerruntime "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/karpenter/kwok/apis/v1alpha1"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// providerPrefix begins the provider IDs of the KWOK provider; the name of the node follows.
const providerPrefix = "kwok://"

// instances is a controller that does what happens in a real cloud outside of Karpenter: it
// registers the node of a launched instance after the registration delay of its
// KWOKNodeClass, adds its devices, removes its startup taints as a CNI's agent would, and deletes
// the node of an instance without a NodeClaim as a cloud controller manager would.
//
// It derives all of it from stored objects, so instances start up also while Karpenter is
// restarted, as real ones do.
type instances struct {
	kube   client.Client
	faults faultReader
	now    func() time.Time
}

// Register implements controller.Controller.
func (i *instances) Register(_ context.Context, m manager.Manager) error {
	return controllerruntime.NewControllerManagedBy(m).
		Named("instances").
		For(&v1.NodeClaim{}).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(claimOfNode)).
		Watches(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(i.allClaims)).
		Complete(i)
}

// Reconcile implements reconcile.Reconciler.
func (i *instances) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	var claim v1.NodeClaim
	if err := i.kube.Get(ctx, request.NamespacedName, &claim); err != nil {
		if apierrors.IsNotFound(err) {
			return reconcile.Result{}, i.deleteNodes(ctx, request.Name)
		}
		return reconcile.Result{}, err
	}
	name, launched := nodeName(&claim)
	if !launched || !claim.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, nil
	}
	faults, err := i.faults.of(ctx, claim.Labels[v1.NodePoolLabelKey])
	if err != nil {
		return reconcile.Result{}, err
	}
	var node corev1.Node
	err = i.kube.Get(ctx, types.NamespacedName{Name: name}, &node)
	var left delay
	switch {
	case apierrors.IsNotFound(err):
		left, err = i.register(ctx, &claim, faults)
	case err == nil:
		left, err = i.complete(ctx, &claim, &node, faults)
	}
	if err != nil || left == never {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: time.Duration(left)}, nil
}

// register creates the node of an instance when it is due, and returns the time until then.
func (i *instances) register(ctx context.Context, claim *v1.NodeClaim, faults faults) (delay, error) {
	if claim.StatusConditions().Get(v1.ConditionTypeRegistered).IsTrue() {
		return never, nil // it existed, and was deleted
	}
	var class v1alpha1.KWOKNodeClass
	if err := i.kube.Get(ctx, types.NamespacedName{Name: claim.Spec.NodeClassRef.Name}, &class); err != nil {
		return never, fmt.Errorf("reading the registration delay: %w", err)
	}
	total := delay(class.Spec.NodeRegistrationDelay.Duration).plus(faults.Registration)
	launched := claim.StatusConditions().Get(v1.ConditionTypeLaunched).LastTransitionTime
	if left := total.left(launched.Time, i.now()); left > 0 {
		return left, nil
	}
	err := i.kube.Create(ctx, newNode(claim))
	return never, client.IgnoreAlreadyExists(err)
}

// complete adds to a node what it does not have at its creation, each when it is due, and
// returns the time until the next is.
func (i *instances) complete(ctx context.Context, claim *v1.NodeClaim, node *corev1.Node, faults faults) (delay, error) {
	next := never
	due := func(d delay, missing bool) bool {
		left := d.left(node.CreationTimestamp.Time, i.now())
		if missing && left > 0 {
			next = min(next, left)
		}
		return missing && left <= 0
	}
	stored := node.DeepCopy()
	if due(faults.Devices, !hasDevices(claim, node)) {
		addDevices(claim, node)
		if err := i.kube.Status().Patch(ctx, node, client.MergeFrom(stored)); err != nil {
			return never, ignoreStale(err)
		}
		stored = node.DeepCopy()
	}
	if due(faults.StartupTaints, hasStartupTaints(claim, node)) {
		removeStartupTaints(claim, node)
		// A merge patch replaces all taints, and others write them too.
		patch := client.MergeFromWithOptions(stored, client.MergeFromWithOptimisticLock{})
		if err := i.kube.Patch(ctx, node, patch); err != nil {
			return delay(retryPeriod), ignoreStale(err)
		}
	}
	return next, nil
}

// retryPeriod is the time until a write that met a newer node is tried again.
const retryPeriod = 100 * time.Millisecond

// ignoreStale ignores that a node is newer than the one read, or gone.
func ignoreStale(err error) error {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// deleteNodes deletes the nodes of a NodeClaim that does not exist.
func (i *instances) deleteNodes(ctx context.Context, claim string) error {
	var nodes corev1.NodeList
	if err := i.kube.List(ctx, &nodes, client.MatchingLabels{corev1.LabelHostname: claim}); err != nil {
		return err
	}
	for n := range nodes.Items {
		node := &nodes.Items[n]
		if !strings.HasPrefix(node.Spec.ProviderID, providerPrefix) || !node.DeletionTimestamp.IsZero() {
			continue
		}
		if err := i.kube.Delete(ctx, node); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting node %s of a deleted instance: %w", node.Name, err)
		}
	}
	return nil
}

// claimOfNode returns the NodeClaim of a node of the KWOK provider, which names it by the
// label for the hostname. Static nodes of a cluster have another provider ID, or none.
func claimOfNode(_ context.Context, object client.Object) []reconcile.Request {
	node, ok := object.(*corev1.Node)
	if !ok || !strings.HasPrefix(node.Spec.ProviderID, providerPrefix) {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: node.Labels[corev1.LabelHostname]}}}
}

// allClaims returns all NodeClaims if the faults have changed.
func (i *instances) allClaims(ctx context.Context, object client.Object) []reconcile.Request {
	if client.ObjectKeyFromObject(object) != faultsKey {
		return nil
	}
	var claims v1.NodeClaimList
	if err := i.kube.List(ctx, &claims); err != nil {
		return nil
	}
	var requests []reconcile.Request
	for n := range claims.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&claims.Items[n])})
	}
	return requests
}
