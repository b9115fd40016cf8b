package session

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/proto/tracing"
)

// The spans of a session's trace in its member, besides the storing of its assignment
// and the writes of its children.
const (
	spanSchedule = "pod.schedule"
	spanStart    = "pod.start"
	spanReady    = "pod.ready"
	spanReport   = "report"
	spanStop     = "stop"
)

// walkOf is the trace that an assignment is in; the zero Point where it is in none.
// It is stored with it, so that an agent that has begun anew goes on with it.
func (r *Reconciler) walkOf(a *api.SessionAssignment) tracing.Point {
	if !r.Trace.On() {
		return tracing.Point{}
	}
	return tracing.Parse(a.Annotations[api.AnnotationTraceparent])
}

// podTold is what was told of a Pod's start.
type podTold struct {
	pod                       types.UID
	scheduled, started, ready bool
}

// tracePod writes how far a Pod has come, as the API server has it: what the
// scheduler took, then the kubelet until the desktop ran, then the desktop until it
// was ready. A Pod that was ready when this process first saw it was told of before.
func (r *Reconciler) tracePod(p *pass) {
	pod := p.found.Pod
	if !p.walk.Traced() || pod == nil || pod.DeletionTimestamp != nil {
		return
	}
	told := &p.memory.podTold
	if told.pod != pod.UID {
		before := meta.IsStatusConditionTrue(p.assignment.Status.Conditions, api.ConditionPodReady)
		*told = podTold{pod: pod.UID, scheduled: before, started: before, ready: before}
	}
	bound, isBound := podTime(pod, corev1.PodScheduled)
	ran, runs := startedAt(pod)
	ready, isReady := podTime(pod, corev1.PodReady)
	for _, s := range []struct {
		name     string
		told     *bool
		is       bool
		from, to time.Time
	}{
		{spanSchedule, &told.scheduled, isBound, pod.CreationTimestamp.Time, bound},
		{spanStart, &told.started, isBound && runs, bound, ran},
		{spanReady, &told.ready, runs && isReady, ran, ready},
	} {
		if *s.told || !s.is {
			continue
		}
		*s.told = true
		// The same span if it is told again after a restart.
		r.Trace.AddAs(p.walk.Named(s.name+"/"+string(pod.UID)), p.walk, tracing.Span{
			Name: s.name, From: s.from, To: s.to, Attributes: []tracing.Attribute{tracing.Node.String(pod.Spec.NodeName)},
		})
	}
}

func podTime(pod *corev1.Pod, kind corev1.PodConditionType) (time.Time, bool) {
	for _, c := range pod.Status.Conditions {
		if c.Type == kind && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Time, true
		}
	}
	return time.Time{}, false
}

// startedAt is when the last of its containers began to run, once all do.
func startedAt(pod *corev1.Pod) (last time.Time, all bool) {
	for _, s := range pod.Status.ContainerStatuses {
		if s.State.Running == nil {
			return time.Time{}, false
		}
		if at := s.State.Running.StartedAt.Time; at.After(last) {
			last = at
		}
	}
	return last, len(pod.Status.ContainerStatuses) > 0
}
