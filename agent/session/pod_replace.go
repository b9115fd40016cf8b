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

// gateStableAfter is how long a gate must have been outdated before its Pod is replaced. The
// kubelet reports within that time that a gate has opened.
const gateStableAfter = 10 * time.Second

// outdated reports whether a running Pod is replaced: spec.attempt was raised, or the desktop
// has changed and the hub has rescheduled the session since.
func outdated(a *api.SessionAssignment, pod *corev1.Pod) bool {
	below := func(annotation string, current int64) bool {
		value, err := strconv.ParseInt(pod.Annotations[annotation], 10, 64)
		return err == nil && value < current
	}
	return below(api.AnnotationAttempt, a.Spec.Attempt) || desktopChanged(a, pod) && below(api.AnnotationEpoch, a.Spec.Epoch)
}

// desktopChanged reports whether the desktop has changed since a Pod was created.
func desktopChanged(a *api.SessionAssignment, pod *corev1.Pod) bool {
	return pod.Annotations[render.AnnotationDesktopHash] != render.DesktopHash(a)
}

// stale returns why a Pod whose desktop can't have started is replaced, and "" if it is not.
func (s *podStep) stale(p *pass, pod *corev1.Pod) string {
	gate := gateOutdated(p, pod)
	if !gate {
		p.memory.gateOutdatedSince = time.Time{}
	}
	switch {
	case gate && p.isStable(&p.memory.gateOutdatedSince, gateStableAfter):
		return "the desktop waits at an outdated gate"
	case desktopChanged(p.Assignment, pod) && !mayHaveStarted(pod):
		return "the desktop has changed before it started"
	}
	return ""
}

// isStable reports whether a state has been observed for that long.
func (p *pass) isStable(since *time.Time, d time.Duration) bool {
	if since.IsZero() {
		*since = p.Now
	}
	left := since.Add(d).Sub(p.Now)
	p.RequeueWithin(left)
	return left <= 0
}

// mayHaveStarted reports whether a Pod's desktop may run. A kubelet starts it before the API
// server shows that. It has not started only if the Pod has no node, or its kubelet reports
// that it can't be started.
func mayHaveStarted(pod *corev1.Pod) bool {
	runs := slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.State.Running != nil })
	return runs || pod.Spec.NodeName != "" && !observe.FailsToStart(pod)
}

// replaceStale removes a stale Pod, if neither it nor the assignment has changed since they
// were read: a new process's cache may show an assignment that is older than its Pod.
func (s *podStep) replaceStale(ctx context.Context, p *pass, pod *corev1.Pod, reason string) error {
	if current, err := s.isCurrent(ctx, p); err != nil || !current {
		p.Found.PodProblem = nil // there is a Pod
		p.RequeueWithin(children.ConflictRetry)
		return err
	}
	log.FromContext(ctx).Info(transitionReplaced, append(transitionValues(p.Assignment), "reason", reason)...)
	return children.Pods.RemoveUnchanged(ctx, p.Set, pod)
}
