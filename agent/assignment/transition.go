package assignment

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
	"github.com/vdi-fleet/vdi-fleet/proto/tracing"
)

// The transitions of an assignment, each a line of the log. They are listed in
// deploy/observability/README.md.
const (
	transitionStored    = "Assignment was stored"
	transitionRefused   = "Assignment was refused"
	transitionWithdrawn = "Assignment was withdrawn"
)

// The spans of an order: from its receipt until its answer, and within that the writes to
// the API server.
const (
	spanReceive = "receive"
	spanStore   = "store"
)

func transitionValues(a *v1alpha1.SessionAssignment) []any {
	return []any{"session", a.Spec.Session.Namespace + "/" + a.Spec.Session.Name, "epoch", a.Spec.Epoch}
}

// logRefused logs an order that was refused.
func logRefused(ctx context.Context, a *v1alpha1.SessionAssignment, out *fleetv1.OrderResult) {
	if out.GetCode() == fleetv1.ResultCode_RESULT_CODE_REFUSED {
		log.FromContext(ctx).Info(transitionRefused, append(transitionValues(a), "reason", out.GetReason(), "message", out.GetMessage())...)
	}
}

// traceStored records how an order was received, and stored or refused.
func (s *Store) traceStored(a *v1alpha1.SessionAssignment, out *fleetv1.OrderResult, received, began time.Time) {
	if !s.Trace.On() {
		return
	}
	parent, hash := tracing.Parse(a.Annotations[v1alpha1.AnnotationTraceparent]), a.Annotations[v1alpha1.AnnotationSpecHash]
	if !parent.Traced() {
		return
	}
	now, failed := time.Now(), ""
	if out.GetCode() == fleetv1.ResultCode_RESULT_CODE_REFUSED {
		failed = out.GetReason() + ": " + out.GetMessage()
	}
	// The span is the same if the order is repeated after a restart.
	span := parent.Named("receive/" + hash)
	s.Trace.Add(span, tracing.Span{Name: spanStore, From: began, To: now, Failed: failed})
	s.Trace.AddAs(span, parent, tracing.Span{
		Name: spanReceive, Kind: tracing.Receives, From: received, To: now, Failed: failed,
		Attributes: []tracing.Attribute{tracing.Epoch.Int64(a.Spec.Epoch), tracing.Result.String(out.GetCode().String())},
	})
}
