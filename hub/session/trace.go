package session

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/assignment"
	"github.com/vdi-fleet/vdi-fleet/hub/placement"
	"github.com/vdi-fleet/vdi-fleet/hub/session/lifecycle"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
	"github.com/vdi-fleet/vdi-fleet/proto/tracing"
)

// The spans of a session's trace on the hub, without those of the link.
const (
	spanSession   = "session"
	spanWait      = "wait"
	spanPlace     = "place"
	spanMirror    = "mirror"
	spanStopped   = "stop.request"
	spanUnplaced  = "release"
	spanTerminate = "terminate"
)

// logTransitions logs the transitions that a write of a status has made durable. The write
// was under lock, so that each transition is logged once, by the leader that made it.
func logTransitions(ctx context.Context, before, after *v1alpha1.VDISession, now time.Time) {
	for _, t := range status.Transitions(before, after, now) {
		log.FromContext(ctx).Info(t.Message, append([]any{"session", nameOf(after)}, t.Values...)...)
	}
}

// logEnd logs the removal of a session's finalizer, which ends the object.
func logEnd(ctx context.Context, s *v1alpha1.VDISession, now time.Time) {
	log.FromContext(ctx).Info(status.TransitionDeleted, append([]any{"session", nameOf(s)}, append(status.PlacementValues(s), "from", string(s.Status.Phase),
		"duration", now.Sub(s.DeletionTimestamp.Time).String())...)...)
}

func nameOf(s *v1alpha1.VDISession) string { return s.Namespace + "/" + s.Name }

// traces writes the spans of sessions' lifecycles on the hub.
type traces struct {
	tracer *tracing.Tracer
}

func (t traces) of(s *v1alpha1.VDISession) tracing.Point {
	return assignment.LifecycleTrace(t.tracer, s)
}

// ended writes the spans of a session's end.
func (t traces) ended(s *v1alpha1.VDISession, now time.Time) {
	trace := t.of(s)
	if !trace.Traced() {
		return
	}
	t.tracer.Add(trace, tracing.Span{Name: spanTerminate, From: s.DeletionTimestamp.Time, To: now, Attributes: about(s)})
	gone := s.DeepCopy()
	if gone.Status.Placement = nil; status.RunMissed(s, gone) {
		t.root(s, trace, now, "deleted before it ran")
	}
}

// wrote writes the root of a trace once its desktop is ready, or never will be, and a
// span of its end.
func (t traces) wrote(before, after *v1alpha1.VDISession, now time.Time) {
	if !t.tracer.On() {
		return
	}
	trace := t.of(before)
	switch {
	case status.RunStarts(before, after):
		t.root(before, trace, now, "")
	case status.RunMissed(before, after):
		t.root(before, trace, now, status.ReasonOf(after, v1alpha1.ConditionReady))
	}
	if moved := status.PlacementTransition(before, after); moved != nil {
		name := map[string]string{status.TransitionStopped: spanStopped, status.TransitionUnplaced: spanUnplaced, status.TransitionFailedOver: spanUnplaced}[moved.Message]
		if name != "" {
			t.tracer.Add(trace, tracing.Span{Name: name, From: now, To: now, Attributes: append(about(before),
				tracing.Reason.String(status.ReasonOf(after, v1alpha1.ConditionReady)))})
		}
	}
}

// root writes the parent span of all others of a trace.
func (t traces) root(s *v1alpha1.VDISession, trace tracing.Point, now time.Time, failed string) {
	if !trace.Traced() {
		return
	}
	p, span := s.Status.Placement, tracing.Span{Name: spanSession, From: status.RunRequested(s), To: now, Failed: failed, Attributes: about(s)}
	switch {
	case p.Run > 1:
		span.Previous = t.tracer.Lifecycle(string(s.UID), p.Epoch, p.Run-1)
	case status.PlacedByFailover(s):
		f := s.Status.LastFailover
		span.Attributes = append(span.Attributes, tracing.From.String(f.From), tracing.Reason.String(f.Reason))
	}
	t.tracer.AddAs(trace, tracing.Point{}, span)
}

// placed writes the spans of a placement: how long the session waited, and the decision,
// which began at began.
func (t traces) placed(before *v1alpha1.VDISession, w *lifecycle.Write, began, now time.Time) {
	s := w.Session
	trace := t.of(s)
	if !trace.Traced() {
		return
	}
	at, requested := s.Status.Placement, status.RunRequested(s)
	if at.Run <= 1 && requested.Before(began) && (at.Epoch == 1 || status.PlacedByFailover(s)) {
		t.tracer.Add(trace, tracing.Span{Name: spanWait, From: requested, To: began, Attributes: []tracing.Attribute{
			tracing.Reason.String(status.UnscheduledReason(before)),
		}})
	}
	d := w.Decision
	t.tracer.Add(trace, tracing.Span{Name: spanPlace, From: began, To: now, Attributes: append(about(s),
		tracing.Result.String(w.Result), tracing.Reason.String(d.Reason), tracing.Message.String(d.Message),
		tracing.Candidates.Int(d.Candidates), tracing.Fit.Int(d.Fit), tracing.Score.String(scoreText(d)))})
}

func scoreText(d placement.Decision) string {
	if d.Score.Name == "" {
		return ""
	}
	return d.Score.Name + "=" + d.Score.Value
}

// mirrored writes the span of a report that was shown on its session.
func (t traces) mirrored(before, after *v1alpha1.VDISession, from, now time.Time) {
	if trace := t.of(after); trace.Traced() {
		t.tracer.Add(trace, tracing.Span{Name: spanMirror, From: from, To: now, Attributes: []tracing.Attribute{
			tracing.From.String(string(before.Status.Phase)), tracing.To.String(string(after.Status.Phase)),
			tracing.Reason.String(status.ReasonOf(after, v1alpha1.ConditionReady)),
		}})
	}
}

// about returns the attributes that identify a session and its member. Like the log, they
// do not name the user.
func about(s *v1alpha1.VDISession) []tracing.Attribute {
	out := []tracing.Attribute{
		tracing.Namespace.String(s.Namespace), tracing.Session.String(s.Name), tracing.SessionUID.String(string(s.UID)),
		tracing.Template.String(s.Spec.Template),
	}
	if p := s.Status.Placement; p != nil {
		out = append(out, tracing.Member.String(p.ClusterName), tracing.Region.String(p.Region), tracing.Policy.String(p.Policy),
			tracing.Epoch.Int64(p.Epoch), tracing.Run.Int64(max(1, p.Run)))
	}
	return out
}
