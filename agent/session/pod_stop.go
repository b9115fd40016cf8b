package session

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/agent/observe"
	"github.com/vdi-fleet/vdi-fleet/agent/render"
	"github.com/vdi-fleet/vdi-fleet/agent/session/children"
	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

func keptUntilStopped(pod *corev1.Pod) bool {
	return controllerutil.ContainsFinalizer(pod, api.PodFinalizer)
}

// awaitStop removes our finalizer from a Pod that is being deleted once it has stopped.
// Where the assignment asks for no proof, the Pod goes as it would without a finalizer.
func (r *Reconciler) awaitStop(ctx context.Context, p *pass, pod *corev1.Pod) error {
	if !keptUntilStopped(pod) {
		return nil
	}
	proven := observe.Stopped(pod, r.nodeOf(pod))
	if !proven && (render.ProvesStop(p.assignment) || ptr.Deref(pod.DeletionGracePeriodSeconds, 1) > 0) {
		p.RequeueWithin(nodePoll) // a taint of its node is no event of the Pod
		return nil
	}
	if err := r.releasePod(ctx, pod); err != nil {
		return err
	}
	p.RequeueWithin(children.CacheDelay)
	return nil
}

// releasePod removes our finalizer from a Pod as it was seen.
func (r *Reconciler) releasePod(ctx context.Context, pod *corev1.Pod) error {
	released := pod.DeepCopy()
	controllerutil.RemoveFinalizer(released, api.PodFinalizer)
	children.CountWrite(children.Pods.Name, "release")
	err := r.Client.Patch(ctx, released, client.MergeFromWithOptions(pod, client.MergeFromWithOptimisticLock{}))
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("removing the finalizer of Pod %s: %w", pod.Name, err)
	}
	return nil // what changed it has it looked at again
}

// releaseOrphans releases the stopped Pods of an assignment that is gone: somebody has
// removed its finalizer.
func (r *Reconciler) releaseOrphans(ctx context.Context, assignment client.ObjectKey) error {
	var list corev1.PodList
	err := r.Client.List(ctx, &list, client.InNamespace(assignment.Namespace), client.MatchingLabels{api.LabelAssignment: assignment.Name})
	if err != nil {
		return fmt.Errorf("listing Pods: %w", err)
	}
	for i := range list.Items {
		if pod := &list.Items[i]; keptUntilStopped(pod) && observe.Stopped(pod, r.nodeOf(pod)) {
			if err := r.releasePod(ctx, pod); err != nil {
				return err
			}
		}
	}
	return nil
}

// giveBack removes by force the Pod of a node that has not answered for LostAfter, so
// that the session's desktop starts on another one, unless that desktop must never run
// twice or has a home: then only an operator knows what helps.
func (r *Reconciler) giveBack(ctx context.Context, p *pass, pod *corev1.Pod) (given bool, err error) {
	if p.found.GivenBack.IsZero() {
		if !render.ProvesStop(p.assignment) && pod.Spec.NodeName != "" && !isReady(pod) {
			p.RequeueWithin(nodePoll)
		}
		return false, nil
	}
	if wait := p.found.GivenBack.Sub(p.now); wait > 0 {
		p.RequeueWithin(min(wait, nodePoll))
		return false, nil
	}
	if err := r.forcePod(ctx, p, pod); err != nil {
		return false, err
	}
	p.RequeueWithin(children.ConflictRetry)
	log.FromContext(ctx).Info(transitionGivenBack, append(transitionValues(p.assignment), "node", pod.Spec.NodeName)...)
	r.event(p.assignment, corev1.EventTypeWarning, api.EventNodeGivenUp, fmt.Sprintf(
		"Node %s has not answered for %s: its Pod was deleted without waiting for the kubelet, which may run it still.", pod.Spec.NodeName, r.Options.LostAfter))
	return true, nil
}

// forcePod takes a Pod out of the API server without waiting for its kubelet.
func (r *Reconciler) forcePod(ctx context.Context, p *pass, pod *corev1.Pod) error {
	err := p.children.Write(children.Pods.Name, "force", func() error {
		return r.Client.Delete(ctx, pod, client.Preconditions{UID: ptr.To(pod.UID)}, client.GracePeriodSeconds(0))
	})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting Pod %s by force: %w", pod.Name, err)
	}
	if !keptUntilStopped(pod) {
		return nil
	}
	return r.releaseByForce(ctx, pod)
}

// releaseByForce removes our finalizer from a Pod whatever has changed of it.
func (r *Reconciler) releaseByForce(ctx context.Context, pod *corev1.Pod) error {
	var now corev1.Pod
	err := r.APIReader.Get(ctx, client.ObjectKeyFromObject(pod), &now)
	if apierrors.IsNotFound(err) || err == nil && (now.UID != pod.UID || !keptUntilStopped(&now)) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading Pod %s: %w", pod.Name, err)
	}
	return r.releasePod(ctx, &now)
}

func isReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
