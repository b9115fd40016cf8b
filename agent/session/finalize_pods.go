package session

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/agent/render"
	"github.com/vdi-fleet/vdi-fleet/agent/session/children"
	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

const (
	// podPoll is how often to read a Pod that the cache does not show.
	podPoll = time.Second
	// removalPoll is how often to check a removal that causes no event.
	removalPoll = 5 * time.Second
)

// removePods removes the Pods. It is done when neither the cache, by label, nor the API server,
// by name, has a Pod of the assignment, or when an operator forces the cleanup. It reads the API
// server only if the cache has none.
func (f finalizer) removePods(ctx context.Context, p *pass) (bool, error) {
	// An operator may force the cleanup, with a reason.
	if reason, forced := p.Assignment.Annotations[api.AnnotationForceCleanup]; forced {
		return f.forcePods(ctx, p, reason)
	}
	left, err := f.podsOf(ctx, p, f.Client, client.MatchingFields{render.AssignmentIndex: p.Assignment.Name})
	if err != nil {
		return false, err
	}
	if len(left) == 0 {
		if left, err = f.podsLeft(ctx, p); err != nil || len(left) == 0 {
			return err == nil, err
		}
		p.RequeueWithin(podPoll)
	}
	p.Found.Pod = left[0]
	for _, pod := range left {
		if _, err := f.removePodIfRequired(ctx, p, pod); err != nil {
			return false, err
		}
	}
	p.RequeueWithin(children.CacheDelay) // the cache may not show the Pod's end
	return false, nil
}

// forcePods deletes the Pods without waiting for their kubelets, which may still run them, at
// an operator's request.
func (f finalizer) forcePods(ctx context.Context, p *pass, reason string) (bool, error) {
	left, err := f.podsLeft(ctx, p)
	if err != nil {
		return false, err
	}
	for _, pod := range left {
		if err := f.forcePod(ctx, p, pod); err != nil {
			return false, err
		}
	}
	if !p.memory.forceReported {
		p.memory.forceReported = true
		log.FromContext(ctx).Info("The cleanup is forced", "reason", reason, "pods", len(left))
		f.event(p.Assignment, corev1.EventTypeWarning, api.EventForced, fmt.Sprintf(
			"%s was set (%q): %d Pods were deleted without waiting for their kubelets, which may still run them.",
			api.AnnotationForceCleanup, reason, len(left)))
	}
	return true, nil
}

// podsLeft returns the assignment's Pod from the API server, by name: its labels may have been
// removed.
func (s *podStep) podsLeft(ctx context.Context, p *pass) ([]*corev1.Pod, error) {
	// The agent may list Pods everywhere, and get one only in admitted namespaces.
	return s.podsOf(ctx, p, s.APIReader, client.MatchingFields{metav1.ObjectNameField: p.Assignment.Name})
}

// podsOf returns the selected Pods that the assignment owns.
func (s *podStep) podsOf(ctx context.Context, p *pass, from client.Reader, selected client.ListOption) ([]*corev1.Pod, error) {
	var list corev1.PodList
	if err := from.List(ctx, &list, client.InNamespace(p.Assignment.Namespace), selected); err != nil {
		return nil, fmt.Errorf("listing Pods: %w", err)
	}
	var own []*corev1.Pod
	for i := range list.Items {
		if children.Pods.Owns(p.Assignment, &list.Items[i]) {
			own = append(own, &list.Items[i])
		}
	}
	return own, nil
}
