package session

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

const (
	// podPoll is how often a Pod is asked for that the cache does not show.
	podPoll = time.Second
	// restPoll is how often it is looked whether what is left has gone, where no
	// event says so.
	restPoll = 5 * time.Second
)

// removePods is done when the API server has no Pod of the assignment any
// more, by its name or by its labels, or when an operator has had enough. The
// cache is asked first, since it is near; it is not believed when it says that
// there is none.
func (r *Reconciler) removePods(ctx context.Context, p *pass) (bool, error) {
	reason, force := forced(p.assignment)
	if force {
		return r.forcePods(ctx, p, reason)
	}
	left, err := r.podsLeft(ctx, p, r.Client)
	if err != nil {
		return false, err
	}
	if len(left) == 0 {
		if left, err = r.podsLeft(ctx, p, r.APIReader); err != nil || len(left) == 0 {
			return err == nil, err
		}
		p.again(podPoll)
	}
	p.found.Pod, p.found.NodeLost = left[0], r.nodeLost(left[0])
	for _, pod := range left {
		if err := r.remove(ctx, p, kindPod, pod); err != nil {
			return false, err
		}
	}
	return false, nil
}

// forcePods takes the Pods out of the API server without waiting for their
// kubelets, who may be running them still: that is the operator's word alone.
func (r *Reconciler) forcePods(ctx context.Context, p *pass, reason string) (bool, error) {
	left, err := r.podsLeft(ctx, p, r.APIReader)
	if err != nil {
		return false, err
	}
	for _, pod := range left {
		writes.WithLabelValues(string(kindPod), "force").Inc()
		began := r.Clock.Now()
		err := r.Client.Delete(ctx, pod, client.Preconditions{UID: ptr.To(pod.UID)}, client.GracePeriodSeconds(0))
		r.traceApply(p, kindPod, "force", began, err)
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return false, fmt.Errorf("deleting Pod %s by force: %w", pod.Name, err)
		}
	}
	if !p.memory.forceTold {
		p.memory.forceTold = true
		log.FromContext(ctx).Info("The cleanup is forced", "reason", reason, "pods", len(left))
		r.event(p.assignment, corev1.EventTypeWarning, api.EventForced, fmt.Sprintf(
			"%s was set (%q): %d Pods were deleted without waiting for their kubelets, which may run them still.",
			api.AnnotationForceCleanup, reason, len(left)))
	}
	return true, nil
}

// podsLeft are the assignment's own Pods that a reader shows.
func (r *Reconciler) podsLeft(ctx context.Context, p *pass, from client.Reader) ([]*corev1.Pod, error) {
	var left []*corev1.Pod
	keep := func(pod *corev1.Pod) {
		if pods.stranger(p.assignment, pod) == "" {
			left = append(left, pod)
		}
	}
	var list corev1.PodList
	marks := client.MatchingLabels{api.LabelAssignment: p.assignment.Name}
	if err := from.List(ctx, &list, client.InNamespace(p.assignment.Namespace), marks); err != nil {
		return nil, fmt.Errorf("listing Pods: %w", err)
	}
	named := false
	for i := range list.Items {
		named = named || list.Items[i].Name == p.assignment.Name
		keep(&list.Items[i])
	}
	if named {
		return left, nil
	}
	// Somebody may have taken its labels away.
	var pod corev1.Pod
	err := from.Get(ctx, client.ObjectKeyFromObject(p.assignment), &pod)
	if err == nil {
		keep(&pod)
	}
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading the Pod: %w", err)
	}
	return left, nil
}
