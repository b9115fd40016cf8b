package session

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/agent/observe"
	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/proto/tracing"
)

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
func (r *Reconciler) wroteStatus(ctx context.Context, p *pass, have, want api.SessionAssignmentStatus) {
	from, to := stateOf(have), stateOf(want)
	if from != to || have.Reason != want.Reason {
		values := append(transitionValues(p.assignment), "from", from, "to", to, "reason", want.Reason)
		if to == "Ready" && want.StartTime != nil && have.StartTime == nil {
			values = append(values, "duration", want.StartTime.Sub(p.assignment.CreationTimestamp.Time).String())
		}
		log.FromContext(ctx).Info(transitionDesktop, values...)
	}
	if p.walk.Traced() {
		r.Trace.Add(p.walk, tracing.Span{Name: spanReport, From: p.now, To: r.Clock.Now(), Attributes: []tracing.Attribute{
			tracing.From.String(from), tracing.To.String(to), tracing.Reason.String(want.Reason),
		}})
	}
}

// wroteRelease is wroteStatus of the end, with which the assignment goes.
func (r *Reconciler) wroteRelease(ctx context.Context, p *pass) {
	now := r.Clock.Now()
	asked := p.assignment.DeletionTimestamp.Time
	log.FromContext(ctx).Info(transitionStopped, append(transitionValues(p.assignment), "from", stateOf(p.assignment.Status),
		"duration", now.Sub(asked).String())...)
	if p.walk.Traced() {
		r.Trace.Add(p.walk, tracing.Span{Name: spanStop, From: asked, To: now})
	}
}
