package session

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
	"github.com/vdi-fleet/vdi-fleet/proto/denied"
)

// showDenied shows on a session that the hub's API server denies a request which the
// session needs, and returns the error: the request is repeated with backoff. An event
// reports it if the status can't be written either, and for a running session, whose
// conditions describe its desktop.
func (r *Reconciler) showDenied(ctx context.Context, key types.NamespacedName, cause error) error {
	s := &v1alpha1.VDISession{}
	if err := r.Client.Get(ctx, key, s); err != nil {
		return client.IgnoreNotFound(err)
	}
	after := s.DeepCopy()
	switch deleting := !s.DeletionTimestamp.IsZero(); {
	case deleting:
		setDenied(after, v1alpha1.ConditionAssigned, cause)
	case s.Status.Placement != nil:
	case meta.IsStatusConditionTrue(s.Status.Conditions, v1alpha1.ConditionAccepted):
		setDenied(after, v1alpha1.ConditionScheduled, cause)
	default:
		setDenied(after, v1alpha1.ConditionAccepted, cause)
	}
	status.Summarize(after, nil, r.Clock.Now())
	if equality.Semantic.DeepEqual(s.Status, after.Status) {
		if s.Status.Placement != nil && s.DeletionTimestamp.IsZero() {
			denialEvent(r.Recorder, s, cause)
		}
		return cause
	}
	if err := r.writer().status(ctx, s, after); denied.Is(err) {
		cause = errors.Join(cause, err)
	} else if err != nil {
		return errors.Join(cause, err)
	}
	denialEvent(r.Recorder, s, cause)
	return cause
}

func denialEvent(recorder events.EventRecorder, s *v1alpha1.VDISession, cause error) {
	recorder.Eventf(s, nil, "Warning", v1alpha1.EventWriteDenied, "Write", "%s", truncate(denied.Explain(cause)))
}

func setDenied(s *v1alpha1.VDISession, condition string, cause error) {
	status.SetFalse(s, condition, v1alpha1.ReasonWriteDenied, denied.Explain(cause))
}
