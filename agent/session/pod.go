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

// pod makes the desktop run, or not, as the assignment requires. It waits for one that is
// being removed: its successor has its name.
func (s *podStep) pod(ctx context.Context, p *pass) error {
	have, err := children.Pods.Find(ctx, p.children, p.assignment.Name)
	if err != nil {
		return err
	}
	if have == nil && mustNotRun(p) {
		if have, err = s.unseenPod(ctx, p); err != nil {
			return err
		}
	}
	p.found.Pod = have
	p.memory.sawPod(have != nil)
	if have == nil {
		if may, err := s.mayMake(ctx, p); err != nil || !may {
			return err
		}
	}
	if have != nil && children.Pods.Owns(p.assignment, have) {
		if goes, err := s.podGoes(ctx, p, have); err != nil || goes {
			return err
		}
	}
	want := p.rendered()
	if err := s.mayKeep(ctx, want); err != nil {
		return err
	}
	p.found.Pod, p.found.PodProblem, err = children.Pods.Ensure(ctx, p.children, have, want)
	p.memory.sawPod(p.found.Pod != nil)
	if p.found.PodProblem != nil && p.found.PodProblem.Reason == api.ReasonConflict {
		// Another owner's Pod is not this session's, whatever its name.
		p.found.Pod = nil
	}
	if observe.Pod(p.assignment, p.found).Status == "True" {
		p.memory.ended.times = 0
	}
	return err
}

// podGoes removes the session's own Pod where it must not go on, or waits for its end. It
// reports whether there is nothing to keep.
func (s *podStep) podGoes(ctx context.Context, p *pass, have *corev1.Pod) (bool, error) {
	s.seeNode(p, have)
	if abandoned, err := s.abandonLost(ctx, p, have); err != nil || abandoned {
		return true, err
	}
	switch {
	case have.DeletionTimestamp != nil:
		return true, s.awaitStop(ctx, p, have)
	case mustNotRun(p):
		return true, children.Pods.Remove(ctx, p.children, have)
	case observe.Ended(have):
		return true, s.replaceEnded(ctx, p, have)
	case outdated(p.assignment, have):
		log.FromContext(ctx).Info(transitionReplaced, append(transitionValues(p.assignment), "reason", "the desktop has changed, or is tried again")...)
		return true, children.Pods.Remove(ctx, p.children, have)
	}
	if why := s.stale(p, have); why != "" {
		return true, s.replaceStale(ctx, p, have, why)
	}
	return false, nil
}

// mustNotRun reports whether there must be no desktop. A failure that is not written yet
// does not count: the reason of the removal would be lost.
func mustNotRun(p *pass) bool {
	return p.assignment.Spec.RunState == api.ModeSuspended || p.assignment.FailedPermanently() || p.ending != nil
}

// mayMake reports whether a Pod may be created: all that it needs exists, and no other
// Pod uses the home.
func (s *podStep) mayMake(ctx context.Context, p *pass) (bool, error) {
	if mustNotRun(p) {
		p.found.PodProblem = p.ending
		return false, nil
	}
	if p.fencing.notYet != nil {
		p.found.PodProblem = p.fencing.notYet
		return false, nil
	}
	if name := api.WithoutLimit(p.assignment.Spec.Desktop.Resources); name != "" {
		p.found.PodProblem = &observe.Problem{Reason: api.ReasonResourcesInvalid, Message: fmt.Sprintf(
			"The desktop asks for 0 of %s, which the kubelet would take for no limit: delete the session and create it with more.", name)}
		return false, nil
	}
	if !p.homeIsOurs || !p.configIsOurs || !p.secretsAreSent || !p.isolated {
		return false, nil
	}
	if may, err := s.mayMount(ctx, p); err != nil || !may {
		return false, err
	}
	return s.stillWanted(ctx, p)
}

// stillWanted reads the assignment from the API server and reports whether it is as the
// cache has it. After an outage a watch may resume half a minute late, and what the hub
// has withdrawn meanwhile may run elsewhere: no desktop must be created from it.
func (s *podStep) stillWanted(ctx context.Context, p *pass) (bool, error) {
	now := &api.SessionAssignment{}
	err := s.APIReader.Get(ctx, client.ObjectKeyFromObject(p.assignment), now)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading the assignment from the API server: %w", err)
	}
	if err != nil || now.UID != p.assignment.UID || now.Generation != p.assignment.Generation || now.DeletionTimestamp != nil {
		p.found.PodProblem = &observe.Problem{
			Reason: api.ReasonPodPending, Message: "The Pod waits until the agent has read the assignment as it is now.",
		}
		return false, nil
	}
	return true, nil
}

// replaceEnded removes a Pod that ended for good, with backoff, so that the next pass
// creates another. Until then it can be inspected.
func (s *podStep) replaceEnded(ctx context.Context, p *pass, pod *corev1.Pod) error {
	last := &p.memory.ended
	if last.pod != pod.UID {
		*last = lastEnd{pod: pod.UID, at: p.now, times: last.times + 1}
	}
	if wait := last.at.Add(children.RetryAfter(last.times - 1)).Sub(p.now); wait > 0 {
		p.RequeueWithin(wait)
		return nil
	}
	return children.Pods.Remove(ctx, p.children, pod)
}

// podSight is whether an assignment has a Pod, besides what the cache shows.
type podSight int

const (
	// sightUnknown is until this process has checked.
	sightUnknown podSight = iota
	// sightNone is if the API server itself had none, and none was created since.
	sightNone
	// sightSome is if there was one.
	sightSome
)

// sawPod records whether a Pod is known.
func (m *memory) sawPod(there bool) {
	if there {
		m.sight = sightSome
	}
}

// unseenPod reads a Pod from the API server that the cache does not show, before the end of
// a run is reported: the hub gives the home of a desktop that has stopped to another
// session, and after an outage a watch may resume half a minute late. It reads once for
// each end.
func (s *podStep) unseenPod(ctx context.Context, p *pass) (*corev1.Pod, error) {
	if p.memory.sight == sightNone || p.memory.sight == sightUnknown && reportedStopped(p.assignment) {
		return nil, nil
	}
	left, err := s.podsLeft(ctx, p)
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

// reportedStopped reports whether an earlier process has confirmed the end.
func reportedStopped(a *api.SessionAssignment) bool {
	c := meta.FindStatusCondition(a.Status.Conditions, api.ConditionPodReady)
	return a.Status.ObservedGeneration == a.Generation && c != nil && (c.Reason == api.ReasonSuspended || c.Reason == api.ReasonTimeExpired)
}
