package session

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/agent/observe"
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
func (w *statusWriter) tracePod(p *pass) {
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
		w.Trace.AddAs(p.walk.Named(s.name+"/"+string(pod.UID)), p.walk, tracing.Span{
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

// The transitions of a desktop in its member, each a line of the log once it is
// durable. They are listed in deploy/observability/README.md.
const (
	transitionDesktop  = "Desktop changed its state"
	transitionReplaced = "Desktop's Pod makes way for another"
	transitionStopped  = "Desktop is stopped"
	// transitionGivenBack is of a session without a home that may run twice.
	transitionGivenBack = "Desktop of a lost node is given up there"
)

// stateOf sums up a status in a word.
func stateOf(s api.SessionAssignmentStatus) string {
	switch {
	case s.State == api.AssignmentStopping:
		return "Stopping"
	case s.Failure != nil:
		return "Failed"
	case observe.Ready(s):
		return "Ready"
	case s.State == "":
		return "New"
	}
	return "NotReady"
}

// transitionValues are the keys and values of a line of the log about an assignment.
func transitionValues(a *api.SessionAssignment) []any {
	return []any{"session", a.Spec.Session.Namespace + "/" + a.Spec.Session.Name, "epoch", a.Spec.Epoch}
}

// wroteStatus logs and traces what the write of a status has made durable.
func (w *statusWriter) wroteStatus(ctx context.Context, p *pass, have, want api.SessionAssignmentStatus) {
	from, to := stateOf(have), stateOf(want)
	if from != to || have.Reason != want.Reason {
		values := append(transitionValues(p.assignment), "from", from, "to", to, "reason", want.Reason)
		if to == "Ready" && want.StartTime != nil && have.StartTime == nil {
			values = append(values, "duration", want.StartTime.Sub(p.assignment.CreationTimestamp.Time).String())
		}
		log.FromContext(ctx).Info(transitionDesktop, values...)
	}
	if p.walk.Traced() {
		w.Trace.Add(p.walk, tracing.Span{Name: spanReport, From: p.now, To: w.Clock.Now(), Attributes: []tracing.Attribute{
			tracing.From.String(from), tracing.To.String(to), tracing.Reason.String(want.Reason),
		}})
	}
}

// wroteRelease is wroteStatus of the end, with which the assignment goes.
func (w *statusWriter) wroteRelease(ctx context.Context, p *pass) {
	now := w.Clock.Now()
	asked := p.assignment.DeletionTimestamp.Time
	log.FromContext(ctx).Info(transitionStopped, append(transitionValues(p.assignment), "from", stateOf(p.assignment.Status),
		"duration", now.Sub(asked).String())...)
	if p.walk.Traced() {
		w.Trace.Add(p.walk, tracing.Span{Name: spanStop, From: asked, To: now})
	}
}
