package session

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// podSight is what is known of an assignment's Pod besides what the cache shows.
type podSight int

const (
	// sightUnknown: this process has not looked.
	sightUnknown podSight = iota
	// sightNone: the API server itself had none, and none was made since.
	sightNone
	// sightSome: there was one.
	sightSome
)

// sawPod notes that there is a Pod, or that none is known of.
func (m *memory) sawPod(there bool) {
	if there {
		m.sight = sightSome
	}
}

// unseenPod asks the API server itself for a Pod that the cache does not show, before
// the end of a run is reported: the hub gives the home of a desktop that has stopped to
// another session, and after an outage a watch may come back half a minute late. It
// asks once for each end.
func (r *Reconciler) unseenPod(ctx context.Context, p *pass) (*corev1.Pod, error) {
	if p.memory.sight == sightNone || p.memory.sight == sightUnknown && saysStopped(p.assignment) {
		return nil, nil
	}
	left, err := r.podsLeft(ctx, p)
	if err != nil {
		return nil, err
	}
	if len(left) == 0 {
		p.memory.sight = sightNone
		return nil, nil
	}
	p.RequeueWithin(podPoll)
	return left[0], nil
}

// saysStopped reports whether an earlier process has made sure of the end.
func saysStopped(a *api.SessionAssignment) bool {
	c := meta.FindStatusCondition(a.Status.Conditions, api.ConditionPodReady)
	return a.Status.ObservedGeneration == a.Generation && c != nil && (c.Reason == api.ReasonSuspended || c.Reason == api.ReasonTimeExpired)
}
