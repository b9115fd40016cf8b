package session

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/assignment"
	"github.com/vdi-fleet/vdi-fleet/hub/placement"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
	"github.com/vdi-fleet/vdi-fleet/proto/tracing"
)

// The spans of a session's trace on the hub, without those of the link.
const (
	spanSession   = "session"
	spanWait      = "wait"
	spanPlace     = "place"
	spanMirror    = "mirror"
	spanRest      = "rest"
	spanLeave     = "leave"
	spanTerminate = "terminate"
)

// wrote logs and traces the transitions that a write of a status has made durable. The
// write was under lock, so that each transition is logged once, by the leader that made it.
func (r *Reconciler) wrote(ctx context.Context, before, after *v1alpha1.VDISession) {
	now := r.Clock.Now()
	for _, t := range status.Transitions(before, after, now) {
		log.FromContext(ctx).Info(t.Message, append([]any{"session", nameOf(after)}, t.Values...)...)
	}
	if r.Trace.On() {
		r.traceWrite(before, after, now)
	}
}

// wroteEnd does the same for the removal of the finalizer, which ends the object.
func (r *Reconciler) wroteEnd(ctx context.Context, s *v1alpha1.VDISession) {
	now := r.Clock.Now()
	log.FromContext(ctx).Info(status.TransitionDeleted, append([]any{"session", nameOf(s)}, append(status.PlacementValues(s), "from", string(s.Status.Phase),
		"duration", now.Sub(s.DeletionTimestamp.Time).String())...)...)
	walk := r.walkOf(s)
	if !walk.Traced() {
		return
	}
	r.Trace.Add(walk, tracing.Span{Name: spanTerminate, From: s.DeletionTimestamp.Time, To: now, Attributes: about(s)})
	gone := s.DeepCopy()
	if gone.Status.Placement = nil; status.RunMissed(s, gone) {
		r.traceRoot(s, walk, now, "deleted before it ran")
	}
}

func nameOf(s *v1alpha1.VDISession) string { return s.Namespace + "/" + s.Name }

func (r *Reconciler) walkOf(s *v1alpha1.VDISession) tracing.Point { return assignment.Walk(r.Trace, s) }

// traceWrite writes the root of a trace once its desktop is ready, or never will be, and a
// span of its end.
func (r *Reconciler) traceWrite(before, after *v1alpha1.VDISession, now time.Time) {
	walk := r.walkOf(before)
	switch {
	case status.RunStarts(before, after):
		r.traceRoot(before, walk, now, "")
	case status.RunMissed(before, after):
		r.traceRoot(before, walk, now, status.ReasonOf(after, v1alpha1.ConditionReady))
	}
	if t := status.PlacementTransition(before, after); t != nil {
		name := map[string]string{status.TransitionStopped: spanRest, status.TransitionUnplaced: spanLeave, status.TransitionFailedOver: spanLeave}[t.Message]
		if name != "" {
			r.Trace.Add(walk, tracing.Span{Name: name, From: now, To: now, Attributes: append(about(before),
				tracing.Reason.String(status.ReasonOf(after, v1alpha1.ConditionReady)))})
		}
	}
}

// traceRoot writes the parent span of all others of a trace.
func (r *Reconciler) traceRoot(s *v1alpha1.VDISession, walk tracing.Point, now time.Time, failed string) {
	if !walk.Traced() {
		return
	}
	p, span := s.Status.Placement, tracing.Span{Name: spanSession, From: status.RunRequested(s), To: now, Failed: failed, Attributes: about(s)}
	switch {
	case p.Run > 1:
		span.Before = r.Trace.Walk(string(s.UID), p.Epoch, p.Run-1)
	case status.PlacedByFailover(s):
		f := s.Status.LastFailover
		span.Attributes = append(span.Attributes, tracing.From.String(f.From), tracing.Reason.String(f.Reason))
	}
	r.Trace.AddAs(walk, tracing.Point{}, span)
}

// tracePlaced writes the spans of a placement: how long the session waited, and the
// decision.
func (r *Reconciler) tracePlaced(before *v1alpha1.VDISession, p *pass, result string) {
	walk := r.walkOf(p.session)
	if !walk.Traced() {
		return
	}
	if at := p.session.Status.Placement; at.Run <= 1 {
		if asked := status.RunRequested(p.session); asked.Before(p.began) && (at.Epoch == 1 || status.PlacedByFailover(p.session)) {
			r.Trace.Add(walk, tracing.Span{Name: spanWait, From: asked, To: p.began, Attributes: []tracing.Attribute{
				tracing.Reason.String(status.UnscheduledReason(before)),
			}})
		}
	}
	d := p.decision
	r.Trace.Add(walk, tracing.Span{Name: spanPlace, From: p.began, To: r.Clock.Now(), Attributes: append(about(p.session),
		tracing.Result.String(result), tracing.Reason.String(d.Reason), tracing.Message.String(d.Message),
		tracing.Candidates.Int(d.Candidates), tracing.Fit.Int(d.Fit), tracing.Score.String(scoreText(d)))})
}

func scoreText(d placement.Decision) string {
	if d.Score.Name == "" {
		return ""
	}
	return d.Score.Name + "=" + d.Score.Value
}

// traceMirrored writes the span of a report that was shown on its session.
func (r *Reconciler) traceMirrored(before, after *v1alpha1.VDISession, from time.Time) {
	if walk := r.walkOf(after); walk.Traced() {
		r.Trace.Add(walk, tracing.Span{Name: spanMirror, From: from, To: r.Clock.Now(), Attributes: []tracing.Attribute{
			tracing.From.String(string(before.Status.Phase)), tracing.To.String(string(after.Status.Phase)),
			tracing.Reason.String(status.ReasonOf(after, v1alpha1.ConditionReady)),
		}})
	}
}

// about returns the attributes that identify a session and its member. They have no user,
// as no line of the log has.
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
