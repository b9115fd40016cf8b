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

// pod makes the desktop run, or not, as the assignment says. One that is being
// removed is waited for: its successor has its name.
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
		// Somebody else's Pod is not this session's, whatever its name.
		p.found.Pod = nil
	}
	if observe.Pod(p.assignment, p.found).Status == "True" {
		p.memory.ended.times = 0
	}
	return err
}

// podGoes removes the session's own Pod where it must not run on, or waits for its
// end. It reports whether there is nothing to keep.
func (s *podStep) podGoes(ctx context.Context, p *pass, have *corev1.Pod) (bool, error) {
	s.seeNode(p, have)
	if given, err := s.giveBack(ctx, p, have); err != nil || given {
		return true, err
	}
	switch {
	case have.DeletionTimestamp != nil:
		return true, s.awaitStop(ctx, p, have)
	case mustNotRun(p):
		return true, children.Pods.Remove(ctx, p.children, have)
	case hasEnded(have):
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

// mustNotRun reports whether no desktop is to be there. A failure that is not
// written yet does not count: nobody would know why the Pod went.
func mustNotRun(p *pass) bool {
	return p.assignment.Spec.RunState == api.ModeSuspended || p.assignment.GivenUp() || p.ending != nil
}

// mayMake reports whether all is there that a new Pod needs, and nobody is in
// its way.
func (s *podStep) mayMake(ctx context.Context, p *pass) (bool, error) {
	if mustNotRun(p) {
		if p.ending != nil {
			p.found.PodProblem = &observe.Problem{Reason: p.ending.reason, Message: p.ending.message}
		}
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

// stillWanted asks the API server itself whether the assignment is as the cache has
// it. After an outage a watch may come back half a minute late, and what the hub has
// withdrawn meanwhile may run elsewhere: a desktop must not be made of it.
func (s *podStep) stillWanted(ctx context.Context, p *pass) (bool, error) {
	now := &api.SessionAssignment{}
	err := s.APIReader.Get(ctx, client.ObjectKeyFromObject(p.assignment), now)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("making sure of the assignment: %w", err)
	}
	if err != nil || now.UID != p.assignment.UID || now.Generation != p.assignment.Generation || now.DeletionTimestamp != nil {
		p.found.PodProblem = &observe.Problem{
			Reason: api.ReasonPodPending, Message: "The Pod waits until the agent has read the assignment as it is now.",
		}
		return false, nil
	}
	return true, nil
}

func hasEnded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
}

// replaceEnded removes a Pod that ended for good, so that the next pass makes
// another: at first soon, then ever later. Until then it can be looked at.
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
func (s *podStep) unseenPod(ctx context.Context, p *pass) (*corev1.Pod, error) {
	if p.memory.sight == sightNone || p.memory.sight == sightUnknown && saysStopped(p.assignment) {
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

// saysStopped reports whether an earlier process has made sure of the end.
func saysStopped(a *api.SessionAssignment) bool {
	c := meta.FindStatusCondition(a.Status.Conditions, api.ConditionPodReady)
	return a.Status.ObservedGeneration == a.Generation && c != nil && (c.Reason == api.ReasonSuspended || c.Reason == api.ReasonTimeExpired)
}
