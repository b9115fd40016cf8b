package session

import (
	"context"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/agent/observe"
	"github.com/vdi-fleet/vdi-fleet/agent/render"
	"github.com/vdi-fleet/vdi-fleet/agent/session/children"
	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// gateSettles is how long a desktop must have been seen to wait at its gate before its Pod
// is replaced. The kubelet reports within that time that a gate was passed.
const gateSettles = 10 * time.Second

// outdated reports whether a Pod is to be replaced although it runs: spec.attempt was
// raised, or it is of another desktop and the hub has rescheduled the session since.
func outdated(a *api.SessionAssignment, pod *corev1.Pod) bool {
	attempt, err := strconv.ParseInt(pod.Annotations[api.AnnotationAttempt], 10, 64)
	if err == nil && attempt < a.Spec.Attempt {
		return true
	}
	epoch, err := strconv.ParseInt(pod.Annotations[api.AnnotationEpoch], 10, 64)
	return ofOtherDesktop(a, pod) && err == nil && epoch < a.Spec.Epoch
}

// ofOtherDesktop reports whether a Pod is of another desktop than the assignment has now.
func ofOtherDesktop(a *api.SessionAssignment, pod *corev1.Pod) bool {
	return pod.Annotations[render.AnnotationDesktopHash] != render.DesktopHash(a)
}

// stale returns why a Pod whose desktop can't have started is replaced, and "" if it is
// not.
func (s *podStep) stale(p *pass, pod *corev1.Pod) string {
	shut := gateIsShut(p, pod)
	if !shut {
		p.memory.shutSince = time.Time{}
	}
	switch {
	case shut && p.hasSettled(&p.memory.shutSince, gateSettles):
		return "its desktop waits at a gate that is not made so any more"
	case ofOtherDesktop(p.assignment, pod) && !mayHaveStarted(pod):
		return "the desktop has changed before it ran"
	}
	return ""
}

// hasSettled reports whether something has been seen for that long.
func (p *pass) hasSettled(since *time.Time, d time.Duration) bool {
	if since.IsZero() {
		*since = p.now
	}
	left := since.Add(d).Sub(p.now)
	p.RequeueWithin(left)
	return left <= 0
}

// mayHaveStarted reports whether a Pod's desktop may run. A kubelet starts it before
// the API server knows, so that the version of the Pod is no proof: a Pod has not
// started while it has no node, which binding it would change, or while its kubelet
// reports that it can't be started. Any other Pod with a node is kept, and its next start
// takes the change.
func mayHaveStarted(pod *corev1.Pod) bool {
	runs := slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.State.Running != nil })
	return runs || pod.Spec.NodeName != "" && !observe.FailsToStart(pod)
}

// replaceStale removes a stale Pod, if neither it nor the assignment has changed since they
// were read: the cache of an agent that has just started may show an assignment that is
// older than its Pod.
func (s *podStep) replaceStale(ctx context.Context, p *pass, pod *corev1.Pod, why string) error {
	if wanted, err := s.stillWanted(ctx, p); err != nil || !wanted {
		p.found.PodProblem = nil // there is a Pod
		p.RequeueWithin(children.ConflictRetry)
		return err
	}
	log.FromContext(ctx).Info(transitionReplaced, append(transitionValues(p.assignment), "reason", why)...)
	return children.Pods.RemoveUnchanged(ctx, p.children, pod)
}
