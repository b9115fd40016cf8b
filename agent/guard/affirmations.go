package guard

import (
	"context"
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// +kubebuilder:rbac:groups=vdi.kasm.io,roleName=vdi-agent-sessions,resources=sessionassignments/status,verbs=patch

const (
	// gateOpen is the answer to a gate that may open, which ignores the value.
	gateOpen = time.Second
	// maxAffirmations bounds the remembered numbers, and exceeds a member's sessions. An
	// assignment whose number is dropped is affirmed again.
	maxAffirmations = 100_000
)

// mayStart decides whether a desktop may start. One of mode Hold may if the hub ordered the
// placement since this process began, or affirmed it by a number of this process. State of
// an earlier process does not count: after a power cut the hub may reschedule the session if
// an operator declares the member fenced.
func (e *Endpoint) mayStart(ctx context.Context, a *v1alpha1.SessionAssignment) (time.Duration, int, string) {
	switch a.Spec.FailoverMode {
	case v1alpha1.FailoverHold:
	case v1alpha1.FailoverFence:
		return 0, http.StatusForbidden, "the session has mode Fence now: its Pod is recreated with a guard"
	default:
		return gateOpen, http.StatusOK, ""
	}
	if e.options.Ordered(a) {
		return gateOpen, http.StatusOK, ""
	}
	const notAffirmed = "the hub has not affirmed yet that the session was not rescheduled while the agent was down"
	known, _ := e.affirmations.Get(a.UID)
	switch number, _ := known.(int64); {
	case number > 0 && a.Spec.Lapse >= number:
		return gateOpen, http.StatusOK, ""
	case number > 0 && a.Status.Lapse >= number:
		return 0, http.StatusForbidden, notAffirmed
	}
	if err := e.requestAffirmation(ctx, a); err != nil {
		return 0, http.StatusForbidden, err.Error()
	}
	return 0, http.StatusForbidden, notAffirmed
}

// requestAffirmation writes a new number to the assignment's status, which is reported to
// the hub. The optimistic lock ensures that it is new even if the cache is behind: the
// gate's next request retries.
func (e *Endpoint) requestAffirmation(ctx context.Context, a *v1alpha1.SessionAssignment) error {
	if _, writing := e.affirming.LoadOrStore(a.UID, true); writing {
		return nil
	}
	defer e.affirming.Delete(a.UID)
	number := max(a.Spec.Lapse, a.Status.Lapse) + 1
	// The write is completed even if the gate disconnects.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), serveTimeout)
	defer cancel()
	before := a.DeepCopy()
	a.Status.Lapse = number
	err := e.options.Client.Status().Patch(ctx, a, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("requesting the hub's affirmation: %w", err)
	}
	e.affirmations.Add(a.UID, number)
	log.FromContext(ctx).Info("A held desktop waits until the hub affirms that it was not rescheduled",
		"assignment", client.ObjectKeyFromObject(a), "session", a.Spec.Session.Name, "epoch", a.Spec.Epoch, "lapse", number)
	return nil
}
