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

// gateSettles is how long a gate must have been seen to hold its desktop back
// before its Pod is replaced. The kubelet reports that a gate was passed within
// that time.
const gateSettles = 10 * time.Second

// outdated reports whether a Pod is to make way for the desktop that the
// assignment asks for now, though it runs: somebody asked for another try, or it
// was made from another desktop and the hub has placed the session anew since.
func outdated(a *api.SessionAssignment, pod *corev1.Pod) bool {
	attempt, err := strconv.ParseInt(pod.Annotations[api.AnnotationAttempt], 10, 64)
	if err == nil && attempt < a.Spec.Attempt {
		return true
	}
	epoch, err := strconv.ParseInt(pod.Annotations[api.AnnotationEpoch], 10, 64)
	return otherwise(a, pod) && err == nil && epoch < a.Spec.Epoch
}

// otherwise reports whether a Pod was made from another desktop than the
// assignment has now.
func otherwise(a *api.SessionAssignment, pod *corev1.Pod) bool {
	return pod.Annotations[render.AnnotationDesktopHash] != render.DesktopHash(a)
}

// stale returns why a Pod whose desktop can't have started is replaced; empty: it is
// not.
func (s *podStep) stale(p *pass, pod *corev1.Pod) string {
	shut := gateIsShut(p, pod)
	if !shut {
		p.memory.shutSince = time.Time{}
	}
	switch {
	case shut && p.hasSettled(&p.memory.shutSince, gateSettles):
		return "its desktop waits at a gate that is not made so any more"
	case otherwise(p.assignment, pod) && !mayHaveStarted(pod):
		return "the desktop has changed before it ran"
	}
	return ""
}

// hasSettled reports whether what is seen now has been seen for that long.
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
// reports that it can't be started. What else has a node is left as it is, and takes
// the change at its next start.
func mayHaveStarted(pod *corev1.Pod) bool {
	return desktopRuns(pod) || pod.Spec.NodeName != "" && !observe.FailsToStart(pod)
}

func desktopRuns(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.State.Running != nil })
}

// replaceStale removes a Pod that is stale, if neither it nor the assignment has
// changed since they were seen: the cache of an agent that has just started may show
// an assignment that is older than its Pod.
func (s *podStep) replaceStale(ctx context.Context, p *pass, pod *corev1.Pod, why string) error {
	if wanted, err := s.stillWanted(ctx, p); err != nil || !wanted {
		p.found.PodProblem = nil // there is a Pod
		p.RequeueWithin(children.ConflictRetry)
		return err
	}
	log.FromContext(ctx).Info(transitionReplaced, append(transitionValues(p.assignment), "reason", why)...)
	return children.Pods.RemoveUnchanged(ctx, p.children, pod)
}
