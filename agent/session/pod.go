package session

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/agent/observe"
	"github.com/vdi-fleet/vdi-fleet/agent/session/children"
	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// podStep creates, replaces and stops the Pod of an assignment.
type podStep struct {
	*Dependencies
	mounts  mounts
	ordered orderedDeletion
}

// pod creates, keeps or removes the Pod. It waits for one that is being removed, which has the
// name of the next.
func (s *podStep) pod(ctx context.Context, p *pass) error {
	have, err := children.Pods.Find(ctx, p.Set, p.Assignment.Name)
	if err != nil {
		return err
	}
	if have == nil && mustNotRun(p) {
		if have, err = s.liveUncachedPod(ctx, p); err != nil {
			return err
		}
	}
	p.Found.Pod = have
	if have == nil {
		if may, err := s.mayCreate(ctx, p); err != nil || !may {
			return err
		}
	}
	if children.Pods.Owns(p.Assignment, have) {
		if done, err := s.removePodIfRequired(ctx, p, have); err != nil || done {
			return err
		}
	}
	want := p.rendered()
	p.isolation.apply(want, have)
	if err := s.dropFinalizerOfOldServer(ctx, want); err != nil {
		return err
	}
	p.Found.Pod, p.Found.PodProblem, err = children.Pods.Ensure(ctx, p.Set, have, want)
	if p.Found.PodProblem != nil && p.Found.PodProblem.Reason == api.ReasonConflict {
		// It is another owner's Pod.
		p.Found.Pod = nil
	}
	s.observeGrowth(p)
	if observe.Pod(p.Assignment, p.Found).Status == "True" {
		p.memory.ended.times = 0
	}
	return err
}

// removePodIfRequired removes the session's Pod if it must not go on, or waits for its end. It
// reports false for a Pod that is to be kept.
func (s *podStep) removePodIfRequired(ctx context.Context, p *pass, have *corev1.Pod) (bool, error) {
	s.observeNode(p, have)
	if deleted, err := s.forceDeleteLost(ctx, p, have); err != nil || deleted {
		return true, err
	}
	switch {
	case have.DeletionTimestamp != nil:
		return true, s.awaitStop(ctx, p, have)
	case mustNotRun(p):
		return true, children.Pods.Remove(ctx, p.Set, have)
	case observe.Ended(have):
		return true, s.replaceEnded(ctx, p, have)
	case outdated(p.Assignment, have):
		log.FromContext(ctx).Info(transitionReplaced, append(transitionValues(p.Assignment), "reason", "the desktop has changed, or is retried")...)
		return true, children.Pods.Remove(ctx, p.Set, have)
	}
	if reason := s.stale(p, have); reason != "" {
		return true, s.replaceStale(ctx, p, have, reason)
	}
	return false, nil
}

// mustNotRun reports whether there must be no desktop. A failure counts only once it is
// written, so that the reason of the removal is not lost.
func mustNotRun(p *pass) bool {
	return !p.Assignment.DeletionTimestamp.IsZero() || p.Assignment.Spec.RunState == api.ModeSuspended || p.Assignment.FailedPermanently() || p.ending != nil
}

// mayCreate reports whether a Pod may be created: its prerequisites exist, and no other Pod
// uses the home.
func (s *podStep) mayCreate(ctx context.Context, p *pass) (bool, error) {
	if mustNotRun(p) {
		p.Found.PodProblem = p.ending
		return false, nil
	}
	if p.fencing.notYet != nil {
		p.Found.PodProblem = p.fencing.notYet
		return false, nil
	}
	if name := api.WithoutLimit(p.Assignment.Spec.Desktop.Resources); name != "" {
		p.Found.PodProblem = &observe.Problem{Reason: api.ReasonResourcesInvalid, Message: fmt.Sprintf(
			"The desktop requests 0 of %s, which would be no limit: delete the session and create it with more.", name)}
		return false, nil
	}
	found := &p.Found
	if p.failed || found.HomeProblem != nil || found.ConfigProblem != nil || len(found.Secrets) > 0 || !p.isolation.inForce {
		return false, nil
	}
	if may, err := s.mayMount(ctx, p); err != nil || !may {
		return false, err
	}
	return s.isCurrent(ctx, p)
}

// isCurrent reports whether the assignment in the API server is that of the cache. After an
// outage a watch may resume half a minute late, and a session that was withdrawn meanwhile may
// run elsewhere.
func (s *podStep) isCurrent(ctx context.Context, p *pass) (bool, error) {
	now := &api.SessionAssignment{}
	err := s.APIReader.Get(ctx, client.ObjectKeyFromObject(p.Assignment), now)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading the assignment from the API server: %w", err)
	}
	if err != nil || now.UID != p.Assignment.UID || now.Generation != p.Assignment.Generation || now.DeletionTimestamp != nil {
		p.Found.PodProblem = &observe.Problem{
			Reason: api.ReasonPodPending, Message: "The Pod waits until the agent's cache shows the current assignment.",
		}
		return false, nil
	}
	return true, nil
}

// replaceEnded removes a Pod that has ended, with backoff, so that the next pass creates
// another. Until then it can be inspected.
func (s *podStep) replaceEnded(ctx context.Context, p *pass, pod *corev1.Pod) error {
	last := &p.memory.ended
	if last.pod != pod.UID {
		*last = lastEnd{pod: pod.UID, at: p.Now, times: last.times + 1}
	}
	if wait := last.at.Add(children.RetryAfter(last.times - 1)).Sub(p.Now); wait > 0 {
		p.RequeueWithin(wait)
		return nil
	}
	return children.Pods.Remove(ctx, p.Set, pod)
}

// liveUncachedPod reads a Pod that the cache does not show from the API server, before the end
// of a run is reported: the hub then assigns the home to other sessions, and after an outage a
// watch may resume half a minute late.
func (s *podStep) liveUncachedPod(ctx context.Context, p *pass) (*corev1.Pod, error) {
	if reportedStopped(p.Assignment) {
		return nil, nil
	}
	left, err := s.podsLeft(ctx, p)
	if err != nil || len(left) == 0 {
		return nil, err
	}
	p.RequeueWithin(podPoll)
	return left[0], nil
}

// reportedStopped reports whether the status states that there is no Pod, for a reason that
// lasts until the assignment changes.
func reportedStopped(a *api.SessionAssignment) bool {
	c := meta.FindStatusCondition(a.Status.Conditions, api.ConditionPodReady)
	return a.Status.ObservedGeneration == a.Generation && c != nil &&
		(c.Reason == api.ReasonSuspended || c.Reason == api.ReasonTimeExpired || a.FailedPermanently() && c.Reason == a.Status.Failure.Reason)
}
