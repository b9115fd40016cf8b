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

// The spans of a session's trace in its member, besides those of storing its assignment and
// writing its children.
const (
	spanSchedule = "pod.schedule"
	spanStart    = "pod.start"
	spanReady    = "pod.ready"
	spanReport   = "report"
	spanStop     = "stop"
)

// podSpans has which spans of a Pod's start were recorded.
type podSpans struct {
	pod                       types.UID
	scheduled, started, ready bool
}

// tracePod records the phases of a Pod's start, by its status: until it was scheduled, until
// the desktop ran, and until it was ready. A Pod that was ready when this process first saw it
// was traced before.
func (d *Dependencies) tracePod(p *pass) {
	pod := p.Found.Pod
	if !p.Span.Traced() || pod == nil || pod.DeletionTimestamp != nil {
		return
	}
	recorded := &p.memory.podSpans
	if recorded.pod != pod.UID {
		before := meta.IsStatusConditionTrue(p.Assignment.Status.Conditions, api.ConditionPodReady)
		*recorded = podSpans{pod: pod.UID, scheduled: before, started: before, ready: before}
	}
	scheduled, started, ready := trueSince(pod, corev1.PodScheduled), startedAt(pod), trueSince(pod, corev1.PodReady)
	for _, s := range []struct {
		name     string
		recorded *bool
		from, to time.Time
	}{
		{spanSchedule, &recorded.scheduled, pod.CreationTimestamp.Time, scheduled},
		{spanStart, &recorded.started, scheduled, started},
		{spanReady, &recorded.ready, started, ready},
	} {
		if *s.recorded || s.from.IsZero() || s.to.IsZero() {
			continue
		}
		*s.recorded = true
		// The span is the same if it is recorded again after a restart.
		d.Trace.AddAs(p.Span.Named(s.name+"/"+string(pod.UID)), p.Span, tracing.Span{
			Name: s.name, From: s.from, To: s.to, Attributes: []tracing.Attribute{tracing.Node.String(pod.Spec.NodeName)},
		})
	}
}

// trueSince returns since when a condition of a Pod is true, and zero if it is not.
func trueSince(pod *corev1.Pod, kind corev1.PodConditionType) time.Time {
	if c := observe.PodCondition(pod, kind); c.Status == corev1.ConditionTrue {
		return c.LastTransitionTime.Time
	}
	return time.Time{}
}

// startedAt returns when a Pod's last container started, and zero until all have.
func startedAt(pod *corev1.Pod) (last time.Time) {
	for _, s := range pod.Status.ContainerStatuses {
		if s.State.Running == nil {
			return time.Time{}
		}
		if at := s.State.Running.StartedAt.Time; at.After(last) {
			last = at
		}
	}
	return last
}

// The transitions of a desktop in its member, each a log line once it is durable. They are
// listed in deploy/observability/README.md.
const (
	transitionDesktop  = "Desktop changed its state"
	transitionReplaced = "Desktop's Pod is replaced"
	transitionStopped  = "Desktop is stopped"
	// transitionLostDeleted is for sessions without a home that may run twice.
	transitionLostDeleted = "Desktop's Pod on a lost node is force-deleted"
)

// stateOf summarizes a status.
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

// transitionValues returns the keys and values of a log line about an assignment.
func transitionValues(a *api.SessionAssignment) []any {
	return []any{"session", a.Spec.Session.Namespace + "/" + a.Spec.Session.Name, "epoch", a.Spec.Epoch}
}

// wroteStatus logs and traces a transition that the write of a status has made durable.
func (d *Dependencies) wroteStatus(ctx context.Context, p *pass, have, want api.SessionAssignmentStatus) {
	from, to := stateOf(have), stateOf(want)
	if from != to || have.Reason != want.Reason {
		values := append(transitionValues(p.Assignment), "from", from, "to", to, "reason", want.Reason)
		if to == "Ready" && want.StartTime != nil && have.StartTime == nil {
			values = append(values, "duration", want.StartTime.Sub(p.Assignment.CreationTimestamp.Time).String())
		}
		log.FromContext(ctx).Info(transitionDesktop, values...)
	}
	d.Trace.Add(p.Span, tracing.Span{Name: spanReport, From: p.Now, To: d.Clock.Now(), Attributes: []tracing.Attribute{
		tracing.From.String(from), tracing.To.String(to), tracing.Reason.String(want.Reason),
	}})
}

// wroteRelease logs and traces the end of an assignment.
func (d *Dependencies) wroteRelease(ctx context.Context, p *pass) {
	now := d.Clock.Now()
	deleted := p.Assignment.DeletionTimestamp.Time
	log.FromContext(ctx).Info(transitionStopped, append(transitionValues(p.Assignment), "from", stateOf(p.Assignment.Status),
		"duration", now.Sub(deleted).String())...)
	d.Trace.Add(p.Span, tracing.Span{Name: spanStop, From: deleted, To: now})
}
